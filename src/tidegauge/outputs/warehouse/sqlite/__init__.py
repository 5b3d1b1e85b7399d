"""All that is particular to SQLite as a warehouse."""
