"""What vacuum and optimize share: the Delta tables, their readers, and the results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from tidegauge.delta_log.location import damaged_error, lake_of, missing_error
from tidegauge.delta_log.log import ListedLog
from tidegauge.delta_log.protocol import refuse_catalogue
from tidegauge.errors import OutputError, SourceError, TableMissing, TidegaugeError
from tidegauge.flows.delta_locator import DeltaTableLocator, own_session
from tidegauge.flows.maintenance.delta_consumers import DeltaConsumers
from tidegauge.model.delta_flow import DeltaFlow, TableRef
from tidegauge.model.error_json import error_to_json
from tidegauge.model.protocols.ledger import LedgerReader
from tidegauge.model.run import FlowStatus
from tidegauge.model.spec import Project
from tidegauge.model.types import quote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PARALLEL = 4
OpenLedger = Callable[[], AbstractContextManager[LedgerReader]]


def show_bytes(count: int) -> str:
    """Write a size for people: `812 B`, `3.4 MB`."""
    amount, units = float(count), iter(("B", "kB", "MB", "GB", "TB"))
    unit = next(units)
    while amount >= 1000 and unit != "TB":
        amount, unit = amount / 1000, next(units)
    return f"{amount:.0f} {unit}" if unit == "B" or amount >= 100 else f"{amount:.1f} {unit}"


@dataclass(frozen=True)
class MaintainedTable:
    """A Delta table to be vacuumed or optimized."""

    table: TableRef
    location: str
    delta_flow: DeltaFlow | None = None
    """The flow that writes the table; None: it is no flow's table."""

    @property
    def name(self) -> str:
        return self.delta_flow.name if self.delta_flow else str(self.table)

    @property
    def sql(self) -> str:
        return f"delta.{quote(self.location)}"


@dataclass(frozen=True)
class TableSize:
    files: int
    bytes: int
    most: int
    """How many files the partition with the most files has."""

    def __str__(self) -> str:
        return f"{self.files:,} {'file' if self.files == 1 else 'files'}, {show_bytes(self.bytes)}"


@dataclass(frozen=True)
class MaintenanceResult:
    """What was done to a table, or would be done by a real run."""

    target: MaintainedTable
    added: int | None = None
    """How many files OPTIMIZE wrote. None, here and below: it was not asked for, or is not known."""
    replaced: int | None = None
    """How many files these replace."""
    retain: timedelta | None = None
    """How long the vacuum keeps files that are no longer part of the table."""
    removed: int | None = None
    """How many files the vacuum removed, or would remove."""
    more: bool = False
    """Whether the vacuum would remove more files than `removed` counts."""
    before: TableSize | None = None
    """The table's size before OPTIMIZE; None: OPTIMIZE did not look at it."""
    after: TableSize | None = None
    """The table's size after OPTIMIZE."""
    seconds: float | None = None
    """How long OPTIMIZE, and a vacuum after it, took."""
    left_alone: str | None = None
    """Why the table was not compacted; None: it was, or this was a vacuum."""
    done: bool = False
    """Whether the work was done; False for a dry run or an error."""
    absent: bool = False
    """Whether the table does not exist yet, because the flow that writes it has not run."""
    error: TidegaugeError | None = None

    @property
    def compacted(self) -> bool:
        """Whether OPTIMIZE wrote files."""
        return bool(self.added)

    def to_json(self) -> dict[str, Any]:
        return {
            "table": str(self.target.table),
            "flow": self.target.delta_flow.name if self.target.delta_flow else None,
            "files_added": self.added,
            "files_replaced": self.replaced,
            "retain_hours": self.retain.total_seconds() / 3600 if self.retain is not None else None,
            "files_removed": self.removed,
            "done": self.done,
            "exists": not self.absent,
            "error": error_to_json(self.error) if self.error else None,
            **self._sizes_to_json(),
        }

    def _sizes_to_json(self) -> dict[str, Any]:
        if self.before is None or self.after is None:
            return {}
        return {
            "files_before": self.before.files,
            "files_after": self.after.files,
            "bytes_before": self.before.bytes,
            "bytes_after": self.after.bytes,
            "seconds": round(self.seconds or 0.0, 3),
            "left_alone": self.left_alone,
        }


class Maintenance:
    """The project, the places of its tables, and its ledger, for vacuum and optimize."""

    def __init__(self, project: Project, places: DeltaTableLocator, ledger: OpenLedger) -> None:
        self._project = project
        self._ledger = ledger
        self.places = places

    def flows(self) -> tuple[dict[str, FlowStatus], DeltaConsumers]:
        """Ask the ledger for the flows' statuses, and for what each flow still has to read."""
        project = self._project
        with self._ledger() as ledger:
            statuses = {status.flow: status for status in ledger.status(project.pipeline)}
            marks = {(mark.flow, mark.input): mark for mark in ledger.watermarks(project.pipeline)}
        return statuses, DeltaConsumers(project.delta_flows, statuses, marks, self.places)

    @contextmanager
    def session_of(self, target: MaintainedTable) -> Iterator[SparkSession]:
        """Open a Spark session of its own that may read and write the table."""
        if target.delta_flow is not None:
            with self.places.session(target.delta_flow) as session:
                yield session
        else:
            with own_session(self.places.shared_session(), [target.table.at(target.location)]) as session:
                yield session

    def work_on(
        self,
        targets: Sequence[MaintainedTable],
        one: Callable[[MaintainedTable], MaintenanceResult],
        tell: Callable[[str], None] | None = None,
    ) -> list[MaintenanceResult]:
        """Call `one` for each table, several at once. `tell` gets the name of each table as it begins.

        An error of one table becomes its result, and does not stop the others.
        """

        def safely(target: MaintainedTable) -> MaintenanceResult:
            if tell is not None:
                tell(target.name)
            try:
                return one(target)
            except TidegaugeError as error:
                absent = isinstance(error, TableMissing) and target.delta_flow is not None
                return (
                    MaintenanceResult(target, absent=True)
                    if absent
                    else MaintenanceResult(target, error=error)
                )

        if not targets:
            return []
        with ThreadPoolExecutor(min(_PARALLEL, len(targets))) as pool:
            return list(pool.map(safely, targets))


def output_of(flow: DeltaFlow, places: DeltaTableLocator) -> MaintainedTable:
    """The table that a flow writes. Raises TableMissing if the catalogue does not have it yet."""
    return MaintainedTable(flow.output.table, places.location(flow.output.table), flow)


def open_log(target: MaintainedTable) -> ListedLog:
    """Open the table's Delta log, without Spark. Raises TableMissing if there is no Delta table yet, and
    SourceError if the table is committed through a catalogue: the log may lack what readers still need."""
    lake = lake_of(target.location, target.table.storage)
    try:
        log = ListedLog(lake)
        state = log.state(log.latest) if log.latest is not None else None
    except OutputError as error:
        raise SourceError(f"{target.name}: {error.message}", hint=error.hint) from error
    except (ValueError, KeyError, TypeError) as error:
        raise damaged_error(target.location, error) from error
    if log.latest is None:
        raise missing_error(target.location, lake)
    if state is not None:
        refuse_catalogue(
            target.location,
            state.features,
            hint="maintain it through its catalogue, or drop the feature from it; nothing was removed",
        )
    return log
