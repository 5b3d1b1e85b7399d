"""How close the flows between Delta tables are to losing versions that they have not read yet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from tidegauge.delta_log.history import history
from tidegauge.delta_log.location import each
from tidegauge.errors import TableReplaced, TidegaugeError, VersionsMissing
from tidegauge.flows.delta_locator import DeltaTableLocator
from tidegauge.model.delta_flow import DeltaFlow, DeltaInput, OnMissing
from tidegauge.model.plan import Plan, ReadWay
from tidegauge.model.protocols.ledger import LedgerReader
from tidegauge.model.retention import kept_for, unread
from tidegauge.model.run import FlowStatus
from tidegauge.model.spec import Project
from tidegauge.model.versions import LATEST, DeltaHistory
from tidegauge.plan.frozen import check_frozen_input, find_end, find_first_versions
from tidegauge.plan.versions import find_unread_pieces, read_up_to, reads_whole
from tidegauge.spark.pyspark_private import is_running

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PARALLEL = 16


@dataclass(frozen=True)
class RetentionNotice:
    text: str
    over: bool = False
    """Whether the next run fails for unread versions that are gone, or may do so any time."""


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
    """Return the margin of every input that is read by versions. Asks all tables in parallel, without Spark.

    A pinned input is among them only where an unfinished plan can no longer read it. A table known only by
    name is looked up only if a Spark session exists already. A table that cannot be asked is a notice too.
    """
    flows = project.delta_flows if delta_flows is None else delta_flows
    if not flows:
        return []
    places = DeltaTableLocator(current_session)
    wanted = list(_find_inputs(project, ledger, flows))
    located = [(one, _locate(one, places)) for one in wanted]
    measures = {
        f"{index}": partial(_measure, one, location)
        for index, (one, location) in enumerate(located)
        if isinstance(location, str)
    }
    measured = each(measures, parallel=_PARALLEL)
    found: list[RetentionMargin] = []
    for index, (one, location) in enumerate(located):
        answer = location if isinstance(location, RetentionMargin) else measured[f"{index}"]
        if isinstance(answer, TidegaugeError):
            answer = _note(one.margin, answer.message.removeprefix(f"{index}: "))
        if answer.notice is not None or not one.part.snapshot:
            found.append(answer)
    return found


@dataclass(frozen=True)
class _UnreadInput:
    margin: RetentionMargin
    flow: DeltaFlow
    part: DeltaInput
    source_id: str | None
    """The id of the table that was read."""
    plan: Plan | None = None
    """The plan that the next run goes on with; None: it makes one."""

    @property
    def planned(self) -> tuple[int, str] | None:
        """The version that the plan reads up to, and the id of its table."""
        if self.plan is None:
            return None
        [frozen] = [one for one in self.plan.draft.inputs if one.input == self.part.name]
        return find_end(frozen), frozen.source_id

    @property
    def by_version(self) -> bool:
        """Whether the plan reads versions one by one: it cannot do without any of them."""
        return self.plan is not None and self._first != LATEST

    @property
    def after(self) -> int | None:
        """The version after which the next run, or the one after its plan, reads versions."""
        if self.planned is None:
            return self.margin.read
        return self._first if self.by_version else self.planned[0]

    @property
    def _first(self) -> int | None:
        assert self.plan is not None
        return find_first_versions(self.plan.draft, self.plan.done)[self.part.name]


def _find_inputs(
    project: Project, ledger: LedgerReader, flows: Sequence[DeltaFlow]
) -> Iterator[_UnreadInput]:
    """The inputs that are read by versions, and the pinned ones that an unfinished plan reads."""
    marks = {(mark.flow, mark.input): mark for mark in ledger.watermarks(project.pipeline)}
    statuses = {one.flow: one for one in ledger.status(project.pipeline, [flow.name for flow in flows])}
    for flow in flows:
        plan = _find_plan(flow, statuses.get(flow.name))
        for part in flow.incremental if plan is None else flow.inputs:
            mark = marks.get((flow.name, part.name))
            margin = RetentionMargin(flow.name, part.name, str(part.table), read_up_to(mark))
            yield _UnreadInput(margin, flow, part, mark.source_id if mark else None, plan)


def _find_plan(flow: DeltaFlow, status: FlowStatus | None) -> Plan | None:
    """The plan that the next run goes on with, if it froze versions of the inputs that the flow has now."""
    if status is None or status.plan is None or status.override is not None:
        return None
    draft = status.plan.draft
    same = {part.input for part in draft.inputs} == {part.name for part in flow.inputs}
    frozen = all(batch.ways and ReadWay.COLUMN not in batch.ways for batch in draft.batches)
    return status.plan if same and frozen and flow.by_column is None else None


def _locate(one: _UnreadInput, places: DeltaTableLocator) -> str | RetentionMargin:
    """The table's location, or what is said of an input whose table is not asked."""
    table = one.part.table
    if one.margin.read is None and one.plan is None:
        return replace(one.margin, remark="no version was read yet")
    if table.path is None and not has_session():
        return replace(one.margin, remark="its place is known to Spark's catalogue only")
    try:
        location = places.find(table)
    except TidegaugeError as error:
        return _note(one.margin, error.message)
    return _note(one.margin, f"{table} is not there") if location is None else location


def has_session() -> bool:
    return is_running()


def current_session() -> SparkSession:
    from pyspark.sql import SparkSession

    return SparkSession.builder.getOrCreate()


def _note(margin: RetentionMargin, text: str, *, over: bool = False) -> RetentionMargin:
    return replace(margin, remark=text, notice=RetentionNotice(f"{margin.input}: {text}", over))


def _measure(one: _UnreadInput, location: str) -> RetentionMargin:
    """Say what the next run will do about the unread versions, or how much time is left for them.

    Raises TidegaugeError where the table cannot be asked.
    """
    margin, flow, part = one.margin, one.flow, one.part
    found = history(location, after=one.after, storage=part.table.storage)
    try:
        notes = _check(one, found)
    except (VersionsMissing, TableReplaced) as error:
        return _note(margin, error.message.removeprefix(f"{flow.name}: "), over=True)
    if notes:
        return _note(margin, notes[0].removeprefix(f"{part.name}: "))
    if part.snapshot:
        return margin
    try:
        left, kept = unread(found, one.after, found.read_at), kept_for(found.properties)
    except TidegaugeError as error:  # a retention that Delta itself could not parse
        return _note(margin, f"{margin.table}: {error.message}")
    if left is None:
        return replace(margin, left=kept, kept=kept)
    # Where the whole table may be read again, nothing fails when the versions are gone.
    over = left.is_over and (one.by_version or part.on_missing is not OnMissing.REBASELINE)
    warns = left.note is not None and (one.by_version or not reads_whole(flow, part))
    notice = RetentionNotice(f"{margin.input}: {margin.table}: {left.note}", over=over) if warns else None
    return replace(margin, unread=left.version, left=left.left, kept=left.kept, notice=notice)


def _check(one: _UnreadInput, found: DeltaHistory) -> Sequence[str]:
    """What the next plan will note of the unread versions. Raises VersionsMissing and TableReplaced, also for
    the plan that there is."""
    begin, known = one.margin.read, one.source_id
    if one.plan is not None and one.planned is not None:
        check_frozen_input(one.flow, one.plan.draft, one.part.name, found, one.plan.done)
        begin, known = one.planned
    if one.part.snapshot:
        return ()
    assert begin is not None
    return find_unread_pieces(one.flow, one.part, found, begin, known)[1]
