"""The Parquet lake: data files, and a manifest for each batch, by which its files belong to the table."""
