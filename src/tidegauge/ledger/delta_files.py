"""Data files of a Delta ledger: they count once a commit adds them, and are merged when they are many."""

from __future__ import annotations

import contextlib
import math
import random
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeVar

from tidegauge.errors import LedgerError, LedgerUnreachable
from tidegauge.ledger.delta_rows import encode
from tidegauge.ledger.delta_shares import Row
from tidegauge.ledger.delta_snapshot import LedgerFile, LedgerSnapshot
from tidegauge.ledger.delta_table import LedgerTable
from tidegauge.ledger.keys import pipeline_key

T = TypeVar("T")
U = TypeVar("U")

LARGEST = 20_000
"""A file with so many rows is not merged any more."""
_MANY = 16
_TRIES = 500
_THREADS = 8


class NewFile(NamedTuple):
    file: LedgerFile
    stats: Mapping[str, Any]
    body: bytes


def new_file(pipeline: str, kind: str, schema: Mapping[str, str], rows: Sequence[Row]) -> NewFile:
    """A data file of these rows, not written yet. If the schema has `at`, its range is in the statistics."""
    body = encode(schema, rows)
    stats: dict[str, Any] = {"numRecords": len(rows)}
    latest = None
    if "at" in schema:
        times = [row["at"] for row in rows]
        latest = max(times)
        stats |= {"minValues": {"at": _text(min(times))}, "maxValues": {"at": _text(latest)}}
    # A pipeline's name can have any length and any letters; the log has it, the path only its digest.
    path = f"{pipeline_key(pipeline)[:16]}/{kind}-{uuid.uuid4().hex}.parquet"
    return NewFile(LedgerFile(path, pipeline, len(rows), len(body), latest), stats, body)


def commit(
    table: LedgerTable,
    on: LedgerSnapshot,
    add: Sequence[NewFile],
    gone: Sequence[LedgerFile],
    counters: Mapping[str, int],
) -> bool:
    """Write the files, then the commit that adds them. If another commit came between, the files are deleted
    and the result is False. After an error they stay, because the commit may be there; `tidy` deletes them if
    it is not."""
    map_in_threads(lambda one: table.put(one.file, one.body), add)
    won = table.commit(on, [(one.file, one.stats) for one in add], gone, counters)
    if not won:
        with contextlib.suppress(LedgerError):
            table.drop([one.file.place for one in add])
    return won


def kind_of(file: LedgerFile) -> str:
    """Which kind of rows a file holds, by its name. A file of another writer (Spark, by OPTIMIZE) may hold
    any."""
    return file.path.rpartition("/")[2].partition("-")[0]


def worth_merging(files: Sequence[LedgerFile]) -> list[LedgerFile]:
    """The files to merge into one: the smallest, once there are many of about the same size."""
    levels: dict[int, list[LedgerFile]] = {}
    for file in files:
        if 0 < file.rows < LARGEST:
            levels.setdefault(int(math.log(file.rows, _MANY)), []).append(file)
    return next((levels[level] for level in sorted(levels) if len(levels[level]) >= _MANY), [])


def retry_until_committed(shown: str, attempt: Callable[[], bool]) -> None:
    """Repeat a commit until it wins. Another writer wins each round that is lost, so this ends. Raises
    LedgerUnreachable after `_TRIES` rounds."""
    for tries in range(_TRIES):
        if attempt():
            return
        time.sleep(random.uniform(0, min(0.25, 0.002 * (tries + 1))))  # noqa: S311 - not a secret
    raise LedgerUnreachable(
        f"{shown} is written by so many that this could not be added to it",
        hint="try again; a ledger on PostgreSQL takes more writers",
    )


def map_in_threads(do: Callable[[T], U], items: Sequence[T]) -> list[U]:
    if len(items) < 2:
        return [do(item) for item in items]
    with ThreadPoolExecutor(min(_THREADS, len(items))) as pool:
        return list(pool.map(do, items))


def _text(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
