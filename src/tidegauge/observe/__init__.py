"""The events of a run, and how they are shown and sent: bars and lines, alert channels, metrics, lineage.
May use only model and errors.
"""
