"""Hashes of rows that databases compute themselves: the SQL of each engine for `model.canonical`, and blocks.

Has no connection: the caller runs the SQL. May use the model alone."""
