"""Shows a view over gold: `python show.py v_cost_allocation`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_USAGE = {"usage": "gold/gld_fact_usage_priced_day"}
_DATES = {"dates": "gold/gld_dim_date"}
_CLUSTERS = {"clusters": "gold/gld_dim_cluster"}
VIEWS: dict[str, dict[str, str]] = {
    "v_cost_allocation": _USAGE,
    "v_department_cost_summary": _USAGE | _DATES,
    "v_sku_cost_trends": _USAGE,
    "v_line_of_business_cost": _USAGE,
    "v_environment_cost": _USAGE,
    "v_use_case_cost": _USAGE,
    "v_cluster_cost": _USAGE | _CLUSTERS,
    "v_tag_coverage_summary": _USAGE,
    "v_tag_quality_analysis": {"records": "silver/slv_usage_txn"},
    "v_cost_center_analysis": _USAGE | _DATES,
    "v_workflow_hierarchy_cost": _USAGE,
    "v_node_type_analysis": _USAGE | _CLUSTERS | {"node_types": "gold/gld_dim_node_type"},
    "v_runtime_version_analysis": _USAGE | _CLUSTERS,
    "v_cost_trends": _USAGE,
    "v_cost_anomalies": _USAGE,
    "v_policy_compliance": _CLUSTERS,
}
"""With the tables of the lake that each reads, by the names that its SQL knows them by."""


def read_view(spark: SparkSession, folder: Path, name: str) -> DataFrame:
    for view, table in VIEWS[name].items():
        spark.read.format("delta").load(str(folder / "lake" / table)).createOrReplaceTempView(view)
    return spark.sql((folder / "views" / f"{name}.sql").read_text())


if __name__ == "__main__":
    from tidegauge.model.spec import SparkSettings
    from tidegauge.spark.jars import Needs
    from tidegauge.spark.session import open_session

    if len(sys.argv) != 2 or sys.argv[1] not in VIEWS:
        sys.exit("name one of " + ", ".join(VIEWS))
    session = open_session(SparkSettings(None, {}), [Needs.DELTA])
    read_view(session, Path(__file__).parent, sys.argv[1]).show(50, truncate=False)
