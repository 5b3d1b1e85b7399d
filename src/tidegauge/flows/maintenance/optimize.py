"""Compact Delta tables where it pays, and vacuum what that leaves behind."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tidegauge.delta_log.commit import Commit, parse_commit
from tidegauge.delta_log.location import damaged_error
from tidegauge.delta_log.log import ListedLog
from tidegauge.errors import TidegaugeError
from tidegauge.flows.maintenance.base import (
    MaintainedTable,
    Maintenance,
    MaintenanceResult,
    TableSize,
    open_log,
)
from tidegauge.flows.maintenance.vacuum import find_vacuum_reason, vacuum
from tidegauge.model.types import quote
from tidegauge.spark.errors import translate_spark_error

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LARGE = 96 * 1024 * 1024
"""Average file size, in bytes, from which files are not worth rewriting."""
_LOOKED_AT = 200
"""How many of the newest commits are searched for the last OPTIMIZE."""


def optimize(
    maintenance: Maintenance,
    target: MaintainedTable,
    *,
    zorder: Sequence[str] = (),
    clean: bool = True,
    force: bool = False,
    rarely: bool = False,
) -> MaintenanceResult:
    """Merge small files into large ones, sorted by `zorder`, or else by the columns that the flow declares.

    The new files get new statistics (rows, NULLs, least and greatest value). It is one commit that changes no
    row, so readers go on; a process that dies before the commit changes nothing. A table for which it does
    not pay is left as it is, unless `force`: the table's log tells that, without Spark.

    `clean`: vacuum the table afterwards; with `rarely`, only if that pays. If a reader forbids the vacuum,
    the result has that error, and the table is compacted all the same.
    """
    columns = tuple(zorder) or _find_zorder(target)
    begun = time.monotonic()
    before, left_alone = look_at(target, columns)
    if left_alone is not None and not force:
        done = MaintenanceResult(target, before=before, after=before, left_alone=left_alone, done=True)
    else:
        with maintenance.session_of(target) as session, translate_spark_error(target.name):
            done = _compact(session, target, columns)
        done = replace(done, before=before, after=measure(target, open_log(target)))
    done = replace(done, seconds=time.monotonic() - begun)
    if not clean or (rarely and find_vacuum_reason(target, datetime.now(UTC)) is not None):
        return done
    try:
        cleaned = vacuum(maintenance, target, None)
    except TidegaugeError as error:
        return replace(done, error=error)
    return replace(done, retain=cleaned.retain, removed=cleaned.removed, seconds=time.monotonic() - begun)


def look_at(target: MaintainedTable, zorder: Sequence[str] | None = None) -> tuple[TableSize, str | None]:
    """Return the table's size, and why it is better left alone; None: compacting it pays.

    Raises TableMissing if the table does not exist yet.
    """
    log = open_log(target)
    size = measure(target, log)
    return size, find_reason(
        size, _read_commits(target, log), _find_zorder(target) if zorder is None else zorder
    )


def find_reason(size: TableSize, commits: Iterable[Commit], zorder: Sequence[str]) -> str | None:
    """Why a table is better left alone; None: compacting it pays. `commits`: newest first."""
    if size.files < 2:
        return "it has no small files"
    if size.most < 2:
        return "each of its partitions is one file"
    if not zorder and size.bytes / size.files >= _LARGE:
        return "its files are large already"
    for commit in commits:
        if commit.changes:
            return None
        if _is_optimize(commit, zorder):
            return "nothing has changed since it was last optimized"
    return None


def measure(target: MaintainedTable, log: ListedLog) -> TableSize:
    assert log.latest is not None
    try:
        files = log.files(log.latest, ("size", "partitionValues"))
        if files is None:
            raise ValueError("commits are missing")
        partitions = Counter(json.dumps(one.get("partitionValues") or {}, sort_keys=True) for one in files)
        return TableSize(
            len(files), sum(int(one["size"]) for one in files), max(partitions.values(), default=0)
        )
    except (ValueError, KeyError, TypeError) as error:
        raise damaged_error(target.location, error) from error


def _find_zorder(target: MaintainedTable) -> tuple[str, ...]:
    return target.delta_flow.output.zorder if target.delta_flow else ()


def _is_optimize(commit: Commit, zorder: Sequence[str]) -> bool:
    """Whether the commit optimized the whole table, sorted by these columns."""
    parameters = commit.info.get("operationParameters") or {}
    if commit.info.get("operation") != "OPTIMIZE" or _listed(parameters.get("predicate")):
        return False
    by = [name.strip("`").casefold() for name in _listed(parameters.get("zOrderBy"))]
    return by == [name.casefold() for name in zorder]


def _listed(parameter: object) -> list[str]:
    """Read a list from an operation's parameters: most writers keep it as JSON text."""
    found = json.loads(parameter or "[]") if isinstance(parameter, str) else parameter
    return [str(one) for one in found] if isinstance(found, list) else []


def _read_commits(target: MaintainedTable, log: ListedLog) -> Iterator[Commit]:
    """Yield the newest commits of the log, newest first, up to the first that is missing."""
    for version in sorted(log.commits, reverse=True)[:_LOOKED_AT]:
        body = log.commit(version)
        if body is None:
            return
        try:
            yield parse_commit(version, body)
        except ValueError as error:
            raise damaged_error(target.location, error) from error


def _compact(session: SparkSession, target: MaintainedTable, columns: Sequence[str]) -> MaintenanceResult:
    words = ", ".join(quote(name) for name in columns)
    [row] = session.sql(f"OPTIMIZE {target.sql}{f' ZORDER BY ({words})' if words else ''}").collect()
    metrics = row["metrics"]
    return MaintenanceResult(
        target, added=int(metrics["numFilesAdded"]), replaced=int(metrics["numFilesRemoved"]), done=True
    )
