"""A workflow in the words of other schedulers: Databricks, Airflow, Dagster.
Makes only text; may use nothing but model.
"""
