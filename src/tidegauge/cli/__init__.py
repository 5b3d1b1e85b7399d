"""The command line: one file for each command, and the options and tables that they share.
Calls operations and run; its own work is only to ask, to show results and to set exit codes.
"""
