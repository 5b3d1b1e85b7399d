"""Turns a spec, a watermark and a survey of the source into a frozen plan. Pure: reads and writes nothing.
Knows model and errors alone.
"""
