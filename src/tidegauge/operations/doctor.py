"""Checks everything that a run needs, before it runs; each problem comes with its fix."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from tidegauge.errors import LedgerError, TidegaugeError
from tidegauge.flows.names import table_named
from tidegauge.flows.selection.missing_tables import RecordedFlows, find_recorded
from tidegauge.flows.selection.remarks import find_remarks
from tidegauge.flows.selection.select import choose
from tidegauge.flows.spark_jars import find_project_jars
from tidegauge.ledger.address import parse
from tidegauge.ledger.open import open_ledger
from tidegauge.model.engines import READABLE
from tidegauge.model.plan import NO_INDEX
from tidegauge.model.privileges import MissingPrivilege
from tidegauge.model.secret import mask
from tidegauge.model.spec import Database, Lake, Project, TableFlow
from tidegauge.operations.doctor_access import (
    check_lake,
    check_ledger,
    check_warehouse,
    find_barred,
)
from tidegauge.operations.doctor_sources import check_database, find_rights
from tidegauge.operations.plan import preview
from tidegauge.sources.connections import SourceConnections
from tidegauge.spark.jars import JarSet, find_cached, jars
from tidegauge.spark.java import find_java
from tidegauge.spark.warm_client import SWITCH, describe_kept, find_kept


@dataclass(frozen=True)
class DoctorFinding:
    about: str
    ok: bool
    says: str
    fix: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "about": self.about,
            "ok": self.ok,
            "says": mask(self.says),
            "fix": mask(self.fix) if self.fix else None,
        }


def check_project(project: Project, *, probe: bool = False) -> Iterator[DoctorFinding]:
    """Yield findings as they are made. Changes nothing. `probe`: also test writing, and remove what was
    written."""
    said: set[str] = set()
    for found in _examine_parts(project, probe):
        said |= {found.says} if found.ok else {found.says, found.about}
        yield found
    yield from _check_plans(project, said)


def _examine_parts(project: Project, probe: bool) -> Iterator[DoctorFinding]:
    yield from _guard("java", _check_java)
    lakes = [one for one in project.connections.values() if isinstance(one, Lake)]
    needs = find_project_jars(project) | {JarSet.S3 for lake in lakes if lake.on_s3}
    if "spark.jars" not in project.spark.conf:
        yield from _guard("jars", lambda: _check_jars(needs, project, probe))
    yield from _guard("spark", lambda: _check_kept(project))
    yield from _guard("ledger", lambda: _ledger(project, probe))
    with SourceConnections() as sources:
        yield from _examine_connections(project, sources, probe)
        recorded: RecordedFlows = {}
        # A ledger that does not answer was reported above.
        with suppress(TidegaugeError), open_ledger(project.ledger, create=False) as ledger:
            recorded = find_recorded(ledger, project.pipeline)
        flows: list[TableFlow] = []
        for sync in project.syncs:
            yield from _check_tables(
                replace(project, syncs=(sync,), delta_flows=()), sources, recorded, flows
            )
    yield from _examine_warehouses(project, flows)


def _examine_connections(
    project: Project, sources: SourceConnections, probe: bool
) -> Iterator[DoctorFinding]:
    """Check lakes, and databases that are only read. Warehouses are checked once their tables are known."""
    written = _list_written(project)
    for one in project.connections.values():
        about = f"connection {one.name}"
        if isinstance(one, Lake):
            yield from _guard(about, partial(check_lake, one, probe=probe))
        elif one.engine in READABLE and one.name not in written - {
            sync.source.name for sync in project.syncs
        }:
            yield from _guard(about, partial(check_database, one, sources))


def _examine_warehouses(project: Project, flows: Iterable[TableFlow]) -> Iterator[DoctorFinding]:
    written = _list_written(project)
    for one in project.connections.values():
        if isinstance(one, Database) and (one.name in written or one.engine not in READABLE):
            into = [flow for flow in flows if _writes_to(flow, one)]
            yield from _guard(f"connection {one.name}", partial(check_warehouse, one, into))


def _list_written(project: Project) -> set[str]:
    return {sync.to.name for sync in project.syncs}


def _writes_to(flow: TableFlow, database: Database) -> bool:
    return flow.output.connection == database.name


def _check_plans(project: Project, said: Set[str]) -> Iterator[DoctorFinding]:
    """Report every flow that `plan` would refuse, and the flows between Delta tables that it would accept.

    `said`: texts of earlier findings, and names of what had a fault: they are not reported again.
    """
    try:
        found = preview(project, (), resumed=True)
    except TidegaugeError as error:
        if error.sentence not in said:
            yield DoctorFinding("plan", False, error.sentence, error.hint)
        return
    delta = {flow.name for flow in project.delta_flows}
    for one in found:
        if one.error is not None and said.isdisjoint({one.error.sentence, f"table {one.flow}"}):
            yield DoctorFinding(f"flow {one.flow}", False, one.error.sentence, one.error.hint)
        for note in one.notes:
            if note.startswith(NO_INDEX):
                yield DoctorFinding(f"flow {one.flow}", True, f"note: {note}")
        if one.error is None and one.flow in delta:
            yield DoctorFinding(f"flow {one.flow}", True, "inputs, transform and output fit")


def _check_tables(
    project: Project, sources: SourceConnections, recorded: RecordedFlows, flows: list[TableFlow]
) -> Iterator[DoctorFinding]:
    """Check the tables of a project with exactly one sync, and append its flows to `flows`."""
    (sync,) = project.syncs
    try:
        choice = choose(project, (), sources, recorded=recorded)
        rights = find_rights(sync, choice.flows)
    except TidegaugeError as error:
        yield DoctorFinding(f"tables of {sync.source.name}", False, error.sentence, error.hint)
        return
    for name, fault in choice.faults:
        table = table_named(sync.source, name.removeprefix(f"{sync.source.name}: "))
        yield DoctorFinding(f"tables of {name}", False, fault.sentence, rights.fix(table) or fault.hint)
    flows += choice.flows
    for flow in choice.flows:
        if flow.reads is not None:
            continue
        lack = rights.lacks.get(flow.table)
        try:
            if flow.name in choice.missing:
                raise choice.missing[flow.name]
            if lack is not None:
                yield DoctorFinding(f"table {flow.name}", False, lack.says, lack.fix)
                continue
            source_table = sources.of(flow.source).describe(flow.table, flow.options)
            says = "; ".join(source_table.notes) or "cursor, key and types fit"
            yield DoctorFinding(f"table {flow.name}", True, says)
        except TidegaugeError as error:
            yield DoctorFinding(f"table {flow.name}", False, error.sentence, lack.fix if lack else error.hint)
    if rights.left_out is not None:
        yield DoctorFinding("tables", True, f"note: {rights.left_out.says}", rights.left_out.fix)
    for note in find_remarks(project, choice.flows, sources, recorded):
        yield DoctorFinding("tables", True, f"note: {note}")


def _guard(about: str, look: Callable[[], Iterable[str | MissingPrivilege]]) -> Iterator[DoctorFinding]:
    try:
        for one in look():
            if isinstance(one, str):
                yield DoctorFinding(about, True, one)
            else:
                yield DoctorFinding(about, one.later, f"note: {one.says}" if one.later else one.says, one.fix)
    except TidegaugeError as error:
        yield DoctorFinding(about, False, error.sentence, error.hint)


def _check_java() -> Iterator[str]:
    java = find_java()
    yield f"Java {java.version} from {java.origin}"


def _check_jars(needs: set[JarSet], project: Project, probe: bool) -> Iterator[str]:
    missing = [] if probe else [need for need in sorted(needs) if find_cached(need) is None]
    there = jars(needs - set(missing), project.spark.conf)
    yield f"{len(there)} jars in the cache"
    if missing:
        yield f"those for {' and '.join(missing)} come by the network when Spark first needs them"
    if not project.spark.is_local:
        python = os.environ.get("PYSPARK_PYTHON", sys.executable)
        master = project.spark.effective_master
        yield f"tasks run {python} on every machine of {master}, which has to have tidegauge"


def _check_kept(project: Project) -> Iterator[str]:
    for one in find_kept():
        yield describe_kept(one)
    if project.spark.keep_warm is not None and os.environ.get(SWITCH) == "off":
        yield f"keep_warm is switched off by {SWITCH}"


def _ledger(project: Project, probe: bool) -> Iterator[str | MissingPrivilege]:
    address = parse(project.ledger)
    try:
        opened = open_ledger(project.ledger, create=False)
    except LedgerError:
        # The cause may be that the login lacks the right to read it.
        lacks = find_barred(address)
        if not lacks:
            raise
        yield from lacks
        return
    with opened as ledger:
        recorded = len(ledger.status(project.pipeline))
        yield f"answers; {recorded} flow{'' if recorded == 1 else 's'} of pipeline '{project.pipeline}'"
        yield from check_ledger(ledger, address, probe=probe)
