"""Histories of Delta tables, and watermarks and flows over them, as inputs for planning."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from tidegauge.model.delta_flow import DeltaFlow, DeltaInput, DeltaTable, TableRef
from tidegauge.model.mode import Mode
from tidegauge.model.plan import Draft
from tidegauge.model.position import VersionPosition, Window
from tidegauge.model.versions import FEED, DeltaHistory, Version
from tidegauge.model.watermark import Watermark
from tidegauge.plan.versions import draft_versions

DAY = timedelta(days=1)
START = datetime(2026, 11, 1, tzinfo=UTC)
SEEN = (0, 3)


def version(number: int, **facts: Any) -> Version:
    """Make a version; by default one with a change feed has `only_adds` False, one without has it True."""
    given: dict[str, Any] = {
        "at": START + number * timedelta(minutes=1),
        "changes": True,
        "only_adds": not facts.get("feed", True),
        "bytes": 10,
        "feed": True,
        "digest": "d1",
        "table_id": "id1",
    }
    return Version(number, **(given | facts))


def idle(number: int, **facts: Any) -> Version:
    return version(number, changes=False, bytes=0, **facts)


def history(*versions: Version, after: int | None = None, **facts: Any) -> DeltaHistory:
    """Make a history whose latest version is the last one given; without any, `after`."""
    latest = versions[-1].number if versions else after or 0
    given: dict[str, Any] = {
        "location": "/t",
        "table_id": "id1",
        "latest": latest,
        "at": START + latest * timedelta(minutes=1),
        "digest": versions[-1].digest if versions else "d1",
        "schema": "{}",
        "earliest": 0,
        "read_at": START + DAY,
        "after": after,
        "versions": versions,
        "properties": {FEED: "true"},
    }
    return DeltaHistory(**(given | facts))


def source(name: str = "a", **options: Any) -> DeltaInput:
    return DeltaInput(name, TableRef(name=f"bronze.{name}"), **options)


def delta_flow(*inputs: DeltaInput, mode: Mode = Mode.MERGE, **options: Any) -> DeltaFlow:
    output = DeltaTable(TableRef(name="silver.t"), mode=mode, key=("id",))
    return DeltaFlow("p", "silver_t", inputs or (source(),), output, **options)


def mark(position: int | None, *, checked: int | None = None, source_id: str | None = "id1") -> Watermark:
    return Watermark(
        pipeline="p",
        flow="silver_t",
        input="a",
        cursor="version",
        position=None if position is None else VersionPosition(position),
        checked=None if checked is None else VersionPosition(checked),
        epoch=0,
        seq=3,
        pending=None,
        source_id=source_id,
        updated_at=START.replace(tzinfo=None),
    )


def plan(
    found: DeltaHistory, position: int | None = None, *, flow: DeltaFlow | None = None, **known: Any
) -> Draft:
    marks = {} if position is None and not known else {"a": mark(position, **known)}
    return draft_versions(flow or delta_flow(), {"a": found}, marks, seen=SEEN)


def steps(draft: Draft, index: int = 0) -> list[tuple[Any, Any, str]]:
    """Return what each batch reads of one input: after, upto and the way."""
    return [
        (_number(batch.windows[index]), _number(batch.windows[index], end=True), batch.ways[index].value)
        for batch in draft.batches
    ]


def _number(window: Window, *, end: bool = False) -> int | None:
    position = window.upto if end else window.after
    assert isinstance(position, VersionPosition | None)
    return position.version if position else None


GONE = history(version(5), version(6, missing=("_change_data/x.parquet", "y")), version(7), after=4)
