"""One flow as the ledger shows it, and what a change by hand would do to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tidegauge.errors import ConfigError
from tidegauge.flows.downstream import downstream
from tidegauge.model.delta_flow import AnyFlow, DeltaFlow
from tidegauge.model.position import Position
from tidegauge.model.run import FlowStatus
from tidegauge.model.spec import LakeTable
from tidegauge.model.state import State
from tidegauge.model.watermark import Watermark
from tidegauge.operations.override import KINDS, OverridePreview, OverrideRequest, Refresh, Reset, UndoLast


class OverrideLook:
    """One flow as the ledger shows it, and what a change by hand would do to it."""

    def __init__(self, flow: AnyFlow, status: FlowStatus | None, mark: Watermark | None) -> None:
        self._flow = flow
        self._status = status
        self._unended = status.override if status else None
        self._mark = mark

    def move(self, request: OverrideRequest, every: Sequence[AnyFlow]) -> OverridePreview:
        flow, status = self._flow, self._status
        readers = downstream(flow, every)
        if isinstance(request, Reset) and flow.appends:
            raise ConfigError(
                f"{flow.name} appends: after a reset its rows would come a second time",
                hint=f"`tidegauge run --select {flow.name} --full-refresh` empties the target first",
            )
        before = self.before()
        after, dangers = self.after(request, before)
        made = OverridePreview(
            flow=flow,
            kind=KINDS[type(request)],
            before=before,
            after=after,
            supersedes=superseded(status),
            holder=holder(status),
            unended=self._unended,
            downstream=tuple(other.name for other in readers),
            dangers=tuple(dangers),
            notes=tuple(self.notes(request)),
        )
        counted = self.counted(made)
        if not isinstance(request, Reset | Refresh | UndoLast):
            counted = replace(counted, dangers=(*dangers, *self.dangers(counted)))
            if counted.again != 0:
                doubled = [
                    f"{reader.name} appends what is read again to {reader.target} a second time"
                    for reader in readers
                    if reader.appends
                ]
                counted = replace(counted, dangers=(*counted.dangers, *doubled))
        return counted

    def before(self) -> Position | None:
        """Where the flow stands, or will once an override that was begun has ended."""
        found = self._mark.position if self._mark else None
        if self._unended is not None:
            found = self._unended.positions.get(self._flow.input, found)
        return found

    def after(self, request: OverrideRequest, before: Position | None) -> tuple[Position | None, list[str]]:
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
                    # From before the one begun.
                    return self._mark.position if self._mark else None, []
                return undo.positions.get(self._flow.input), []
            case _:
                return self.named(request, before)

    def named(self, request: OverrideRequest, before: Position | None) -> tuple[Position | None, list[str]]:
        """Where a wish that names a position goes."""
        raise NotImplementedError

    def counted(self, move: OverridePreview) -> OverridePreview:
        """With the rows between the two positions, as far as they can be known."""
        raise NotImplementedError

    def dangers(self, move: OverridePreview) -> list[str]:
        """What a position that a person names may do that he did not mean."""
        raise NotImplementedError

    def notes(self, request: OverrideRequest) -> list[str]:
        notes = []
        if self._unended is not None:
            notes.append(
                f"an override ({self._unended.kind}) that {self._unended.actor} began is ended first"
            )
        if isinstance(request, Refresh) and not isinstance(self._flow.output, LakeTable):
            when = "" if isinstance(self._flow, DeltaFlow) else " with the first batch that takes their place"
            notes.append(f"every row of {self._flow.target} is deleted{when}")
        return notes


def superseded(status: FlowStatus | None) -> str | None:
    """The plan that a change by hand ends unfinished, in words."""
    plan = status.plan if status else None
    return f"plan {plan.plan_id}, {plan.done} of {len(plan.draft.batches)} batches done" if plan else None


def holder(status: FlowStatus | None) -> str | None:
    if status is None or status.state is not State.RUNNING or status.owner is None:
        return None
    until = f" until {status.lease_until:%Y-%m-%d %H:%M:%S} UTC" if status.lease_until else ""
    return f"{status.owner.actor} (process {status.owner.pid}){until}"


def shown_rows(count: int | None) -> str:
    if count is None:
        return "an unknown number of rows"
    return f"{count:,} row{'' if count == 1 else 's'}"
