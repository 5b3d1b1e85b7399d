"""All that is particular to PostgreSQL as a warehouse."""
