"""The events of a run, and how a person sees them: bars on a terminal, plain lines elsewhere.
May use model alone.
"""
