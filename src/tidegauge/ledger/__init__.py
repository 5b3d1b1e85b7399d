"""Where plans, claims and watermarks are kept: SQL stores behind one Protocol."""
