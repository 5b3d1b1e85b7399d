"""Incremental data pipelines on Spark around a ledger of watermarks."""

__version__ = "0.1.0"
