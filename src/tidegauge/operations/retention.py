"""How close the flows between Delta tables are to losing versions that they have not read yet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from tidegauge.delta_log.history import histories
from tidegauge.errors import TableReplaced, TidegaugeError, VersionsMissing
from tidegauge.flows.delta_locator import DeltaTableLocator
from tidegauge.model.delta_flow import DeltaFlow, DeltaInput, OnMissing
from tidegauge.model.protocols.ledger import LedgerReader
from tidegauge.model.retention import kept_for, unread
from tidegauge.model.spec import Project
from tidegauge.model.versions import DeltaHistory
from tidegauge.model.watermark import Watermark
from tidegauge.plan.versions import find_unread_pieces, read_up_to, reads_whole
from tidegauge.spark.pyspark_private import is_running

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class RetentionNotice:
    text: str
    over: bool = False
    """Whether the next plan fails for unread versions that are gone, or may do so any time."""


@dataclass(frozen=True)
class RetentionMargin:
    """How long one input of a flow can wait before versions that it has not read may be removed."""

    flow: str
    input: str
    table: str
    read: int | None = None
    """The last version that was read; None: none yet."""
    unread: int | None = None
    """The first version that was not read; None: all are read, or not known."""
    left: timedelta | None = None
    """The time left; all of `kept` if all versions are read. None: not known."""
    kept: timedelta | None = None
    """How long the table keeps a version."""
    remark: str = ""
    """Why `left` is not known."""
    notice: RetentionNotice | None = None

    @property
    def days(self) -> float | None:
        return None if self.left is None else self.left / timedelta(days=1)


def warnings(project: Project, ledger: LedgerReader) -> dict[str, list[str]]:
    """Return warnings by flow; a flow in no danger has no entry."""
    return {flow: [one.text for one in found] for flow, found in find_notices(project, ledger).items()}


def find_notices(
    project: Project, ledger: LedgerReader, delta_flows: Sequence[DeltaFlow] | None = None
) -> dict[str, list[RetentionNotice]]:
    """Return notices by flow, which also say whether it is too late; a flow in no danger has no entry."""
    found: dict[str, list[RetentionNotice]] = {}
    for one in find_margins(project, ledger, delta_flows):
        if one.notice is not None:
            found.setdefault(one.flow, []).append(one.notice)
    return found


def find_margins(
    project: Project, ledger: LedgerReader, delta_flows: Sequence[DeltaFlow] | None = None
) -> list[RetentionMargin]:
    """Return the margin of every input that is read by versions. Reads all logs in parallel, without Spark.

    A table known only by name is looked up only if a Spark session exists already. A log that cannot be read
    is a notice too.
    """
    wanted = project.delta_flows if delta_flows is None else delta_flows
    marks = {(mark.flow, mark.input): mark for mark in ledger.watermarks(project.pipeline)}
    places = DeltaTableLocator(current_session)
    asked: dict[str, tuple[RetentionMargin, DeltaFlow, DeltaInput]] = {}
    locations: dict[str, str] = {}
    found: list[RetentionMargin] = []
    for flow, part in [(one, part) for one in wanted for part in one.moving]:
        after = read_up_to(marks.get((flow.name, part.name)))
        margin = RetentionMargin(flow.name, part.name, str(part.table), after)
        if after is None:
            found.append(replace(margin, remark="no version was read yet"))
            continue
        if part.table.path is None and not has_session():
            found.append(replace(margin, remark="its place is known to Spark's catalogue only"))
            continue
        try:
            location = places.find(part.table)
        except TidegaugeError as error:
            found.append(_note(margin, error.message))
            continue
        if location is None:
            found.append(_note(margin, f"{part.table} is not there"))
            continue
        name = f"{len(asked)}"
        asked[name], locations[name] = (margin, flow, part), location
    answers = histories(
        {
            name: (locations[name], margin.read, part.table.storage)
            for name, (margin, _, part) in asked.items()
        }
    )
    now = datetime.now(UTC)
    for name, (margin, flow, part) in asked.items():
        answer = answers[name]
        if isinstance(answer, TidegaugeError):
            found.append(_note(margin, answer.message.removeprefix(f"{name}: ")))
        else:
            found.append(_measure(margin, flow, part, answer, marks[flow.name, part.name], now))
    return found


def has_session() -> bool:
    return is_running()


def current_session() -> SparkSession:
    from pyspark.sql import SparkSession

    return SparkSession.builder.getOrCreate()


def _note(margin: RetentionMargin, text: str, *, over: bool = False) -> RetentionMargin:
    return replace(margin, remark=text, notice=RetentionNotice(f"{margin.input}: {text}", over))


def _measure(
    margin: RetentionMargin,
    flow: DeltaFlow,
    part: DeltaInput,
    history: DeltaHistory,
    mark: Watermark,
    now: datetime,
) -> RetentionMargin:
    """Say what the next plan will do about the unread versions, or how much time is left for them."""
    assert margin.read is not None
    try:
        _, notes = find_unread_pieces(flow, part, history, margin.read, mark.source_id)
    except (VersionsMissing, TableReplaced) as error:
        return _note(margin, error.message.removeprefix(f"{flow.name}: "), over=True)
    if notes:
        return _note(margin, notes[0].removeprefix(f"{part.name}: "))
    try:
        left, kept = unread(history, margin.read, now), kept_for(history.properties)
    except TidegaugeError as error:  # a retention that Delta itself could not parse
        return _note(margin, f"{margin.table}: {error.message}")
    if left is None:
        return replace(margin, left=kept, kept=kept)
    # Where the whole table may be read again, nothing fails when the versions are gone.
    over = left.is_over and part.on_missing is not OnMissing.REBASELINE
    warns = left.note is not None and not reads_whole(flow, part)
    notice = RetentionNotice(f"{margin.input}: {margin.table}: {left.note}", over=over) if warns else None
    return replace(margin, unread=left.version, left=left.left, kept=left.kept, notice=notice)
