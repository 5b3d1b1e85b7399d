"""The command line: one file for each command, and the options and tables that they share.
Knows operations and run; does no work of its own but asking, showing and exit codes.
"""
