"""A project from Python: load it, plan, run, show its status and verify it, with results that show as tables.

May use every room except cli, demo and dashboard, which use it.
"""
