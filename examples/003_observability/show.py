"""Shows a view over gold: `python show.py v_cost_allocation`.

A catalogue in memory ends with its process, so that the view is read as the project file has it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tidegauge.config.load import load_project

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegauge.model.view_flow import ViewFlow


def read_view(spark: SparkSession, view: ViewFlow) -> DataFrame:
    for part in view.inputs:
        spark.read.format("delta").load(str(part.table.path)).createOrReplaceTempView(part.name)
    return spark.sql(view.transform.text)


if __name__ == "__main__":
    from tidegauge.model.spec import SparkSettings
    from tidegauge.spark.jars import JarSet
    from tidegauge.spark.session import open_session

    views = {view.name: view for view in load_project(Path(__file__).parent / "tidegauge.yml").views}
    if len(sys.argv) != 2 or sys.argv[1] not in views:
        sys.exit("name one of " + ", ".join(views))
    session = open_session(SparkSettings(None, {}), [JarSet.DELTA])
    read_view(session, views[sys.argv[1]]).show(50, truncate=False)
