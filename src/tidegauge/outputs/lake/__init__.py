"""Parquet files, and one manifest for each batch that makes them exist."""
