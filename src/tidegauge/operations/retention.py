"""How near the flows between Delta tables are to losing versions that they have not read yet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tidegauge.delta_log.history import histories
from tidegauge.errors import TidegaugeError
from tidegauge.flows.delta_places import Places
from tidegauge.model.delta_flow import DeltaFlow, DeltaInput
from tidegauge.model.protocols.ledger import LedgerReader
from tidegauge.model.retention import unread
from tidegauge.model.spec import Project
from tidegauge.model.versions import History
from tidegauge.model.watermark import Watermark
from tidegauge.plan.versions import read_up_to
from tidegauge.spark.pyspark_private import is_running

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Notice:
    text: str
    over: bool = False
    """What was not read yet is gone, or may go any time."""


def warnings(project: Project, ledger: LedgerReader) -> dict[str, list[str]]:
    """By flow; one that is in no danger has no entry."""
    return {flow: [one.text for one in found] for flow, found in notices(project, ledger).items()}


def notices(
    project: Project, ledger: LedgerReader, delta_flows: Sequence[DeltaFlow] | None = None
) -> dict[str, list[Notice]]:
    """The same, with what is over told apart. Reads the logs of all inputs at once, and starts no Spark.

    An input by a name is looked up only where a session is there already; an input whose log cannot be read
    is a notice of its own.
    """
    wanted = project.delta_flows if delta_flows is None else delta_flows
    marks = {(mark.flow, mark.input): mark for mark in ledger.watermarks(project.pipeline)}
    places = Places(current_session)
    asked: dict[str, tuple[DeltaFlow, DeltaInput, int]] = {}
    locations: dict[str, str] = {}
    found: dict[str, list[Notice]] = {}
    for delta_flow in wanted:
        for part in delta_flow.moving:
            after = read_up_to(marks.get((delta_flow.name, part.name)))
            if after is None or (part.table.path is None and not has_session()):
                continue
            try:
                location = places.find(part.table)
            except TidegaugeError as error:
                found.setdefault(delta_flow.name, []).append(Notice(f"{part.name}: {error.message}"))
                continue
            if location is None:
                found.setdefault(delta_flow.name, []).append(
                    Notice(f"{part.name}: {part.table} is not there")
                )
                continue
            name = f"{len(asked)}"
            asked[name], locations[name] = (delta_flow, part, after), location
    answers = histories(
        {name: (locations[name], after, part.table.storage) for name, (_, part, after) in asked.items()}
    )
    now = datetime.now(UTC)
    for name, (delta_flow, part, after) in asked.items():
        notice = _notice(part, answers[name], after, marks[delta_flow.name, part.name], now, name)
        if notice is not None:
            found.setdefault(delta_flow.name, []).append(notice)
    return found


def has_session() -> bool:
    return is_running()


def current_session() -> SparkSession:
    from pyspark.sql import SparkSession

    return SparkSession.builder.getOrCreate()


def _notice(
    part: DeltaInput, answer: History | TidegaugeError, after: int, mark: Watermark, now: datetime, name: str
) -> Notice | None:
    if isinstance(answer, TidegaugeError):
        return Notice(f"{part.name}: {answer.message.removeprefix(f'{name}: ')}")
    if mark.source_id not in (None, answer.table_id):
        return Notice(f"{part.name}: another table stands at {part.table} now", over=True)
    gone = next((one.number for one in answer.versions if one.absent or one.missing), None)
    if gone is not None:
        return Notice(f"{part.name}: version {gone} of {part.table}, not read yet, is gone", over=True)
    try:
        left = unread(answer, after, now)
    except TidegaugeError as error:  # a retention that Delta itself would not understand
        return Notice(f"{part.name}: {part.table}: {error.message}")
    if left is None or left.note is None:
        return None
    return Notice(f"{part.name}: {part.table}: {left.note}", over=left.is_over)
