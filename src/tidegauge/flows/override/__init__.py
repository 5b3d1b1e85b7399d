"""What a change by hand would do to each kind of flow: previews of `watermark set|reset|copy`.
Reads ledger, sources and outputs; changes nothing."""
