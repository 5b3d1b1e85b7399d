"""From a spec, a watermark and what was found in the source to a frozen plan. Pure: no input, no output.
Knows model and errors alone.
"""
