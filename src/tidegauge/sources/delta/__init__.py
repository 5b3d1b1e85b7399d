"""Delta tables as inputs: their place in the catalogue, and the changes of a window of versions as frames.
Knows delta_log, spark and storage; Spark is imported when a frame is made.
"""
