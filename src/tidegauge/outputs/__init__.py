"""Where rows go: a Parquet lake, Delta tables, warehouses; rows and tag become visible in one commit.
Knows storage, delta_log, spark and model.
"""
