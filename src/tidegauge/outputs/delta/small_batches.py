"""Shortcuts for small batches into small Delta tables.

Why: Spark's settings for large work, and Delta's search for a tag in the table's whole state, cost a small
batch more than its rows do.

1. While a change is planned, a thread lets Spark read the target's log (`read_log_ahead`), which the commit
   needs. The thread only reads; where it fails, the commit reads the log itself.
2. The statements of a small commit run without adaptive planning and generated code (`tune_for_small`), by
   settings of the flow's own session, which are restored afterwards.
3. Where the tables that a flow reads are small themselves (`reads_little`), the whole batch runs so.
   Tables and feeds are then read by the files that their logs name, as one partition each, so that a query is
   one job of one task; and a target that is small too is committed to without Spark (`small_target`).

Gain: docs/performance.md, under `TIDEGAUGE_SMALL_BATCHES`.

Switch: `TIDEGAUGE_SMALL_BATCHES=off` in the environment turns all of them off; results are the same.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from tidegauge.delta_log.snapshot import Log, Snapshot
from tidegauge.errors import TidegaugeError
from tidegauge.model.spec import Lake
from tidegauge.spark.hadoop import on_connect
from tidegauge.storage.store import open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SWITCH = "TIDEGAUGE_SMALL_BATCHES"
_SETTINGS = {
    # Few rows leave nothing to adapt to.
    "spark.sql.adaptive.enabled": "false",
    # Generating and compiling Java for one statement costs more than it saves on a few rows.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "1",
    # Small tables are one partition each: a join needs neither a shuffle nor a broadcast.
    "spark.sql.autoBroadcastJoinThreshold": "-1",
}
_LOG = {"spark.databricks.delta.snapshotPartitions": "1"}
_BYTES, _FILES = 16 * 2**20, 1_000
_READ_BYTES = 4 * 2**20
"""The most bytes that all tables of a flow may have together to count as small."""


def is_small(look: Snapshot) -> bool:
    size = look.find_size()
    return size is not None and size.bytes <= _BYTES and size.files <= _FILES


def reads_little(tables: Iterable[Lake]) -> bool:
    """Whether the tables are small, all of them together. False for tables on S3, whose logs are slow to
    read."""
    left = -1 if is_off() else _READ_BYTES
    for lake in tables:
        try:
            look = None if lake.on_s3 else Log(open_store(lake)).look()
            size = look.find_size() if look else None
        except (TidegaugeError, OSError):
            return False  # reading the table will raise the error
        if size is None or size.files > _FILES:
            return False
        left -= size.bytes
    return left >= 0


@contextmanager
def tune_for_small(session: SparkSession, *, few: bool) -> Iterator[None]:
    """Run the statements inside with settings for few rows. `few`: whether their rows are few and the target
    is small; else no setting is changed."""
    if not few or is_off():
        yield
        return
    settings = _SETTINGS | _LOG
    before = {name: session.conf.get(name, None) for name in settings}
    try:
        for name, value in settings.items():
            session.conf.set(name, value)
        yield
    finally:
        for name, was in before.items():
            session.conf.unset(name) if was is None else session.conf.set(name, was)


def read_log_ahead(session: SparkSession, table: str, look: Snapshot, *, remote: bool) -> None:
    """Let Spark read a table's log in a thread, so that it is there when the commit needs it."""
    if is_off():
        return
    # Not so on S3: only the flow's own session has the keys to the bucket.
    quick = is_small(look) and not remote and not on_connect(session)

    def read() -> None:
        with suppress(Exception):  # the commit meets the same error, and raises it
            own = session.newSession() if quick else session
            for name, value in (_SETTINGS | _LOG if quick else {}).items():
                own.conf.set(name, value)
            own.sql(f"DESCRIBE DETAIL {table}")

    threading.Thread(target=read, daemon=True).start()


def is_off() -> bool:
    return os.environ.get(SWITCH) == "off"
