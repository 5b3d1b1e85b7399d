"""The Spark session of this process: its Java, its jars and its errors.
Knows model, storage and errors; no room of data flow knows it.
"""
