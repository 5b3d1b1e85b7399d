"""Small work without what large work needs: Spark's own settings cost a small batch more than its rows do."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from tidegauge.delta_log.newest import Look
from tidegauge.spark.hadoop import on_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SETTINGS = {
    # There is nothing to adapt to: the rows are counted.
    "spark.sql.adaptive.enabled": "false",
    # Java that is written for one statement costs more than reading a few rows without it.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "1",
}
_LOG = {"spark.databricks.delta.snapshotPartitions": "1"}
_BYTES, _FILES = 16 * 2**20, 1_000


def is_small(look: Look) -> bool:
    noted = look.noted()
    return noted is not None and noted.bytes <= _BYTES and noted.files <= _FILES


@contextmanager
def tune_for_small(session: SparkSession) -> Iterator[None]:
    """For statements over few rows, into a table that is small itself."""
    before = {name: session.conf.get(name, None) for name in _SETTINGS}
    try:
        for name, value in _SETTINGS.items():
            session.conf.set(name, value)
        yield
    finally:
        for name, was in before.items():
            session.conf.unset(name) if was is None else session.conf.set(name, was)


def warm_up(session: SparkSession, table: str, look: Look, *, remote: bool) -> None:
    """Let Spark read the log of a table beside whatever else it does until the commit needs it.

    Delta looks a tag up in the table's whole state, which takes longer to read than a small append does.
    """
    quick = is_small(look) and not remote and not on_connect(session)

    def read() -> None:
        with suppress(Exception):  # the commit will meet it, and tell it
            # Not in haste on S3: only the flow's own session has the keys to the bucket.
            own = session.newSession() if quick else session
            for name, value in (_SETTINGS | _LOG if quick else {}).items():
                own.conf.set(name, value)
            own.sql(f"DESCRIBE DETAIL {table}")

    threading.Thread(target=read, daemon=True).start()
