"""The Delta tables that a command looks after, and one Spark for all of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from tidegauge.config.flows import storage_of
from tidegauge.delta_log.location import lake_of, missing_error
from tidegauge.delta_log.log import ListedLog
from tidegauge.errors import ConfigError, OutputError, SourceError, TableMissing, TidegaugeError
from tidegauge.flows.delta_places import Places, own_session
from tidegauge.flows.select import Sources, choose, needs_of
from tidegauge.ledger.open import open_ledger
from tidegauge.ledger.owner import this_process
from tidegauge.model.delta_flow import DeltaFlow, TableRef
from tidegauge.model.error_json import error_to_json
from tidegauge.model.location import WITH_COLON, resolve
from tidegauge.model.run import FlowStatus
from tidegauge.model.spec import Lake, Project
from tidegauge.model.types import quote
from tidegauge.operations.delta_readers import Readers, plain
from tidegauge.spark.jars import Needs
from tidegauge.spark.session import open_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PARALLEL = 4


@dataclass(frozen=True)
class MaintainedTable:
    """A Delta table to be vacuumed or optimized."""

    table: TableRef
    location: str
    delta_flow: DeltaFlow | None = None
    """The flow that writes it."""

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


@dataclass(frozen=True)
class MaintenanceResult:
    """What was done to a table, or would be."""

    target: MaintainedTable
    added: int | None = None
    """Files that OPTIMIZE wrote; None, here and below: it was not asked for, or it is not known."""
    replaced: int | None = None
    """Files that those stand for now."""
    retain: timedelta | None = None
    removed: int | None = None
    """Files that the vacuum removed, or would remove."""
    more: bool = False
    """There are more of them than were counted."""
    before: TableSize | None = None
    """Of an optimized table, as is what follows."""
    after: TableSize | None = None
    seconds: float | None = None
    left_alone: str | None = None
    """Why it was not compacted."""
    done: bool = False
    absent: bool = False
    """The flow that writes it has not run yet."""
    error: TidegaugeError | None = None

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


class DeltaMaintenance:
    """The tables that a command is about, and one Spark for all of them, started when it is first needed."""

    def __init__(
        self, project: Project, selection: Sequence[str], tables: Sequence[str] = (), *, debug: bool = False
    ) -> None:
        self._project = project
        self._debug = debug
        self._needs = {Needs.S3 for text in tables if _ref(project, text).on_s3}
        self._spark: SparkSession | None = None
        self._starting = threading.Lock()
        self.places = Places(self.session)
        self.targets, self.faults = self._targets(selection, tables)

    def flows(self) -> tuple[dict[str, FlowStatus], Readers]:
        """The project's flows as the ledger shows them at this moment, and what each of them reads."""
        project = self._project
        with open_ledger(project.ledger, create=False) as ledger:
            statuses = {status.flow: status for status in ledger.status(project.pipeline)}
            marks = {(mark.flow, mark.input): mark for mark in ledger.watermarks(project.pipeline)}
        return statuses, Readers(project.delta_flows, statuses, marks, self.places)

    def session(self) -> SparkSession:
        with self._starting:
            if self._spark is None:
                needs = needs_of(self._project.delta_flows) | {Needs.DELTA} | self._needs
                self._spark = open_session(self._project.spark, needs, debug=self._debug)
            return self._spark

    @contextmanager
    def session_of(self, target: MaintainedTable) -> Iterator[SparkSession]:
        if target.delta_flow is not None:
            with self.places.session(target.delta_flow) as session:
                yield session
        else:
            with own_session(self.session(), [target.table.at(target.location)]) as session:
                yield session

    def each(
        self,
        one: Callable[[MaintainedTable], MaintenanceResult],
        tell: Callable[[str], None] | None = None,
        targets: Sequence[MaintainedTable] | None = None,
    ) -> list[MaintenanceResult]:
        """Work on several tables at once: on all of them, unless `targets` are given.

        `tell` hears of each as it begins. An error of one table is its result, and does not stop the others.
        """
        wanted = self.targets if targets is None else targets
        faults = self.faults if targets is None else []

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

        if not wanted:
            return list(faults)
        with ThreadPoolExecutor(min(_PARALLEL, len(wanted))) as pool:
            return [*faults, *pool.map(safely, wanted)]

    def note(self, found: Sequence[MaintenanceResult], event: str, reason: str) -> None:
        """Keep in the history what was done to the outputs of flows."""
        done = [one.target.delta_flow.name for one in found if one.done and one.target.delta_flow]
        if done:
            with open_ledger(self._project.ledger, create=True) as ledger:
                for flow in done:
                    ledger.note(self._project.pipeline, flow, event, owner=this_process(), reason=reason)

    def _targets(
        self, selection: Sequence[str], tables: Sequence[str]
    ) -> tuple[list[MaintainedTable], list[MaintenanceResult]]:
        project = self._project
        delta_flows: tuple[DeltaFlow, ...] = ()
        if project.delta_flows and (selection or not tables):
            with Sources() as sources:
                # Only flows between Delta tables have outputs of this kind: no database is asked.
                delta_flows = choose(replace(project, syncs=()), selection, sources).delta_flows
        refs: list[tuple[TableRef, DeltaFlow | None]] = [
            (delta_flow.output.table, delta_flow) for delta_flow in delta_flows
        ]
        refs += [(_ref(project, text), None) for text in tables]
        found: dict[str, MaintainedTable] = {}
        faults: list[MaintenanceResult] = []
        for table, delta_flow in refs:
            location = self.places.find(table)
            if location is None:
                target = MaintainedTable(table, str(table), delta_flow)
                gone = TableMissing(f"Spark's catalogue has no Delta table {table}", hint="check the name")
                faults.append(
                    MaintenanceResult(target, absent=True)
                    if delta_flow
                    else MaintenanceResult(target, error=gone)
                )
            else:
                found.setdefault(
                    plain(location), MaintainedTable(table, location, delta_flow or self._writer(location))
                )
        return list(found.values()), faults

    def _writer(self, location: str) -> DeltaFlow | None:
        return next(
            (
                delta_flow
                for delta_flow in self._project.delta_flows
                if (where := self.places.find(delta_flow.output.table)) and plain(where) == plain(location)
            ),
            None,
        )


def check_exists(target: MaintainedTable) -> None:
    """Raises TableMissing where there is no Delta table yet; asks its log, and no Spark."""
    lake = lake_of(target.location, target.table.storage)
    try:
        latest = ListedLog(lake).latest
    except OutputError as error:
        raise SourceError(f"{target.name}: {error.message}", hint=error.hint) from error
    if latest is None:
        raise missing_error(target.location, lake)


def _ref(project: Project, text: str) -> TableRef:
    """A path has a slash in it, a name has none."""
    if "/" not in text:
        return TableRef(name=text)
    try:
        path = resolve(text)
    except ValueError as error:
        raise ConfigError(f"{text}: {error}", hint=WITH_COLON) from None
    if not path.startswith("s3a://"):
        return TableRef(path=str((project.root / path).resolve()))
    lakes = (one for one in project.connections.values() if isinstance(one, Lake) and one.delta)
    return TableRef(path=path, storage=storage_of(path, lakes))
