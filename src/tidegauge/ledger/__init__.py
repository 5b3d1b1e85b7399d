"""Where watermarks, plans, claims and history are kept: SQL databases, JSON files or Delta tables.
May use delta_log, storage and model; knows no Spark. The rules (`*_rules`) are pure and know no store.
"""
