"""The Spark session of this process: its Java, its jars and its errors.
May use model, storage and errors.
"""
