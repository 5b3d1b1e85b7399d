"""Where plans, claims and watermarks are kept: SQL databases, JSON files or Delta tables, one Protocol."""
