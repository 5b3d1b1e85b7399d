"""The Delta tables that a maintenance command works on, and one Spark for all of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from tidegauge.config.flows import storage_of
from tidegauge.errors import ConfigError, TableMissing
from tidegauge.flows.delta_locator import DeltaTableLocator
from tidegauge.flows.maintenance.base import MaintainedTable, Maintenance, MaintenanceResult
from tidegauge.flows.selection.select import choose
from tidegauge.flows.spark_jars import find_jars
from tidegauge.ledger.open import open_ledger
from tidegauge.ledger.owner import this_process
from tidegauge.model.delta_flow import DeltaFlow, TableRef
from tidegauge.model.location import WITH_COLON, identify, resolve
from tidegauge.model.spec import Lake, Project
from tidegauge.sources.connections import SourceConnections
from tidegauge.spark.jars import JarSet
from tidegauge.spark.session import open_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SelectedMaintenance(Maintenance):
    """The tables that a command works on, and one Spark for all of them, started when first needed."""

    def __init__(
        self, project: Project, selection: Sequence[str], tables: Sequence[str] = (), *, debug: bool = False
    ) -> None:
        super().__init__(
            project, DeltaTableLocator(self.session), partial(open_ledger, project.ledger, create=False)
        )
        self._debug = debug
        self._needs = {JarSet.S3 for text in tables if _parse_table(project, text).on_s3}
        self._spark: SparkSession | None = None
        self._starting = threading.Lock()
        self.targets, self.faults = self._find_targets(selection, tables)

    def session(self) -> SparkSession:
        with self._starting:
            if self._spark is None:
                needs = find_jars(self._project.delta_flows) | {JarSet.DELTA} | self._needs
                self._spark = open_session(self._project.spark, needs, debug=self._debug)
            return self._spark

    def each(
        self,
        one: Callable[[MaintainedTable], MaintenanceResult],
        tell: Callable[[str], None] | None = None,
        targets: Sequence[MaintainedTable] | None = None,
    ) -> list[MaintenanceResult]:
        """Work on all tables that were selected, unless `targets` are given."""
        if targets is not None:
            return self.work_on(targets, one, tell)
        return [*self.faults, *self.work_on(self.targets, one, tell)]

    def note(self, found: Sequence[MaintenanceResult], event: str, reason: str) -> None:
        """Record in the history what was done to the outputs of flows."""
        done = [one.target.delta_flow.name for one in found if one.done and one.target.delta_flow]
        if done:
            with open_ledger(self._project.ledger, create=True) as ledger:
                for flow in done:
                    ledger.note(self._project.pipeline, flow, event, owner=this_process(), reason=reason)

    def _find_targets(
        self, selection: Sequence[str], tables: Sequence[str]
    ) -> tuple[list[MaintainedTable], list[MaintenanceResult]]:
        project = self._project
        delta_flows: tuple[DeltaFlow, ...] = ()
        if project.delta_flows and (selection or not tables):
            with SourceConnections() as sources:
                # Without syncs no database is asked; only flows between Delta tables are needed here.
                delta_flows = choose(replace(project, syncs=()), selection, sources).delta_flows
        refs: list[tuple[TableRef, DeltaFlow | None]] = [
            (delta_flow.output.table, delta_flow) for delta_flow in delta_flows
        ]
        refs += [(_parse_table(project, text), None) for text in tables]
        found: dict[str, MaintainedTable] = {}
        faults: list[MaintenanceResult] = []
        for table, delta_flow in refs:
            location = self.places.find(table)
            if location is None:
                target = MaintainedTable(table, str(table), delta_flow)
                gone = TableMissing(
                    f"Spark's catalogue has no Delta table {table}",
                    hint="check the name; `tidegauge files compact` joins the files of a Parquet lake",
                )
                faults.append(
                    MaintenanceResult(target, absent=True)
                    if delta_flow
                    else MaintenanceResult(target, error=gone)
                )
            else:
                found.setdefault(
                    identify(location),
                    MaintainedTable(table, location, delta_flow or self._find_writer(location)),
                )
        return list(found.values()), faults

    def _find_writer(self, location: str) -> DeltaFlow | None:
        wanted = identify(location)
        return next(
            (
                delta_flow
                for delta_flow in self._project.delta_flows
                if (where := self.places.find(delta_flow.output.table)) and identify(where) == wanted
            ),
            None,
        )


def _parse_table(project: Project, text: str) -> TableRef:
    """Parse a table's path, which has a slash in it, or its name."""
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
