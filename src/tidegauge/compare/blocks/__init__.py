"""Hashes of rows that databases compute themselves: the SQL of each engine for `model.canonical`, and blocks.

Knows no connection: whoever has one asks. May use the model alone."""
