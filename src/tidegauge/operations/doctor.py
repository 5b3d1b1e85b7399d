"""Look at everything a run needs, before a run needs it; each finding comes with its fix."""

from __future__ import annotations

from collections.abc import Iterator, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from tidegauge.errors import TidegaugeError
from tidegauge.flows.missing_tables import RecordedFlows, find_recorded
from tidegauge.flows.remarks import remarks
from tidegauge.flows.scheduled import needs_of_project
from tidegauge.flows.select import Sources, choose
from tidegauge.ledger.open import open_ledger
from tidegauge.model.engines import READABLE
from tidegauge.model.secret import mask
from tidegauge.model.spec import Database, Lake, Project
from tidegauge.operations.plan import preview
from tidegauge.outputs.lake.output import ParquetOutput
from tidegauge.outputs.warehouse.open import open_warehouse
from tidegauge.spark.jars import Needs, jars
from tidegauge.spark.java import find_java

_SKEW = 5.0
"""Seconds by which a clock may differ from ours before it is worth a word."""


@dataclass(frozen=True)
class Finding:
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


def examine(project: Project) -> Iterator[Finding]:
    """Finding after finding, as they are made. Leaves nothing behind but what a first run makes anyway."""
    said: set[str] = set()
    for found in _examine_parts(project):
        said.add(found.says)
        yield found
    yield from _plans(project, said)


def _examine_parts(project: Project) -> Iterator[Finding]:
    yield from _guard("java", _java)
    lakes = [one for one in project.connections.values() if isinstance(one, Lake)]
    needs = needs_of_project(project) | {Needs.S3 for lake in lakes if lake.on_s3}
    if "spark.jars" not in project.spark.conf:
        yield from _guard("jars", lambda: _jars(needs, project))
    yield from _guard("ledger", lambda: _ledger(project))
    read = {sync.source.name for sync in project.syncs}
    # A file that the first run makes is not there yet.
    only_written = {sync.to.name for sync in project.syncs} - read
    with Sources() as sources:
        for one in project.connections.values():
            about = f"connection {one.name}"
            if isinstance(one, Lake):
                yield from _guard(about, lambda lake=one: _lake(lake))
            elif one.engine in READABLE and one.name not in only_written:
                yield from _guard(about, lambda base=one: _database(base, sources))
            else:
                yield from _guard(about, lambda base=one: _warehouse(base))
        recorded: RecordedFlows = {}
        # That the ledger does not answer is said already.
        with suppress(TidegaugeError), open_ledger(project.ledger, create=False) as ledger:
            recorded = find_recorded(ledger, project.pipeline)
        for sync in project.syncs:
            yield from _tables(replace(project, syncs=(sync,), delta_flows=()), sources, recorded)


def _plans(project: Project, said: Set[str]) -> Iterator[Finding]:
    """What `plan` would refuse, of every flow; and of flows between Delta tables, that it would not.

    `said`: what was found before.
    """
    try:
        found = preview(project, ())
    except TidegaugeError as error:
        if str(error) not in said:
            yield Finding("plan", False, str(error), error.hint)
        return
    delta = {flow.name for flow in project.delta_flows}
    for one in found:
        if one.error is not None and str(one.error) not in said:
            yield Finding(f"flow {one.flow}", False, str(one.error), one.error.hint)
        elif one.error is None and one.flow in delta:
            yield Finding(f"flow {one.flow}", True, "inputs, transform and output fit")


def _tables(project: Project, sources: Sources, recorded: RecordedFlows) -> Iterator[Finding]:
    """Of a project with one sync."""
    try:
        choice = choose(project, (), sources, recorded=recorded)
    except TidegaugeError as error:
        yield Finding(f"tables of {project.syncs[0].source.name}", False, str(error), error.hint)
        return
    for name, fault in choice.faults:
        yield Finding(f"tables of {name}", False, str(fault), fault.hint)
    for flow in choice.flows:
        if flow.reads is not None:
            continue
        try:
            if flow.name in choice.missing:
                raise choice.missing[flow.name]
            source_table = sources.of(flow.source).describe(flow.table, flow.options)
            says = "; ".join(source_table.notes) or "cursor, key and types fit"
            yield Finding(f"table {flow.name}", True, says)
        except TidegaugeError as error:
            yield Finding(f"table {flow.name}", False, str(error), error.hint)
    for note in remarks(project, choice.flows, sources, recorded):
        yield Finding("tables", True, f"note: {note}")


def _guard(about: str, look: Any) -> Iterator[Finding]:
    try:
        for says in look():
            yield Finding(about, True, says)
    except TidegaugeError as error:
        yield Finding(about, False, str(error), error.hint)


def _java() -> Iterator[str]:
    java = find_java()
    yield f"Java {java.version} from {java.origin}"


def _jars(needs: set[Needs], project: Project) -> Iterator[str]:
    yield f"{len(jars(needs, project.spark.conf))} jars in the cache"


def _ledger(project: Project) -> Iterator[str]:
    with open_ledger(project.ledger, create=False) as ledger:
        recorded = len(ledger.status(project.pipeline))
        yield f"answers; {recorded} flow{'' if recorded == 1 else 's'} of pipeline '{project.pipeline}'"
        yield from _clock(ledger.now())


def _database(database: Database, sources: Sources) -> Iterator[str]:
    source = sources.of(database)
    yield f"{database.engine} answers; {len(source.tables())} tables visible"
    outlook = source.outlook()
    yield from _clock(outlook.clock)
    yield outlook.blind or "open transactions are visible, so windows wait for them"


def _warehouse(database: Database) -> Iterator[str]:
    open_warehouse(database).connect().close()
    yield f"{database.engine} answers"


def _lake(lake: Lake) -> Iterator[str]:
    ParquetOutput(lake, "_tidegauge_probe").prepare()
    yield f"{lake.path} can be written, and a put-if-absent is honoured"


def _clock(theirs: datetime) -> Iterator[str]:
    apart = (theirs - datetime.now(UTC).replace(tzinfo=None)).total_seconds()
    if abs(apart) > _SKEW:
        where = "ahead of" if apart > 0 else "behind"
        yield f"its clock is {abs(apart):.0f} s {where} this machine's; windows go by its own"
