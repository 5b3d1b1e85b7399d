"""How far one table has got in all of its stages, according to the ledger."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tidegauge.errors import ConfigError, TidegaugeError
from tidegauge.flows.names import stage_of, table_of
from tidegauge.flows.selection.select import choose, expand
from tidegauge.ledger.open import open_ledger
from tidegauge.ledger.summary import stage_row, table_fields
from tidegauge.model.default_schema import split_name
from tidegauge.model.position import RowPosition, to_body, to_json, to_text
from tidegauge.model.protocols.ledger import LedgerReader
from tidegauge.model.run import FlowStatus
from tidegauge.model.spec import Project, Stage, TableFlow
from tidegauge.model.watermark import Tally, Watermark
from tidegauge.operations.status import is_wanted, iso, run_to_json
from tidegauge.sources.connections import SourceConnections


@dataclass(frozen=True)
class StageSummary:
    name: str
    stage: Stage | None
    flow: TableFlow | None
    """The flow; None if the project file no longer has it."""
    status: FlowStatus | None
    """The flow's status; None if the ledger does not know it yet."""
    marks: tuple[Watermark, ...]
    tally: Tally

    @property
    def row(self) -> dict[str, Any] | None:
        if self.status is None:
            return None
        mark = self.marks[0] if self.marks else None
        return stage_row(
            state=self.status.state,
            run=self.status.last_run,
            cursor=mark.cursor if mark else None,
            position=mark.position if mark else None,
            stamp=mark.stamp if mark else None,
            tally=self.tally,
            created_at=self.tally.created_at,
            updated_at=self.tally.updated_at,
        )

    def to_json(self) -> dict[str, Any]:
        status = self.status
        return {
            "flow": self.name,
            "stage": self.stage.value if self.stage else None,
            "state": status.state.value if status else None,
            "watermarks": [
                {
                    "input": mark.input,
                    "cursor": mark.cursor,
                    "position": to_json(mark.position),
                    # With the values' kinds, which `watermark import` needs.
                    "exact": to_body(mark.position),
                    "source_id": mark.source_id,
                    "checked": to_json(mark.checked),
                    "epoch": mark.epoch,
                    "sequence": mark.seq,
                    "updated_at": iso(mark.updated_at),
                }
                for mark in self.marks
            ],
            "last_run": run_to_json(status.last_run) if status and status.last_run else None,
        }


@dataclass(frozen=True)
class TableSummary:
    pipeline: str
    table: str
    stages: tuple[StageSummary, ...]

    @property
    def has_run(self) -> bool:
        return any(stage.status for stage in self.stages)

    @property
    def first(self) -> StageSummary | None:
        """The stage that reads the database; None if only the other stage was selected."""
        return next((stage for stage in self.stages if stage.stage is not Stage.LOAD), None)

    @property
    def load(self) -> StageSummary | None:
        return next((stage for stage in self.stages if stage.stage is Stage.LOAD), None)

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of a table in `watermark get --json` and in the JSON ledger."""
        load = self.load
        return table_fields(
            self.table,
            self.first.row if self.first else None,
            load.row if load else None,
            load.tally.loaded if load else (),
        )

    @property
    def starts_from(self) -> str:
        """Where the next run of the first stage begins, for people."""
        first = self.first or self.stages[0]
        position = first.marks[0].position if first.marks else None
        if isinstance(position, RowPosition):
            return position.cursor.text
        if position is None and first.flow is not None and first.flow.options.initial:
            return first.flow.options.initial
        return to_text(position)

    def to_json(self) -> dict[str, Any]:
        return {
            **self.fields,
            "pipeline": self.pipeline,
            "will_start_from": self.starts_from,
            "stages": [stage.to_json() for stage in self.stages],
        }


def summarize_table(project: Project, word: str) -> TableSummary:
    """Summarize the table or flow with this name. Asks the source only if it has never run.

    Raises ConfigError if there is none, or if the name means several tables.
    """
    with open_ledger(project.ledger, create=False) as ledger:
        names = [status.flow for status in ledger.status(project.pipeline)]
        known = [name for name in names if is_wanted(name, [word])]
        flows = _find_known_flows(project, known) if known else _find_new_flows(project, word)
        delta_flows = [
            delta_flow.name for delta_flow in project.delta_flows if is_wanted(delta_flow.name, [word])
        ]
        found = sorted({*known, *delta_flows, *(name for name in flows if is_wanted(name, [word]))} or flows)
        tables = sorted({table_of(name) for name in found})
        if len(tables) > 1:
            raise ConfigError(
                f"'{word}' means {len(tables)} tables: {', '.join(tables[:10])}",
                hint="name one of them in full",
            )
        return TableSummary(project.pipeline, tables[0], _summarize_stages(project, ledger, found, flows))


def _find_known_flows(project: Project, names: Sequence[str]) -> dict[str, TableFlow]:
    """Return the flows of tables that have run before, without asking the source if it still has them."""
    flows: dict[str, TableFlow] = {}
    for sync in project.syncs:
        catalogue = list(dict.fromkeys(split_name(sync.source, table_of(name)) for name in names))
        for pattern in sync.tables:
            # One pattern at a time: `expand` raises if one matches none of these tables, which is fine here.
            with contextlib.suppress(TidegaugeError):
                found = expand(project.pipeline, replace(sync, tables=(pattern,)), catalogue)
                flows |= {flow.name: flow for flow in found}
    return flows


def _find_new_flows(project: Project, word: str) -> dict[str, TableFlow]:
    with SourceConnections() as sources:
        choice = choose(project, [word], sources)
    if not choice.all_flows:
        raise choice.faults[0][1]
    return {flow.name: flow for flow in choice.flows}


def _summarize_stages(
    project: Project, ledger: LedgerReader, names: Sequence[str], flows: dict[str, TableFlow]
) -> tuple[StageSummary, ...]:
    statuses = {status.flow: status for status in ledger.status(project.pipeline, names)}
    tallies = ledger.tallies(project.pipeline, names)
    marks: dict[str, list[Watermark]] = {}
    for mark in ledger.watermarks(project.pipeline, names):
        marks.setdefault(mark.flow, []).append(mark)
    return tuple(
        StageSummary(
            name=name,
            stage=stage_of(name),
            flow=flows.get(name),
            status=statuses.get(name),
            marks=tuple(marks.get(name, ())),
            tally=tallies.get(name, Tally()),
        )
        for name in names
    )
