"""The observability example as hand-written PySpark, table after table.

Bronze reads its source by a high-water mark, with a week's overlap, and merges new rows. Silver reads the
change feed of bronze since the last version read. A change rebuilds histories for the keys that it touches,
facts for the days, and small dimensions as a whole. The SQL is that of the example.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce
from typing import TYPE_CHECKING

from bench.plain_tables import PlainTables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_RUN = ("workspace_id", "job_id", "run_id")
_PRICE = "cloud sku_name usage_unit"
_PERIOD = "workspace_id job_id run_id period_start_time"
_TASK = "workspace_id job_id run_id task_key period_start_time"

# By the name of a bronze table: its source, its key, and its cursor column (None: read as a whole).
_BRONZE = {
    name: (source, tuple(key.split()), cursor)
    for name, source, key, cursor in (
        ("brz_billing_usage", "billing/usage", "record_id", "usage_end_time"),
        ("brz_billing_list_prices", "billing/list_prices", f"{_PRICE} price_start_time", "price_start_time"),
        ("brz_lakeflow_jobs", "lakeflow/jobs", "workspace_id job_id change_time", "change_time"),
        (
            "brz_lakeflow_pipelines",
            "lakeflow/pipelines",
            "workspace_id pipeline_id change_time",
            "change_time",
        ),
        ("brz_lakeflow_job_run_timeline", "lakeflow/job_run_timeline", _PERIOD, "period_end_time"),
        ("brz_lakeflow_job_task_run_timeline", "lakeflow/job_task_run_timeline", _TASK, "period_end_time"),
        ("brz_compute_clusters", "compute/clusters", "workspace_id cluster_id change_time", "change_time"),
        (
            "brz_compute_warehouses",
            "compute/warehouses",
            "workspace_id warehouse_id change_time",
            "change_time",
        ),
        ("brz_compute_node_types", "compute/node_types", "node_type", None),
        ("brz_access_workspaces_latest", "access/workspaces_latest", "workspace_id", None),
    )
}

# By the name of a history: its bronze table, the name for that in the SQL, its key and its order column.
_HISTORIES = {
    name: (bronze, word, tuple(key.split()), order)
    for name, bronze, word, key, order in (
        ("slv_jobs_scd", "brz_lakeflow_jobs", "jobs", "workspace_id job_id", "change_time"),
        (
            "slv_pipelines_scd",
            "brz_lakeflow_pipelines",
            "pipelines",
            "workspace_id pipeline_id",
            "change_time",
        ),
        ("slv_clusters", "brz_compute_clusters", "clusters", "workspace_id cluster_id", "change_time"),
        (
            "slv_warehouses",
            "brz_compute_warehouses",
            "warehouses",
            "workspace_id warehouse_id",
            "change_time",
        ),
        ("slv_price_scd", "brz_billing_list_prices", "prices", _PRICE, "price_start_time"),
    )
}

# By the name of a dimension: its inputs, by their names in the SQL.
_DIMENSIONS = {
    "gld_dim_workspace": {"workspaces": "slv_workspace"},
    "gld_dim_entity": {"jobs": "slv_jobs_scd", "pipelines": "slv_pipelines_scd"},
    "gld_dim_cluster": {"clusters": "slv_clusters"},
    "gld_dim_sku": {"usage": "slv_usage_txn", "prices": "slv_price_scd"},
    "gld_dim_node_type": {"node_types": "brz_compute_node_types"},
    "gld_dim_run_status": {"runs": "slv_job_run_timeline"},
    "gld_dim_date": {"workspaces": "slv_workspace"},
}

GOLD = (
    *_DIMENSIONS,
    "gld_fact_usage_priced_day",
    "gld_fact_entity_cost",
    "gld_fact_run_cost",
    "gld_fact_run_status_cost",
    "gld_fact_runs_finished_day",
)


class PlainPipeline(PlainTables):
    _days: Sequence[int] = ()
    """The days of `gld_fact_usage_priced_day` that this run has rebuilt."""

    def run(self) -> None:
        self._load_state()
        self._days = ()
        for name, (source, key, cursor) in _BRONZE.items():
            self._step(partial(self._ingest, name, source, key, cursor))
        self._step(self._build_workspace)
        for name, (bronze, word, key, order) in _HISTORIES.items():
            self._step(partial(self._build_history, name, bronze, word, key, order))
        self._step(self._build_entity_latest)
        self._step(self._build_usage)
        self._step(self._build_runs)
        self._step(self._build_tasks)
        for name, inputs in _DIMENSIONS.items():
            self._step(partial(self._build_dimension, name, inputs))
        self._step(self._build_priced_usage)
        self._step(self._build_entity_cost)
        self._step(self._build_run_cost)
        for name in ("gld_fact_run_status_cost", "gld_fact_runs_finished_day"):
            self._step(partial(self._build_days_of_runs, name))

    # Bronze

    def _ingest(self, name: str, source: str, key: Sequence[str], cursor: str | None) -> None:
        from pyspark.sql import functions as F  # noqa: N812

        if not self._has_news(name, source):
            return
        rows = self._read(source)
        if cursor is not None and self._exists(name):
            [[newest]] = self._read(name).agg(F.max(cursor)).collect()
            rows = rows.where(F.col(cursor) > F.lit(newest) - F.expr("INTERVAL 7 DAYS"))
        if name == "brz_billing_usage":
            self._check_usage(rows)
        self._merge(name, rows, key, update=cursor is None, gone=cursor is None)

    def _check_usage(self, rows: DataFrame) -> None:
        wrong = rows.where(
            "workspace_id IS NULL OR record_type NOT IN ('ORIGINAL', 'RETRACTION', 'RESTATEMENT')"
            " OR usage_quantity <> CAST(usage_quantity AS DECIMAL(20, 8))"
        )
        assert wrong.isEmpty()

    # Silver

    def _build_workspace(self) -> None:
        if self._has_news("slv_workspace", "brz_access_workspaces_latest"):
            rows = self._transform("slv_workspace", workspaces=self._read("brz_access_workspaces_latest"))
            self._merge("slv_workspace", rows, ("workspace_id",), gone=True)

    def _build_usage(self) -> None:
        new = self._changes("slv_usage_txn", "brz_billing_usage")
        if new is not None:
            self._merge("slv_usage_txn", self._transform("slv_usage_txn", usage=new), ("record_id",))

    def _build_runs(self) -> None:
        new = self._changes("slv_job_run_timeline", "brz_lakeflow_job_run_timeline")
        if new is not None:
            rows = self._transform("slv_job_run_timeline", runs=new)
            self._merge("slv_job_run_timeline", rows, _PERIOD.split())

    def _build_tasks(self) -> None:
        name, key = "slv_job_task_run_timeline", _TASK.split()
        new = self._changes(name, "brz_lakeflow_job_task_run_timeline")
        if new is None:
            return
        rows = self._transform(name, tasks=new)
        fits = "period_start_time <= period_end_time"
        self._merge(name, rows.where(fits), key)
        wrong = rows.where(f"NOT ({fits})")
        if not wrong.isEmpty():
            self._merge(f"{name}_quarantine", wrong, key)

    def _build_history(self, name: str, bronze: str, word: str, key: Sequence[str], order: str) -> None:
        """Rebuild the whole history of each key that has a new record, and merge it into the stored one."""
        from pyspark.sql import Window
        from pyspark.sql import functions as F  # noqa: N812

        new = self._changes(name, bronze)
        if new is None:
            return
        keys = new.select(*key).distinct()
        rows = self._transform(name, **{word: self._read(bronze).join(keys, list(key), "left_semi")})
        own = F.struct(*(column for column in rows.columns if column not in (*key, order)))
        line = Window.partitionBy(*key).orderBy(order)
        changed = rows.withColumns({"_own": own, "_before": F.lag(own).over(line)})
        changed = changed.where("_before IS NULL OR NOT (_own <=> _before)").drop("_own", "_before")
        after = F.lead(order).over(line)
        history = changed.withColumns(
            {"valid_from": F.col(order), "valid_to": after, "is_current": after.isNull()}
        )
        if not self._exists(name):
            self._create(name, history)
            return
        on = [*key, "valid_from"]
        there = self._read(name).join(keys, list(key), "left_semi")
        gone = there.join(history.select(*on), on, "left_anti").withColumn("_gone", F.lit(True))
        staged = history.withColumn("_gone", F.lit(False)).unionByName(gone)
        self._merge(name, staged, on, gone_if="s._gone", columns=history.columns)

    def _build_entity_latest(self) -> None:
        name, inputs = "slv_entity_latest", {"jobs": "slv_jobs_scd", "pipelines": "slv_pipelines_scd"}
        if self._has_news(name, *inputs.values()):
            rows = self._transform(name, **{word: self._read(table) for word, table in inputs.items()})
            self._merge(name, rows, ("workspace_id", "entity_type", "entity_id"), gone=True)

    # Gold

    def _build_dimension(self, name: str, inputs: dict[str, str]) -> None:
        """Rebuild the whole dimension, because it is small."""
        if self._has_news(name, *inputs.values()):
            rows = self._transform(name, **{word: self._read(table) for word, table in inputs.items()})
            rows.write.format("delta").mode("overwrite").save(self._path(name))

    def _build_priced_usage(self) -> None:
        from pyspark.sql import functions as F  # noqa: N812

        name, usage = "gld_fact_usage_priced_day", self._read("slv_usage_txn")
        found = []
        if (new := self._changes(name, "slv_usage_txn")) is not None:
            found.append(new.select("date_sk"))
        for table, key, word in (
            ("slv_price_scd", _PRICE.split(), None),
            ("slv_clusters", ["workspace_id", "cluster_id"], None),
            ("slv_jobs_scd", ["workspace_id", "job_id"], "JOB"),
            ("slv_pipelines_scd", ["workspace_id", "pipeline_id"], "PIPELINE"),
        ):
            changes = self._changes(name, table)
            if changes is None:
                continue
            own = usage
            if word is not None:
                own = usage.where(F.col("entity_type") == word).withColumnRenamed("entity_id", key[1])
            # An inserted or deleted version matters from its beginning; one that got an end, from there on.
            begins = F.expr("if(_change_type IN ('insert', 'delete'), valid_from, valid_to)")
            since = changes.groupBy(*key).agg(F.min(begins).alias("_since"))
            found.append(own.join(since, key).where("usage_start_time >= _since").select("date_sk"))
        if not found:
            return
        days = reduce(lambda one, other: one.union(other), found).distinct()
        self._days = sorted(row[0] for row in days.collect())
        inputs = {
            "usage": usage.where(F.col("date_sk").isin(self._days)),
            "prices": self._read("slv_price_scd"),
            "clusters": self._read("gld_dim_cluster"),
            "entities": self._read("gld_dim_entity"),
        }
        self._replace_days(name, self._transform(name, **inputs), self._days)
        self._read(name).where(F.col("date_sk").isin(self._days) & (F.col("unpriced_records") > 0)).count()

    def _build_entity_cost(self) -> None:
        from pyspark.sql import functions as F  # noqa: N812

        name, usage = "gld_fact_entity_cost", self._read("gld_fact_usage_priced_day")
        days = set(self._days)
        if (renamed := self._changes(name, "slv_entity_latest")) is not None:
            key = ["workspace_id", "entity_type", "entity_id"]
            days |= {
                row[0] for row in usage.join(renamed.select(*key), key).select("date_sk").distinct().collect()
            }
        if days:
            own = usage.where(F.col("date_sk").isin(sorted(days)))
            self._replace_days(
                name, self._transform(name, usage=own, latest=self._read("slv_entity_latest")), sorted(days)
            )

    def _build_run_cost(self) -> None:
        from pyspark.sql import functions as F  # noqa: N812

        name, usage = "gld_fact_run_cost", self._read("gld_fact_usage_priced_day")
        found = []
        if (new := self._changes(name, "slv_job_run_timeline")) is not None:
            found.append(new.select(*_RUN))
        if self._days:
            own = usage.where(F.col("date_sk").isin(self._days)).where(
                "entity_type = 'JOB' AND run_id <> 'NONE'"
            )
            found.append(own.select("workspace_id", F.col("entity_id").alias("job_id"), "run_id"))
        if not found:
            return
        touched = reduce(lambda one, other: one.union(other), found).distinct()
        runs = self._read("slv_job_run_timeline").join(touched, list(_RUN), "left_semi")
        of_usage = touched.withColumnRenamed("job_id", "entity_id")
        costs = usage.join(of_usage, ["workspace_id", "entity_id", "run_id"], "left_semi")
        self._merge(name, self._transform(name, runs=runs, usage=costs), _RUN)

    def _build_days_of_runs(self, name: str) -> None:
        from pyspark.sql import functions as F  # noqa: N812

        changes = self._changes(name, "gld_fact_run_cost")
        if changes is None:
            return
        day = F.expr("CAST(date_format(ended_at, 'yyyyMMdd') AS INT)")
        days = [row[0] for row in changes.select(day).distinct().collect() if row[0] is not None]
        own = self._read("gld_fact_run_cost").where(day.isin(days))
        self._replace_days(name, self._transform(name, runs=own), days)
