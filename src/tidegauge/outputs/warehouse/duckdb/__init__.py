"""All that is particular to DuckDB as a warehouse."""
