"""The system tables of an invented data platform, as they grow from day to day.

`python generate.py` writes the next day below `system/`; `--days 30` the next thirty. A day ends at 18:00, so
the rest of it arrives with the next one. What happens in the month is the same every time, for each `--seed`
and `--scale`.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

START = datetime(2026, 3, 1, tzinfo=UTC)
DAYS = 30
ACCOUNT = "acc-1"
NEW_FIELD_FROM = 20
"""The day from which `usage_metadata` has one field more."""
Row = dict[str, Any]

_TEXT, _TIME, _NUMBER = pa.string(), pa.timestamp("us", "UTC"), pa.decimal128(38, 18)
_TAGS = pa.map_(_TEXT, _TEXT)


def _fields(text: str, **others: pa.DataType) -> pa.Schema:
    return pa.schema([(name, others.get(name, _TEXT)) for name in text.split()])


def _times(*names: str) -> dict[str, pa.DataType]:
    return dict.fromkeys(names, _TIME)


def _metadata(*more: str) -> pa.StructType:
    names = ("cluster_id", "job_id", "warehouse_id", "job_run_id", "dlt_pipeline_id", *more)
    return pa.struct([(name, _TEXT) for name in names])


_PRICE = pa.struct([("default", _NUMBER)])
SCHEMAS = {
    "access/workspaces_latest": _fields(
        "account_id workspace_id workspace_name workspace_url cloud status create_time",
        **_times("create_time"),
    ),
    "compute/node_types": _fields(
        "account_id node_type core_count memory_mb gpu_count",
        core_count=pa.float64(),
        memory_mb=pa.int64(),
        gpu_count=pa.int64(),
    ),
    "billing/list_prices": _fields(
        "account_id cloud sku_name usage_unit currency_code pricing price_start_time price_end_time",
        pricing=pa.struct([("default", _NUMBER), ("promotional", _PRICE), ("effective_list", _PRICE)]),
        **_times("price_start_time", "price_end_time"),
    ),
    "lakeflow/jobs": _fields(
        "account_id workspace_id job_id name creator_id run_as tags change_time delete_time",
        tags=_TAGS,
        **_times("change_time", "delete_time"),
    ),
    "lakeflow/pipelines": _fields(
        "account_id workspace_id pipeline_id name pipeline_type created_by run_as tags change_time"
        " delete_time",
        tags=_TAGS,
        **_times("change_time", "delete_time"),
    ),
    "lakeflow/job_run_timeline": _fields(
        "account_id workspace_id job_id run_id period_start_time period_end_time trigger_type run_type"
        " result_state termination_code compute_ids",
        compute_ids=pa.list_(_TEXT),
        **_times("period_start_time", "period_end_time"),
    ),
    "lakeflow/job_task_run_timeline": _fields(
        "account_id workspace_id job_id run_id task_key period_start_time period_end_time result_state"
        " termination_code compute_ids",
        compute_ids=pa.list_(_TEXT),
        **_times("period_start_time", "period_end_time"),
    ),
    "compute/clusters": _fields(
        "account_id workspace_id cluster_id cluster_name owned_by driver_node_type worker_node_type"
        " worker_count min_autoscale_workers max_autoscale_workers auto_termination_minutes tags"
        " cluster_source dbr_version policy_id create_time delete_time change_time",
        tags=_TAGS,
        **dict.fromkeys(
            (
                "worker_count",
                "min_autoscale_workers",
                "max_autoscale_workers",
                "auto_termination_minutes",
            ),
            pa.int64(),
        ),
        **_times("create_time", "delete_time", "change_time"),
    ),
    "compute/warehouses": _fields(
        "account_id workspace_id warehouse_id warehouse_name warehouse_type warehouse_size min_clusters"
        " max_clusters auto_stop_minutes tags change_time delete_time",
        tags=_TAGS,
        **dict.fromkeys(("min_clusters", "max_clusters", "auto_stop_minutes"), pa.int64()),
        **_times("change_time", "delete_time"),
    ),
    "billing/usage": _fields(
        "record_id account_id workspace_id sku_name cloud usage_start_time usage_end_time usage_date"
        " custom_tags usage_unit usage_quantity usage_metadata identity_metadata record_type"
        " billing_origin_product usage_type",
        usage_date=pa.date32(),
        custom_tags=_TAGS,
        usage_quantity=_NUMBER,
        usage_metadata=_metadata(),
        identity_metadata=pa.struct([("run_as", _TEXT), ("owned_by", _TEXT)]),
        **_times("usage_start_time", "usage_end_time"),
    ),
}
"""By table; usage comes last, since its versions count the days that are written whole."""
REPLACED = ("access/workspaces_latest", "compute/node_types")
"""Tables that only show how things are now: written anew when anything in them changes."""

WORKSPACES = {"1001": "AWS", "1002": "AWS", "1003": "AZURE"}
JOBS = {"1001": range(501, 513), "1002": range(501, 509), "1003": range(701, 707)}
"""The same job ids in two workspaces."""
PIPELINES = {"1001": ("p-1", "p-2"), "1003": ("p-1",)}
WAREHOUSES = {"1001": ("w-1", "w-2"), "1002": ("w-1",), "1003": ("w-9",)}
NODE_TYPES = {"m5.xlarge": (4, 16), "m5.4xlarge": (16, 64), "r5.2xlarge": (8, 64), "Standard_D8": (8, 32)}
STATES = (("SUCCEEDED", "SUCCESS"),) * 16 + (
    ("FAILED", "RUN_EXECUTION_ERROR"),
    ("FAILED", "CLUSTER_ERROR"),
    ("CANCELED", "USER_CANCELED"),
    ("TIMED_OUT", None),
)
PRICES = {
    ("AWS", "PREMIUM_JOBS_COMPUTE"): "0.15",
    ("AZURE", "PREMIUM_JOBS_COMPUTE"): "0.30",
    ("AWS", "PREMIUM_ALL_PURPOSE"): "0.55",
    ("AZURE", "PREMIUM_ALL_PURPOSE"): "0.5525",
    ("AWS", "PREMIUM_SQL"): "0.22",
    ("AZURE", "PREMIUM_SQL"): "0.225",
    ("AWS", "PREMIUM_DLT"): "0.2",
    ("AZURE", "PREMIUM_DLT"): "0.36",
    ("AWS", "PREMIUM_STORAGE"): "0.023456",
    ("AZURE", "PREMIUM_STORAGE"): "0.0208",
}
_TAG_VALUES = {
    "project": ("Retail", "Wholesale", "Platform"),
    "sub_project": ("merchandising", "logistics", "pricing", "analytics", "finance"),
    "cost_center": ("CC100", "CC200", "CC300"),
    "environment": ("prod", "Production", "PRD", "stage", "Staging", "uat", "QA", "dev", "sandbox"),
    "data_product": ("forecast", "orders", "stock"),
    "job_pipeline": ("nightly", "hourly"),
    "cluster_name": ("etl", "adhoc"),
    "workflow_level": ("PARENT", "CHILD"),
    "parent_workflow": ("daily_close", "stock_refresh"),
}


def at(day: float, hour: float = 0) -> datetime:
    """A moment of day 1, 2, … of the month."""
    return START + timedelta(days=day - 1, hours=hour)


def arrival(moment: datetime) -> int:
    """The day that brings what happened at a moment: it ends at 18:00."""
    return max(1, (moment - START + timedelta(hours=6)) // timedelta(days=1) + 1)


@dataclass
class Month:
    """All that happens, each row with the day on which it arrives."""

    seed: int
    scale: float
    rows: dict[str, list[tuple[int, Row]]] = field(default_factory=lambda: {name: [] for name in SCHEMAS})

    def __post_init__(self) -> None:
        self._random = random.Random(f"{self.seed}/{self.scale}")
        self._tags: dict[tuple[str, str], list[tuple[str, str | None]]] = {}
        self._fill_replaced()
        self._fill_prices()
        self._fill_entities()
        self._fill_clusters()
        for day in range(1, DAYS + 1):
            self._fill_runs(day)
            self._fill_services(day)
        self._correct_usage()
        for day in (5, 18):
            self._add_impossible(day)

    def arrivals(self, table: str, day: int) -> list[Row]:
        """New rows; of a table that is replaced all of them, or none if nothing has changed."""
        found = [row for arrives, row in self.rows[table] if arrives == day]
        if table in REPLACED and found:
            key = "workspace_id" if table == "access/workspaces_latest" else "node_type"
            return list({row[key]: row for arrives, row in self.rows[table] if arrives <= day}.values())
        return found

    def _add(self, table: str, arrives: int, **row: Any) -> Row:
        whole = {"account_id": ACCOUNT, **row}
        self.rows[table].append((min(arrives, DAYS), whole))
        return whole

    def _fill_replaced(self) -> None:
        def workspace(arrives: int, number: str, name: str, cloud: str) -> None:
            url = f"https://{name}.example.com"
            self._add(
                "access/workspaces_latest",
                arrives,
                workspace_id=number,
                workspace_name=name,
                workspace_url=url,
                cloud=cloud,
                status="RUNNING",
                create_time=at(-400 + int(number) % 10),
            )

        for number, cloud in WORKSPACES.items():
            workspace(1, number, f"ws-{number}", cloud)
        workspace(11, "1002", "ws-renamed", "AWS")
        workspace(18, "1004", "ws-new", "AZURE")
        types = [(1, name, *facts) for name, facts in NODE_TYPES.items()]
        for arrives, name, cores, memory in [*types, (12, "m5.xlarge", 4, 15), (15, "m7.large", 2, 8)]:
            self._add(
                "compute/node_types",
                arrives,
                node_type=name,
                core_count=float(cores),
                memory_mb=memory * 1024,
                gpu_count=0,
            )

    def _fill_prices(self) -> None:
        def price(arrives: int, cloud: str, sku: str, start: datetime, amount: str, **more: Any) -> None:
            worth = Decimal(amount)
            pricing = {
                "default": worth,
                "promotional": {"default": None},
                "effective_list": {"default": worth},
            }
            unit = "GB" if sku == "PREMIUM_STORAGE" else "DBU"
            self._add(
                "billing/list_prices",
                arrives,
                cloud=cloud,
                sku_name=sku,
                usage_unit=unit,
                currency_code="USD",
                pricing=pricing | more,
                price_start_time=start,
                price_end_time=None,
            )

        for (cloud, sku), amount in PRICES.items():
            price(1, cloud, sku, at(-300), amount)
        # Known a day or two after they began to count: usage was priced otherwise, or not at all, until then.
        price(9, "AWS", "PREMIUM_VECTOR_SEARCH", at(7), "0.7")
        price(16, "AWS", "PREMIUM_JOBS_COMPUTE", at(15, 10), "0.17")
        price(17, "AZURE", "PREMIUM_ALL_PURPOSE", at(17), "0.6")
        cut = {"promotional": {"default": Decimal("0.11")}, "effective_list": {"default": Decimal("0.11")}}
        price(22, "AWS", "PREMIUM_SQL", at(22), "0.22", **cut)
        price(24, "AWS", "PREMIUM_SQL", at(24, 12), "0.22")

    def _make_tags(self, workspace: str, entity: str) -> list[tuple[str, str | None]]:
        """An entity's tags: some missing, some empty, their names written in many ways."""
        pick = self._random
        found: list[tuple[str, str | None]] = []
        for name, values in _TAG_VALUES.items():
            if pick.random() < 0.25:
                continue
            value: str | None = pick.choice(values)
            dirt = pick.random()
            if dirt < 0.06:
                value = "" if dirt < 0.03 else None
            elif dirt < 0.12:
                value = f" {value} "
            spelt = (name, name.upper(), name.title().replace("_", "-"), name.replace("_", " "))
            found.append((pick.choice((*spelt, name.replace("_", ""))), value))
            if dirt > 0.95:
                found.append((f"_{name}", pick.choice(values)))
        self._tags[workspace, entity] = found
        return found

    def _fill_entities(self) -> None:
        pick = self._random
        for workspace, jobs in JOBS.items():
            for job in map(str, jobs):
                row: Row = {
                    "workspace_id": workspace,
                    "job_id": job,
                    "name": f"job-{workspace}-{job}",
                    "creator_id": f"u{pick.randint(1, 9)}",
                    "run_as": f"sp-{pick.randint(1, 4)}",
                    "tags": self._make_tags(workspace, job),
                    "delete_time": None,
                }
                self._add("lakeflow/jobs", 1, change_time=at(-30, int(job) % 24), **row)
                self._change("lakeflow/jobs", row, {"name": f"{row['name']}-v2"}, often=0.5)
                self._change("lakeflow/jobs", row, {"run_as": "sp-9"}, often=0.3)
        for workspace, pipelines in PIPELINES.items():
            for pipeline in pipelines:
                row = {
                    "workspace_id": workspace,
                    "pipeline_id": pipeline,
                    "name": f"pipe-{workspace}-{pipeline}",
                    "pipeline_type": "ETL",
                    "created_by": "u1",
                    "run_as": "sp-1",
                    "tags": self._make_tags(workspace, pipeline),
                    "delete_time": None,
                }
                self._add("lakeflow/pipelines", 1, change_time=at(-20), **row)
                self._change("lakeflow/pipelines", row, {"name": f"{row['name']}-v2"}, often=0.7)
        for workspace, warehouses in WAREHOUSES.items():
            for warehouse in warehouses:
                row = {
                    "workspace_id": workspace,
                    "warehouse_id": warehouse,
                    "warehouse_name": f"wh-{workspace}-{warehouse}",
                    "warehouse_type": "PRO",
                    "warehouse_size": "SMALL",
                    "min_clusters": 1,
                    "max_clusters": 2,
                    "auto_stop_minutes": 10,
                    "tags": self._make_tags(workspace, warehouse),
                    "delete_time": None,
                }
                self._add("compute/warehouses", 1, change_time=at(-25), **row)
                self._change("compute/warehouses", row, {"warehouse_size": "LARGE"}, often=0.8)

    def _change(self, table: str, row: Row, changes: Row, *, often: float) -> None:
        """A later record of the same thing; one in four arrives a day late, one in five changes nothing."""
        pick = self._random
        if pick.random() >= often:
            return
        when = at(pick.randint(2, 27), pick.randint(0, 23)) + timedelta(minutes=pick.randint(1, 58))
        if pick.random() >= 0.2:
            row |= changes
        latest = max(old["change_time"] for _, old in self.rows[table] if _same(old, row))
        when = when if when > latest else latest + timedelta(hours=25)
        self._add(table, arrival(when) + int(pick.random() < 0.25), change_time=when, **row)

    def _fill_clusters(self) -> None:
        pick = self._random
        for workspace, cloud in WORKSPACES.items():
            names = [*(f"job-{job}" for job in JOBS[workspace]), "shared-1", "shared-2", "new-1"]
            for name in names:
                node = "Standard_D8" if cloud == "AZURE" else pick.choice(list(NODE_TYPES)[:3])
                job = name.removeprefix("job-")
                tags = self._tags.get((workspace, job)) or self._make_tags(workspace, name)
                created = at(10, 6) if name == "new-1" else at(-40)
                row: Row = {
                    "workspace_id": workspace,
                    "cluster_id": f"c-{name}",
                    "cluster_name": name,
                    "owned_by": f"u{pick.randint(1, 9)}",
                    "driver_node_type": node,
                    "worker_node_type": node,
                    "worker_count": pick.randint(1, 8),
                    "min_autoscale_workers": None,
                    "max_autoscale_workers": None,
                    "auto_termination_minutes": pick.choice((20, 60, 0)),
                    "tags": list(tags),
                    "cluster_source": "JOB" if name.startswith("job") else "UI",
                    "dbr_version": pick.choice(("14.3", "15.4")),
                    "policy_id": pick.choice(("pol-1", None)),
                    "create_time": created,
                    "delete_time": None,
                }
                # The record of a new cluster comes two days after its first usage.
                self._add("compute/clusters", 12 if name == "new-1" else 1, change_time=created, **row)
                if name == "new-1":
                    continue
                if name == "shared-1":
                    row |= {"tags": [*row["tags"], ("audited", "yes")]}  # nothing but its tags
                    self._add("compute/clusters", 16, change_time=at(16, 9), **row)
                    row |= {"dbr_version": "16.4"}
                    self._add("compute/clusters", 19, change_time=at(19, 11), **row)
                elif name == "shared-2":
                    # The later change arrives first.
                    self._add("compute/clusters", 21, change_time=at(21, 7), **row | {"worker_count": 9})
                    self._add("compute/clusters", 22, change_time=at(20, 6), **row | {"worker_count": 11})
                else:
                    self._change("compute/clusters", row, {"worker_count": 12}, often=0.4)
                    self._change("compute/clusters", row, {"dbr_version": "16.4"}, often=0.3)

    def _fill_runs(self, day: int) -> None:
        pick = self._random
        for workspace, jobs in JOBS.items():
            for job in map(str, jobs):
                for turn in range(max(1, round(4 * self.scale))):
                    run = str(day * 1000 + int(job) % 100 * 10 + turn)
                    begin = at(day) + timedelta(minutes=pick.randint(0, 1439))
                    self._fill_run(workspace, job, run, begin, minutes=pick.randint(5, 150))

    def _fill_run(self, workspace: str, job: str, run: str, begin: datetime, minutes: int) -> None:
        pick = self._random
        state, code = pick.choice(STATES)
        cluster = f"c-job-{job}"
        tasks = [f"task_{number}" for number in range(pick.randint(1, 3))]
        for first, last, ends in _slices(begin, begin + timedelta(minutes=minutes)):
            if last > at(DAYS, 18):
                return
            late = self._late()
            shared = {
                "workspace_id": workspace,
                "job_id": job,
                "run_id": run,
                "period_start_time": first,
                "period_end_time": last,
                "result_state": state if ends else None,
                "termination_code": code if ends else None,
                "compute_ids": [cluster],
            }
            self._add(
                "lakeflow/job_run_timeline",
                arrival(last) + late,
                trigger_type="PERIODIC",
                run_type="JOB_RUN",
                **shared,
            )
            for task in tasks:
                self._add("lakeflow/job_task_run_timeline", arrival(last) + late, task_key=task, **shared)
            metadata = {"job_id": job, "job_run_id": run, "cluster_id": cluster}
            self._use(workspace, "JOBS", "PREMIUM_JOBS_COMPUTE", first, last, metadata, job)

    def _add_impossible(self, day: int) -> None:
        """A task that ends before it begins."""
        self._add(
            "lakeflow/job_task_run_timeline",
            day,
            workspace_id="1001",
            job_id="501",
            run_id=f"bad-{day}",
            task_key="task_0",
            period_start_time=at(day, 9),
            period_end_time=at(day, 8),
            result_state="FAILED",
            termination_code="INTERNAL_ERROR",
            compute_ids=["c-job-501"],
        )

    def _fill_services(self, day: int) -> None:
        hours = max(3, round(10 * self.scale))
        for workspace in WORKSPACES:
            for hour in range(8, 8 + hours):
                first = at(day, hour)
                last = first + timedelta(hours=1)
                for name in ("shared-1", "shared-2", *(("new-1",) if first >= at(10, 8) else ())):
                    found = {"cluster_id": f"c-{name}"}
                    self._use(workspace, "ALL_PURPOSE", "PREMIUM_ALL_PURPOSE", first, last, found, name)
                for warehouse in WAREHOUSES[workspace]:
                    found = {"warehouse_id": warehouse}
                    self._use(workspace, "SQL", "PREMIUM_SQL", first, last, found, warehouse)
                for pipeline in PIPELINES.get(workspace, ()):
                    found = {"dlt_pipeline_id": pipeline, "cluster_id": "c-shared-2"}
                    self._use(workspace, "DLT", "PREMIUM_DLT", first, last, found, pipeline)
            first, last = at(day, 16), at(day, 17)
            self._use(workspace, "DEFAULT_STORAGE", "PREMIUM_STORAGE", first, last, {}, "", unit="GB")
            if workspace == "1001" and day >= 7:
                search = {"endpoint_name": "products"}
                self._use(workspace, "VECTOR_SEARCH", "PREMIUM_VECTOR_SEARCH", first, last, search, "")
            if workspace == "1002" and day % 9 == 0:
                self._use(workspace, "MODEL_SERVING", "PREMIUM_MODEL_PREVIEW", first, last, {}, "")

    def _use(
        self,
        workspace: str,
        product: str,
        sku: str,
        first: datetime,
        last: datetime,
        metadata: Row,
        entity: str,
        *,
        unit: str = "DBU",
    ) -> None:
        quantity = Decimal(self._random.randint(1, 10**10)).scaleb(-8)
        if last > at(DAYS, 18):
            return
        self._record(
            arrival(last) + self._late(),
            workspace_id=workspace,
            sku_name=sku,
            cloud=WORKSPACES[workspace],
            usage_start_time=first,
            usage_end_time=last,
            usage_date=first.date(),
            custom_tags=self._tags.get((workspace, entity), []),
            usage_unit=unit,
            usage_quantity=quantity,
            usage_metadata=metadata,
            identity_metadata={"run_as": "sp-1", "owned_by": None},
            record_type="ORIGINAL",
            billing_origin_product=product,
            usage_type="STORAGE_SPACE" if unit == "GB" else "COMPUTE_TIME",
        )

    def _record(self, arrives: int, **row: Any) -> None:
        number = len(self.rows["billing/usage"])
        self._add("billing/usage", arrives, record_id=f"r{number:07}", **row)

    def _late(self) -> int:
        """Days."""
        dice = self._random.random()
        return 3 if dice < 0.02 else int(dice < 0.1)

    def _correct_usage(self) -> None:
        """Some records are taken back days later, by one with the negated quantity; most are restated."""
        for arrives, row in list(self.rows["billing/usage"]):
            dice = self._random.random()
            if dice >= 0.025:
                continue
            when = arrives + self._random.randint(1, 2)
            same = {name: value for name, value in row.items() if name not in ("record_id", "account_id")}
            quantity = row["usage_quantity"]
            self._record(when, **same | {"record_type": "RETRACTION", "usage_quantity": -quantity})
            if dice < 0.02:
                right = (quantity * 3 / 4).quantize(Decimal("1e-8"))
                self._record(when, **same | {"record_type": "RESTATEMENT", "usage_quantity": right})


def _same(one: Row, other: Row) -> bool:
    names = [
        name
        for name in ("workspace_id", "job_id", "pipeline_id", "cluster_id", "warehouse_id")
        if name in one
    ]
    return all(one[name] == other[name] for name in names)


def _slices(begin: datetime, end: datetime) -> Iterator[tuple[datetime, datetime, bool]]:
    """A run's periods of an hour at most; the last one says that it ended."""
    while begin < end:
        last = min(begin + timedelta(hours=1), end)
        yield begin, last, last == end
        begin = last


def write_day(month: Month, day: int, system: Path) -> int:
    """What arrives on a day, as one commit of each table that gets anything; how many rows."""
    total = 0
    for table, schema in SCHEMAS.items():
        rows = month.arrivals(table, day)
        if table == "billing/usage" and day >= NEW_FIELD_FROM:
            place = schema.get_field_index("usage_metadata")
            schema = schema.set(place, schema.field(place).with_type(_metadata("endpoint_name")))
        if not rows and day > 1:
            continue
        _write(system / table, pa.Table.from_pylist(rows, schema), replace=table in REPLACED)
        total += len(rows)
    return total


def _write(path: Path, rows: pa.Table, *, replace: bool) -> None:
    if replace:
        write_deltalake(path, rows, mode="overwrite")
    else:
        write_deltalake(path, rows, mode="append", schema_mode="merge")


def next_day(system: Path) -> int:
    usage = system / "billing/usage"
    return DeltaTable(usage).version() + 2 if (usage / "_delta_log").is_dir() else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--days", type=int, default=1, help="how many days to write; the next one if not said"
    )
    parser.add_argument("--scale", type=float, default=1.0, help="how much is used and run on a day")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--to", type=Path, default=Path(__file__).parent / "system")
    options = parser.parse_args()
    made = Month(options.seed, options.scale)
    first = next_day(options.to)
    for number in range(first, min(first + options.days, DAYS + 1)):
        print(f"day {number}: {write_day(made, number, options.to)} rows")
