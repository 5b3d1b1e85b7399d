"""Compact Delta tables, and vacuum what that leaves behind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tidegauge.errors import TidegaugeError
from tidegauge.model.types import quote
from tidegauge.operations.delta_tables import (
    DeltaMaintenance,
    MaintainedTable,
    MaintenanceResult,
)
from tidegauge.operations.vacuum import vacuum
from tidegauge.spark.errors import translate_spark_error


def optimize(
    maintenance: DeltaMaintenance, target: MaintainedTable, *, zorder: Sequence[str] = (), clean: bool = True
) -> MaintenanceResult:
    """Small files become large ones, sorted by `zorder` if that is given; their statistics are written anew.

    `clean`: vacuum it afterwards. Where a reader forbids that, the result has the error, and the table is
    compacted all the same.
    """
    columns = ", ".join(quote(name) for name in zorder)
    with maintenance.session_of(target) as session, translate_spark_error(target.name):
        words = f"OPTIMIZE {target.sql}{f' ZORDER BY ({columns})' if columns else ''}"
        [row] = session.sql(words).collect()
        metrics = row["metrics"]
        done = MaintenanceResult(
            target, added=int(metrics["numFilesAdded"]), replaced=int(metrics["numFilesRemoved"]), done=True
        )
    if not clean:
        return done
    try:
        cleaned = vacuum(maintenance, target, None)
    except TidegaugeError as error:
        return replace(done, error=error)
    return replace(done, retain=cleaned.retain, removed=cleaned.removed)
