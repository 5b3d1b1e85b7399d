"""From a database to frames: what is there, how far it is safe to read, and the rows of a window."""
