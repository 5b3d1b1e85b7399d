"""A small shop, and the demonstration that `tidegauge demo` runs on it.
May use every room but cli.
"""
