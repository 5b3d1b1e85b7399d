"""A change of a flow's watermark by hand: the request, and a preview of what it would do.

Each kind of flow has its own previewer beside this one: `table`, `load`, `delta`, `column`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tidegauge.errors import ConfigError
from tidegauge.flows.selection.downstream import find_downstream
from tidegauge.model.delta_flow import DataFlow
from tidegauge.model.override import FlowRevision, Override
from tidegauge.model.position import Position, to_json
from tidegauge.model.run import FlowStatus
from tidegauge.model.watermark import Watermark


@dataclass(frozen=True)
class SetTo:
    """Set the watermark to a timestamp or a position, as the user wrote it. One of them is given."""

    timestamp: str | None = None
    position: str | None = None


@dataclass(frozen=True)
class Reset:
    """Begin again at the beginning, without emptying the output."""


@dataclass(frozen=True)
class Refresh:
    """A reset that empties the output too."""


@dataclass(frozen=True)
class CopyOf:
    """Copy the watermark of another flow; `pipeline` None: of the same pipeline."""

    flow: str
    pipeline: str | None = None


@dataclass(frozen=True)
class Imported:
    """The watermarks of a flow in an exported document."""

    position: Position | None
    """The position of the first input that the document names."""
    source_id: str | None
    inputs: Mapping[str, Position | None] = field(default_factory=dict)
    """By input, its position."""


@dataclass(frozen=True)
class Import:
    """Set the watermark to what a document says."""

    marks: Mapping[str, Imported]
    """By flow, what the document has."""
    shown: str
    """What messages call the document."""


@dataclass(frozen=True)
class UndoLast:
    """Undo the last override of the flow."""


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

    flow: DataFlow
    kind: str
    before: Position | None
    after: Position | None
    """The new position of the first input; `positions` has those of all inputs."""
    skipped: int | None = 0
    """How many rows would never be read; None: unknown."""
    again: int | None = 0
    """How many rows would be read again; None: unknown."""
    unknown: str | None = None
    """Why the rows could not be counted; None: they were."""
    supersedes: str | None = None
    """The active plan that would end unfinished, in words."""
    holder: str | None = None
    """The runner that holds the flow now and would lose it, in words."""
    unended: Override | None = None
    """An override that was begun before and is ended first."""
    downstream: tuple[str, ...] = ()
    """The flows that read this flow's output."""
    dangers: tuple[str, ...] = ()
    """Why the override needs `--force`."""
    notes: tuple[str, ...] = ()
    others: Mapping[str, Position | None] = field(default_factory=dict)
    """By input, the new positions of the other inputs."""
    unchanged: bool = False
    """Whether every input already has its new position."""
    revision: FlowRevision = field(default_factory=FlowRevision)
    """Fence and plan of the flow when the preview was made."""

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


class OverridePreviewer(ABC):
    """Previews overrides of one flow, as the ledger shows it."""

    emptied_when: str | None = " with the first batch that takes their place"
    """The end of the note that says when a full refresh deletes the target's rows; None: it never does."""

    def __init__(self, flow: DataFlow, status: FlowStatus | None, mark: Watermark | None) -> None:
        self._flow = flow
        self._status = status
        self._unended = status.override if status else None
        self._mark = mark
        if flow.uses_delta:
            self.emptied_when = ""

    def preview(self, request: OverrideRequest, every: Sequence[DataFlow]) -> OverridePreview:
        """Tell what the request would do. See `Flow.preview_override`."""
        flow, status = self._flow, self._status
        readers = find_downstream(flow, every)
        if isinstance(request, Reset) and flow.appends:
            raise ConfigError(
                f"{flow.name} appends: after a reset its rows would come a second time",
                hint=f"`tidegauge run --select {flow.name} --full-refresh` empties the target first",
            )
        before = self.position_before()
        after, dangers = self.position_after(request, before)
        made = OverridePreview(
            flow=flow,
            kind=KINDS[type(request)],
            before=before,
            after=after,
            supersedes=name_plan(status),
            unended=self._unended,
            downstream=tuple(other.name for other in readers),
            dangers=tuple(dangers),
            notes=tuple(self.find_notes(request)),
            unchanged=before == after,
            revision=status.revision if status else FlowRevision(),
        )
        counted = self.count_rows(made)
        if not isinstance(request, Reset | Refresh | UndoLast):
            counted = replace(counted, dangers=(*dangers, *self.find_dangers(counted)))
            if counted.again != 0:
                doubled = [
                    f"{reader.name} appends what is read again to {reader.target} a second time"
                    for reader in readers
                    if reader.appends
                ]
                counted = replace(counted, dangers=(*counted.dangers, *doubled))
        return counted

    def position_before(self) -> Position | None:
        """The first input's position, as it will be once an override that was begun has ended."""
        found = self._mark.position if self._mark else None
        if self._unended is not None:
            found = self._unended.positions.get(self._flow.input, found)
        return found

    def position_after(
        self, request: OverrideRequest, before: Position | None
    ) -> tuple[Position | None, list[str]]:
        """The first input's new position, and what is dangerous about the request."""
        match request:
            case Reset() | Refresh():
                return None, []
            case UndoLast():
                undo = self._status.undo if self._status else None
                if undo is None and self._unended is None:
                    raise ConfigError(
                        f"{self._flow.name}: there is no override to undo",
                        hint="only the last one can be undone; `tidegauge history` shows what was done",
                    )
                if undo is None or self._unended is not None:
                    # Undo the override that was begun: its old position is still the watermark.
                    return self._mark.position if self._mark else None, []
                return undo.positions.get(self._flow.input), []
            case SetTo() | CopyOf() | Import():
                return self.find_position(request, before)

    @abstractmethod
    def find_position(
        self, request: OverrideRequest, before: Position | None
    ) -> tuple[Position | None, list[str]]:
        """The position that a request names, and what is dangerous about it."""

    @abstractmethod
    def count_rows(self, preview: OverridePreview) -> OverridePreview:
        """Return the preview with the rows between the two positions counted, as far as they can be."""

    @abstractmethod
    def find_dangers(self, preview: OverridePreview) -> list[str]:
        """What setting this position may do that the person does not expect."""

    def find_notes(self, request: OverrideRequest) -> list[str]:
        notes = []
        if self._unended is not None:
            notes.append(
                f"an override ({self._unended.kind}) that {self._unended.actor} began is ended first"
            )
        if isinstance(request, Refresh) and self.emptied_when is not None:
            notes.append(f"every row of {self._flow.target} is deleted{self.emptied_when}")
        return notes


def name_plan(status: FlowStatus | None) -> str | None:
    """The plan that a change by hand ends unfinished, in words."""
    plan = status.plan if status else None
    return f"plan {plan.plan_id}, {plan.done} of {len(plan.draft.batches)} batches done" if plan else None


def show_rows(count: int | None) -> str:
    if count is None:
        return "an unknown number of rows"
    return f"{count:,} row{'' if count == 1 else 's'}"
