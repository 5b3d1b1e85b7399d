"""A project from Python: load it, plan, run, look and prove, with results that show as tables.

May use everything but the command line and the demo, which use it in their turn.
"""
