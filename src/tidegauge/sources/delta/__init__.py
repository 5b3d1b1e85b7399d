"""Delta tables as inputs: what changed between two versions, as lazy frames."""
