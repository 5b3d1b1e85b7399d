"""Delta tables as outputs: rows and tag in one commit of the table's own log."""
