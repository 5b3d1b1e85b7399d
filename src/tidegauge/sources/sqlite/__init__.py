"""All that is particular to reading SQLite."""
