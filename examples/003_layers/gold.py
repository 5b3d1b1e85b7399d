"""The flow of the layers that is written in Python: two inputs, both followed."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

import tidegauge as tg


@tg.flow(
    usage=tg.changes(path="lake/silver/usage"),
    workspaces=tg.changes(path="lake/bronze/workspaces"),
    output=tg.delta(path="lake/gold/units_of_workspace", key="workspace_id"),
)
def gold_units_of_workspace(usage: DataFrame, workspaces: DataFrame) -> DataFrame:
    units = usage.groupBy("workspace_id").agg(f.sum("units").alias("units"))
    return workspaces.join(units, "workspace_id")
