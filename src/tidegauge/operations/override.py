"""Change watermarks by hand, in three steps of which anyone can do the last two.

`operations.override_preview` shows first what would follow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tidegauge.errors import OutputDisagrees, TidegaugeError
from tidegauge.flows.flow import resources_for
from tidegauge.flows.open import open_flow
from tidegauge.flows.select import Sources
from tidegauge.ledger.open import open_ledger
from tidegauge.ledger.owner import this_process
from tidegauge.model.delta_flow import AnyFlow
from tidegauge.model.error_json import error_to_json
from tidegauge.model.override import Override
from tidegauge.model.position import Position, to_json
from tidegauge.model.protocols.ledger import LedgerReader, LedgerWriter
from tidegauge.model.protocols.output import Output
from tidegauge.model.spec import Project
from tidegauge.observe.events import Listener, RunEvent
from tidegauge.run.end_override import end_override
from tidegauge.run.steps import OverrideStep, step


@dataclass(frozen=True)
class SetTo:
    timestamp: str | None = None
    position: str | None = None


@dataclass(frozen=True)
class Reset:
    pass


@dataclass(frozen=True)
class Refresh:
    """A reset that empties the output too."""


@dataclass(frozen=True)
class CopyOf:
    flow: str
    pipeline: str | None = None


@dataclass(frozen=True)
class Imported:
    """One watermark of an exported document."""

    position: Position | None
    source_id: str | None


@dataclass(frozen=True)
class Import:
    marks: Mapping[str, Imported]
    """By flow."""
    shown: str


@dataclass(frozen=True)
class UndoLast:
    pass


OverrideRequest = SetTo | Reset | Refresh | CopyOf | Import | UndoLast

KINDS: dict[type, str] = {
    SetTo: "set",
    Reset: "reset",
    Refresh: "refresh",
    CopyOf: "copy",
    Import: "import",
    UndoLast: "undo",
}


@dataclass(frozen=True)
class OverridePreview:
    """What an override would do to one flow."""

    flow: AnyFlow
    kind: str
    before: Position | None
    after: Position | None
    """Of the first input, where there are several; `positions` has them all."""
    skipped: int | None = 0
    """Rows that would never be read; None: unknown."""
    again: int | None = 0
    """Rows that would be read once more; None: unknown."""
    unknown: str | None = None
    """Why they could not be counted."""
    supersedes: str | None = None
    """The plan that would end unfinished, in words."""
    holder: str | None = None
    """Who works on the flow now and would lose it."""
    unended: Override | None = None
    """One that was begun and is ended first."""
    downstream: tuple[str, ...] = ()
    dangers: tuple[str, ...] = ()
    """Why it needs force."""
    notes: tuple[str, ...] = ()
    others: Mapping[str, Position | None] = field(default_factory=dict)
    """Where the other inputs go."""

    @property
    def name(self) -> str:
        return self.flow.name

    @property
    def input(self) -> str:
        return self.flow.input

    @property
    def positions(self) -> dict[str, Position | None]:
        return {self.input: self.after, **self.others}

    def to_json(self) -> dict[str, Any]:
        return {
            "flow": self.name,
            "input": self.input,
            "from": to_json(self.before),
            "to": to_json(self.after),
            **({"others": {name: to_json(one) for name, one in self.others.items()}} if self.others else {}),
            "rows_skipped": self.skipped,
            "rows_read_again": self.again,
            "rows_unknown": self.unknown,
            "supersedes": self.supersedes,
            "held_by": self.holder,
            "downstream": list(self.downstream),
            "dangers": list(self.dangers),
            "notes": list(self.notes),
        }


@dataclass(frozen=True)
class OverrideResult:
    move: OverridePreview
    epoch: int | None
    error: TidegaugeError | None = None

    def to_json(self) -> dict[str, Any]:
        error = error_to_json(self.error) if self.error else None
        return {**self.move.to_json(), "epoch": self.epoch, "error": error}


def carry_out(
    project: Project, moves: Sequence[OverridePreview], *, reason: str, tell: Listener | None = None
) -> list[OverrideResult]:
    """Do what was shown. A flow that cannot be changed is reported, and the others are changed."""
    done: list[OverrideResult] = []
    with open_ledger(project.ledger, create=True) as ledger, Sources() as sources:
        resources = resources_for(project, [move.flow for move in moves], sources)
        for move in moves:
            try:
                output = open_flow(move.flow, resources).output
                done.append(OverrideResult(move, _one(ledger, output, move, reason, tell or _nobody)))
            except TidegaugeError as error:
                done.append(OverrideResult(move, None, error))
    return done


def _one(ledger: LedgerWriter, output: Output, move: OverridePreview, reason: str, tell: Listener) -> int:
    flow = move.flow
    output.prepare()
    for status in ledger.status(flow.pipeline, [flow.name]):
        if status.override is not None:
            end_override(ledger, output, flow, status.override, tell)
    _check_continues(ledger, output, flow, move.kind)
    with step(OverrideStep.BEGIN, flow.name, tell):
        begun = ledger.begin_override(
            flow.pipeline,
            flow.name,
            move.kind,
            move.positions,
            owner=this_process(),
            reason=reason,
        )
    end_override(ledger, output, flow, begun, tell)
    return begun.epoch


def _check_continues(ledger: LedgerReader, output: Output, flow: AnyFlow, kind: str) -> None:
    """Refuse before anything is begun what the output could not open: nobody could ever finish it."""
    found: list[tuple[int, int]] = []
    if kind == "undo":
        undos = (status.undo for status in ledger.status(flow.pipeline, [flow.name]))
        found = [undo.continues for undo in undos if undo]
    elif kind not in ("reset", "refresh"):
        found = [(mark.epoch, mark.seq) for mark in ledger.watermarks(flow.pipeline, [flow.name])]
    gap = next((gap for continues in found if (gap := output.lacks(continues))), None)
    if gap is not None:
        raise OutputDisagrees(
            f"{flow.name}: {gap}, which the ledger says was committed, is not in {output.place}",
            hint="bring the files back; to start afresh there use `tidegauge watermark reset`",
        )


def _nobody(_: RunEvent) -> None:
    pass
