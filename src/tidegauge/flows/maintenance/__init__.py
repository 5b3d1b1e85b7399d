"""Compaction and vacuum of the tables that flows write, and who still has to read their files.
The only code that lets files of a flow's Delta table be removed."""
