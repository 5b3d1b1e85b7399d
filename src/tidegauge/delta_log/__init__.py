"""The log of a Delta table, read and added to without Spark.
Knows storage and model; used by sources, outputs and the ledger alike.
"""
