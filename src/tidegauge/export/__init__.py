"""A workflow in the words of other schedulers: Databricks, Airflow, Dagster.
Pure text; may use model alone.
"""
