"""All that is particular to reading DuckDB."""
