"""Compact Delta tables where it pays, and vacuum what that leaves behind."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tidegauge.errors import TidegaugeError
from tidegauge.model.types import quote
from tidegauge.operations.delta_tables import (
    DeltaMaintenance,
    MaintainedTable,
    MaintenanceResult,
    TableSize,
    check_exists,
)
from tidegauge.operations.vacuum import vacuum
from tidegauge.spark.errors import translate_spark_error

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LARGE = 96 * 1024 * 1024
"""Bytes of an average file that is not worth writing again."""
_LOOKED_AT = 200
"""Commits, newest first, among which the last OPTIMIZE is looked for."""
_NO_CHANGE = frozenset({"VACUUM START", "VACUUM END", "SET TBLPROPERTIES", "UNSET TBLPROPERTIES"})
Commit = tuple[str, Mapping[str, str]]
"""The operation and its parameters, as the table's history has them."""


def optimize(
    maintenance: DeltaMaintenance,
    target: MaintainedTable,
    *,
    zorder: Sequence[str] = (),
    clean: bool = True,
    force: bool = False,
) -> MaintenanceResult:
    """Small files become large ones, sorted by `zorder` or the columns that the flow declares.

    Their statistics (rows, NULLs, least and greatest value) are written anew with them. One commit that
    changes no row, so that readers go on; killed before it, nothing has happened. A table for which it does
    not pay is left as it is, unless `force`.

    `clean`: vacuum it afterwards. A vacuum that a reader forbids is the answer's error, and the table is
    compacted all the same.
    """
    columns = tuple(zorder) or (target.delta_flow.output.zorder if target.delta_flow else ())
    check_exists(target)
    begun = time.monotonic()
    with maintenance.session_of(target) as session, translate_spark_error(target.name):
        before = _measure(session, target)
        left_alone = None if force else find_reason(before, _history(session, target), columns)
        if left_alone is not None:
            done = MaintenanceResult(target, before=before, after=before, left_alone=left_alone, done=True)
        else:
            done = replace(_compact(session, target, columns), before=before, after=_measure(session, target))
    done = replace(done, seconds=time.monotonic() - begun)
    if not clean:
        return done
    try:
        cleaned = vacuum(maintenance, target, None)
    except TidegaugeError as error:
        return replace(done, error=error)
    return replace(done, retain=cleaned.retain, removed=cleaned.removed, seconds=time.monotonic() - begun)


def find_reason(size: TableSize, commits: Iterable[Commit], zorder: Sequence[str]) -> str | None:
    """Why a table is better left alone; None: compacting it pays."""
    if size.files < 2:
        return "it has no small files"
    if not zorder and size.bytes / size.files >= _LARGE:
        return "its files are large already"
    for operation, parameters in commits:
        if operation in _NO_CHANGE:
            continue
        same = operation == "OPTIMIZE" and _sorted_by(parameters) == [name.casefold() for name in zorder]
        return "nothing has changed since it was last optimized" if same else None
    return None


def _sorted_by(parameters: Mapping[str, str]) -> list[str]:
    names = json.loads(parameters.get("zOrderBy") or "[]")
    return [str(name).strip("`").casefold() for name in names]


def _compact(session: SparkSession, target: MaintainedTable, columns: Sequence[str]) -> MaintenanceResult:
    words = ", ".join(quote(name) for name in columns)
    [row] = session.sql(f"OPTIMIZE {target.sql}{f' ZORDER BY ({words})' if words else ''}").collect()
    metrics = row["metrics"]
    return MaintenanceResult(
        target, added=int(metrics["numFilesAdded"]), replaced=int(metrics["numFilesRemoved"]), done=True
    )


def _measure(session: SparkSession, target: MaintainedTable) -> TableSize:
    [row] = session.sql(f"DESCRIBE DETAIL {target.sql}").select("numFiles", "sizeInBytes").collect()
    return TableSize(int(row["numFiles"]), int(row["sizeInBytes"]))


def _history(session: SparkSession, target: MaintainedTable) -> list[Commit]:
    """Newest first."""
    found = session.sql(f"DESCRIBE HISTORY {target.sql} LIMIT {_LOOKED_AT}")
    rows = found.select("version", "operation", "operationParameters").collect()
    return [
        (row["operation"], row["operationParameters"] or {})
        for row in sorted(rows, key=lambda row: row["version"], reverse=True)
    ]
