"""The gold tables of the observability example, computed at once in plain Python, without its SQL."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

Row = dict[str, Any]
System = Mapping[str, Sequence[Row]]
"""The rows that have arrived, by system table."""
Table = dict[tuple[Any, ...], Row]
"""Rows by their key."""
PriceOf = Callable[[Row], Decimal | None]

NONE = "NONE"
_TAG_COLUMNS = {
    "project": ("line_of_business", "Unknown"),
    "subproject": ("department", "general"),
    "costcenter": ("cost_center", "unallocated"),
    "environment": ("environment", "dev"),
    "dataproduct": ("use_case", "Unknown"),
    "jobpipeline": ("pipeline_name", "system"),
    "clustername": ("cluster_identifier", "Unknown"),
    "workflowlevel": ("workflow_level", "STANDALONE"),
    "parentworkflow": ("parent_workflow", "none"),
}
TAG_COLUMNS = tuple(column for column, _ in _TAG_COLUMNS.values())
_ENVIRONMENTS = {
    **dict.fromkeys(("prod", "production", "prd", "live"), "prod"),
    **dict.fromkeys(("stage", "staging", "stg"), "stage"),
    **dict.fromkeys(("uat", "qa", "test"), "uat"),
    **dict.fromkeys(("dev", "development"), "dev"),
}


def compute_gold(system: System) -> dict[str, Table]:
    """Compute every gold table, by its name."""
    usage = price_usage(system)
    runs = make_run_costs(system, usage)
    return {
        "gld_dim_workspace": _index_by_key(
            (
                _pick(row, "workspace_id workspace_name workspace_url cloud status")
                for row in system["access/workspaces_latest"]
            ),
            "workspace_id",
        ),
        "gld_dim_node_type": _index_by_key(
            (_pick(row, "node_type core_count memory_mb gpu_count") for row in system["compute/node_types"]),
            "node_type",
        ),
        "gld_dim_entity": _index_by_key(make_entities(system), "entity_sk"),
        "gld_dim_cluster": _index_by_key(make_clusters(system), "cluster_sk"),
        "gld_dim_sku": _make_skus(system),
        "gld_dim_run_status": _make_statuses(system),
        "gld_dim_date": _make_dates(system),
        "gld_fact_usage_priced_day": sum_usage(usage),
        "gld_fact_entity_cost": _make_entity_costs(system, usage),
        "gld_fact_run_cost": runs,
        "gld_fact_run_status_cost": _sum_runs(runs, by_status=True),
        "gld_fact_runs_finished_day": _sum_runs(runs, by_status=False),
    }


def trace_history(
    rows: Iterable[Row], key: Sequence[str], sequence: str, *, ignore: Sequence[str] = ()
) -> list[Row]:
    """Make the versions of each key: sorted, without those that change nothing, each valid until the next."""
    events = defaultdict(list)
    for row in rows:
        events[tuple(row[name] for name in key)].append(row)
    found = []
    for own in events.values():
        versions: list[Row] = []
        for row in sorted(own, key=lambda one: one[sequence]):
            same = {sequence, "valid_from", "valid_to", *ignore}
            if versions and all(versions[-1][name] == row[name] for name in row if name not in same):
                continue
            if versions:
                versions[-1]["valid_to"] = row[sequence]
            versions.append({**row, "valid_from": row[sequence], "valid_to": None})
        found += versions
    return found


def make_entities(system: System) -> list[Row]:
    found = []
    for kind, table, number in (
        ("JOB", "lakeflow/jobs", "job_id"),
        ("PIPELINE", "lakeflow/pipelines", "pipeline_id"),
    ):
        for one in trace_history(
            map(_with_plain_tags, system[table]), ("workspace_id", number), "change_time"
        ):
            found.append(
                _pick(one, "workspace_id name run_as tags delete_time valid_from valid_to")
                | {
                    "entity_sk": f"{kind}/{one['workspace_id']}/{one[number]}/{_micros(one['valid_from'])}",
                    "entity_type": kind,
                    "entity_id": one[number],
                    "is_current": one["valid_to"] is None,
                }
            )
    return found


def make_clusters(system: System, *, ignore: Sequence[str] = ()) -> list[Row]:
    names = (
        "workspace_id cluster_id cluster_name owned_by driver_node_type worker_node_type worker_count"
        " auto_termination_minutes cluster_source dbr_version policy_id tags create_time delete_time"
        " valid_from valid_to"
    )
    rows = map(_with_plain_tags, system["compute/clusters"])
    return [
        _pick(one, names)
        | {
            "cluster_sk": f"{one['workspace_id']}/{one['cluster_id']}/{_micros(one['valid_from'])}",
            "is_current": one["valid_to"] is None,
        }
        for one in trace_history(rows, ("workspace_id", "cluster_id"), "change_time", ignore=ignore)
    ]


def read_tags(tags: Iterable[tuple[str, str | None]]) -> Row:
    """Make the columns for tags, with defaults; `tagged` lists the columns that are not defaults."""
    found: dict[str, str] = {}
    for spelt, value in sorted(tags, key=lambda one: one[0]):
        name = re.sub("[-_ ]", "", spelt).lower()
        if value is not None and value.strip(" ") and name in _TAG_COLUMNS:
            found.setdefault(name, value.strip(" "))
    if "environment" in found:
        known = _ENVIRONMENTS.get(found.pop("environment").lower())
        found |= {"environment": known} if known else {}
    row: Row = {column: found.get(name, default) for name, (column, default) in _TAG_COLUMNS.items()}
    return row | {"tagged": ",".join(column for name, (column, _) in _TAG_COLUMNS.items() if name in found)}


def list_prices(system: System) -> list[Row]:
    rows = [
        _pick(row, "cloud sku_name usage_unit price_start_time")
        | {"price": row["pricing"]["effective_list"]["default"]}
        for row in system["billing/list_prices"]
    ]
    return trace_history(rows, ("cloud", "sku_name", "usage_unit"), "price_start_time")


def find_price(system: System) -> PriceOf:
    """Make a function that finds the price of a record's SKU when the record began; None if there is none."""
    by_sku = defaultdict(list)
    for one in list_prices(system):
        by_sku[one["cloud"], one["sku_name"], one["usage_unit"]].append(one)

    def price(record: Row) -> Decimal | None:
        own = by_sku[record["cloud"], record["sku_name"], record["usage_unit"]]
        return next((one["price"] for one in own if _is_valid_at(one, record["usage_start_time"])), None)

    return price


def price_usage(system: System, price: PriceOf | None = None) -> list[Row]:
    """Make each record with its tags, its price, and the versions of its cluster and entity valid then."""
    price = price or find_price(system)
    clusters = _by(make_clusters(system), "workspace_id", "cluster_id")
    entities = _by(make_entities(system), "workspace_id", "entity_type", "entity_id")
    found = []
    for record in system["billing/usage"]:
        metadata = record["usage_metadata"]
        job, pipeline = metadata.get("job_id"), metadata.get("dlt_pipeline_id")
        kind = "JOB" if job else "PIPELINE" if pipeline else record["billing_origin_product"]
        row = _pick(record, "workspace_id cloud sku_name usage_unit") | read_tags(record["custom_tags"])
        row |= {
            "date_sk": _date_sk(record["usage_date"]),
            "entity_type": kind,
            "entity_id": job or pipeline or NONE,
            "run_id": metadata.get("job_run_id") or NONE,
            "cluster_id": metadata.get("cluster_id") or NONE,
            "warehouse_id": metadata.get("warehouse_id") or NONE,
        }
        start = record["usage_start_time"]
        own = clusters[row["workspace_id"], row["cluster_id"]]
        row["cluster_sk"] = next((one["cluster_sk"] for one in own if _is_valid_at(one, start)), NONE)
        own = entities[row["workspace_id"], kind, row["entity_id"]]
        row["entity_sk"] = next((one["entity_sk"] for one in own if _is_valid_at(one, start)), NONE)
        worth = price(record)
        row |= {
            "records": 1,
            "unpriced_records": int(worth is None),
            "usage_quantity": Fraction(record["usage_quantity"]),
            "list_cost": Fraction(record["usage_quantity"]) * Fraction(worth or 0),
        }
        found.append(row)
    return found


def sum_usage(usage: Iterable[Row]) -> Table:
    keys = (
        "date_sk",
        "workspace_id",
        "cloud",
        "sku_name",
        "usage_unit",
        "entity_type",
        "entity_id",
        "run_id",
    )
    more = ("cluster_id", "warehouse_id", "entity_sk", "cluster_sk", "tagged")
    return _sum(
        usage, (*keys, *more, *TAG_COLUMNS), ("records", "unpriced_records", "usage_quantity", "list_cost")
    )


def total(usage: Iterable[Row]) -> Fraction:
    return sum((row["list_cost"] for row in usage), Fraction(0))


def make_run_costs(system: System, usage: Iterable[Row]) -> Table:
    found: Table = {}

    def run(workspace: str, job: str, number: str) -> Row:
        empty = {
            "workspace_id": workspace,
            "job_id": job,
            "run_id": number,
            "began_at": None,
            "ended_at": None,
            "result_state": None,
            "termination_code": None,
            "seconds": 0,
            "list_cost": Fraction(0),
        }
        return found.setdefault((workspace, job, number), empty)

    for period in system["lakeflow/job_run_timeline"]:
        one = run(period["workspace_id"], period["job_id"], period["run_id"])
        began, ended = period["period_start_time"], period["period_end_time"]
        one["began_at"] = min(began, one["began_at"] or began)
        one["ended_at"] = max(ended, one["ended_at"] or ended)
        one["seconds"] += (ended - began) // timedelta(seconds=1)
        if period["result_state"]:
            one["result_state"] = period["result_state"]
            one["termination_code"] = period["termination_code"] or NONE
    for row in usage:
        if row["entity_type"] == "JOB" and row["run_id"] != NONE:
            run(row["workspace_id"], row["entity_id"], row["run_id"])["list_cost"] += row["list_cost"]
    return found


def charge_back(usage: Iterable[Row], overhead: Fraction) -> dict[tuple[str, str], dict[str, int]]:
    """Compute cents by month and department. Cost without a department is shared in proportion to the
    departments' own cost; cents left by rounding go to the largest remainders."""
    found: dict[tuple[str, str], dict[str, int]] = {}
    months = defaultdict(list)
    for row in usage:
        months[f"{str(row['date_sk'])[:4]}-{str(row['date_sk'])[4:6]}"].append(row)
    for month, rows in months.items():
        direct: dict[str, Fraction] = defaultdict(Fraction)
        parts = {"direct": Fraction(0), "shared": Fraction(0), "unallocated": Fraction(0)}
        for row in rows:
            tagged = row["tagged"].split(",")
            part = "direct" if "department" in tagged else "unallocated"
            part = "shared" if part == "unallocated" and "line_of_business" in tagged else part
            parts[part] += row["list_cost"]
            if part == "direct":
                direct[row["department"]] += row["list_cost"]
        cents = _round(sum(parts.values()) * (1 + overhead) * 100)
        for part, amount in _spread(cents, parts).items():
            for department, share in _spread(amount, direct).items():
                found.setdefault((month, department), {})[part] = share
    return found


def _spread(cents: int, weights: Mapping[str, Fraction]) -> dict[str, int]:
    whole = sum(weights.values())
    exact = {name: cents * weight / whole for name, weight in weights.items()}
    found = {name: value.numerator // value.denominator for name, value in exact.items()}
    left = cents - sum(found.values())
    for name in sorted(exact, key=lambda one: (found[one] - exact[one], one))[:left]:
        found[name] += 1
    return found


def _round(value: Fraction) -> int:
    """Round half up."""
    return (value + Fraction(1, 2)).__floor__()


def _make_entity_costs(system: System, usage: Iterable[Row]) -> Table:
    names = {
        (one["workspace_id"], one["entity_type"], one["entity_id"]): one["name"]
        for one in make_entities(system)
        if one["is_current"]
    }
    key = ("date_sk", "workspace_id", "entity_type", "entity_id")
    found = _sum(usage, key, ("records", "usage_quantity", "list_cost"))
    for row in found.values():
        own = row["workspace_id"], row["entity_type"], row["entity_id"]
        row["entity_name"] = names.get(own, row["entity_type"])
    return found


def _sum_runs(runs: Table, *, by_status: bool) -> Table:
    rows = []
    for run in runs.values():
        if run["result_state"] is not None:
            good = run["result_state"] == "SUCCEEDED"
            day = _date_sk(run["ended_at"].date())
            rows.append(
                {**run, "date_sk": day, "runs": 1, "succeeded": int(good), "not_succeeded": int(not good)}
            )
    if by_status:
        key = ("date_sk", "workspace_id", "result_state", "termination_code")
        return _sum(rows, key, ("runs", "seconds", "list_cost"))
    found = _sum(
        rows, ("date_sk", "workspace_id"), ("runs", "succeeded", "not_succeeded", "seconds", "list_cost")
    )
    for own in found.values():
        day, workspace = own["date_sk"], own["workspace_id"]
        longest = (
            row["seconds"] for row in rows if (row["date_sk"], row["workspace_id"]) == (day, workspace)
        )
        own["longest_seconds"] = max(longest)
    return found


def _make_skus(system: System) -> Table:
    found: Table = {}
    for table, priced in (("billing/usage", False), ("billing/list_prices", True)):
        for row in system[table]:
            own = _pick(row, "cloud sku_name usage_unit")
            found[tuple(own.values())] = own | {"is_priced": priced}
    return found


def _make_statuses(system: System) -> Table:
    rows = [row for row in system["lakeflow/job_run_timeline"] if row["result_state"]]
    return {
        (state, code): {"result_state": state, "termination_code": code, "is_success": state == "SUCCEEDED"}
        for state, code in {(row["result_state"], row["termination_code"] or NONE) for row in rows}
    }


def _make_dates(system: System) -> Table:
    year = min(row["create_time"] for row in system["access/workspaces_latest"]).year
    found: Table = {}
    day = date(year, 1, 1)
    while day.year < year + 5:
        found[_date_sk(day),] = {
            "date_sk": _date_sk(day),
            "day": day,
            "year": day.year,
            "quarter": (day.month + 2) // 3,
            "month": day.month,
            "year_month": f"{day:%Y-%m}",
            "day_of_week": day.isoweekday(),
            "is_weekend": day.isoweekday() > 5,
        }
        day += timedelta(days=1)
    return found


def _is_valid_at(version: Row, moment: datetime) -> bool:
    return bool(
        version["valid_from"] <= moment and (version["valid_to"] is None or moment < version["valid_to"])
    )


def _with_plain_tags(row: Row) -> Row:
    return {**row, "tags": json.dumps(dict(sorted(row["tags"])), separators=(",", ":"))}


def _micros(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def _date_sk(day: date) -> int:
    return int(f"{day:%Y%m%d}")


def _pick(row: Row, names: str) -> Row:
    return {name: row[name] for name in names.split()}


def _index_by_key(rows: Iterable[Row], *key: str) -> Table:
    return {tuple(row[name] for name in key): row for row in rows}


def _by(rows: Iterable[Row], *key: str) -> dict[tuple[Any, ...], list[Row]]:
    found = defaultdict(list)
    for row in rows:
        found[tuple(row[name] for name in key)].append(row)
    return found


def _sum(rows: Iterable[Row], key: Sequence[str], sums: Sequence[str]) -> Table:
    found: Table = {}
    for row in rows:
        own = tuple(row[name] for name in key)
        if own not in found:
            found[own] = {name: row[name] for name in (*key, *sums)}
        else:
            for name in sums:
                found[own][name] += row[name]
    return found
