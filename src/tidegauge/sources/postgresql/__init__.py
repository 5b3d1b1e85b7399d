"""All that is particular to reading PostgreSQL."""
