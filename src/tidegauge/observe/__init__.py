"""The events of a run, and how others see them: bars and lines, alert channels, metrics, lineage.
May use model alone.
"""
