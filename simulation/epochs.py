"""What must hold of ledger and output together, checked at every change of either.

The checker does not rely on `continues`: it remembers by itself what each epoch of the table should show.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from simulation.invariants import ENDS, EPOCHS, ONCE, VISIBLE, WRITER, StateChecks, mark_of
from simulation.places import INPUT, number
from simulation.source import Table
from simulation.world import World
from tidegauge.ledger.flow_state import FlowState, StateChange
from tidegauge.model.claim import Owner
from tidegauge.model.plan import Tag

if TYPE_CHECKING:
    from simulation.lake import Continues, Lake, Manifest

Stretch = tuple[int, int]


@dataclass(frozen=True)
class EpochView:
    """What readers should see once an epoch is open."""

    kept: tuple[Stretch, ...]
    """Ranges that stay visible from earlier epochs. They overlap only after a set backwards."""
    start: int
    """The position at which the epoch's own batches begin."""

    def upto(self, mark: int) -> tuple[Stretch, ...]:
        return (*self.kept, (self.start, mark)) if mark > self.start else self.kept


class Checker:
    def __init__(self, world: World, lake: Lake, table: Table) -> None:
        self._world = world
        self._lake = lake
        self._table = table
        self._checks = StateChecks(world)
        self._epochs = {0: EpochView((), 0)}
        self._undo: EpochView | None = None
        self._flow_state: FlowState | None = None

    # --- the ledger

    def ledger(self, before: FlowState, change: StateChange, who: Owner, at: datetime) -> None:
        self._checks.check(before, change, who, at)
        after = self._flow_state = change.flow_state
        if after.override != before.override:
            self._check_override(before, after)
        elif _mark(after) < _mark(before):
            self._world.violated(WRITER, f"position {_mark(before)} → {_mark(after)}")
        if after.seq != before.seq or after.epoch != before.epoch or _mark(after) != _mark(before):
            self._check_visible(after)

    def _check_override(self, before: FlowState, after: FlowState) -> None:
        current, mark = self._epochs[before.epoch], _mark(before)
        if before.override is None:
            assert after.override is not None
            override = after.override
            match override.kind:
                case "undo":
                    assert self._undo is not None
                    view = self._undo
                case "reset":
                    view = EpochView((), number(override.positions[INPUT]))
                case _:
                    view = EpochView(current.upto(mark), number(override.positions[INPUT]))
            self._epochs[override.epoch] = view
            return
        override = before.override
        if override.epoch not in self._lake.openings:
            self._world.violated(EPOCHS, f"epoch {override.epoch} began in the ledger, and is not open")
        if _mark(after) != self._epochs[after.epoch].start:
            self._world.violated(
                VISIBLE,
                f"after the {override.kind} the watermark is {_mark(after)}, and its epoch begins at"
                f" {self._epochs[after.epoch].start}",
            )
        self._undo = None if override.kind == "undo" else EpochView(current.upto(mark), mark)

    # --- the output

    def published(self, tag: Tag, before: Manifest | None, after: Manifest) -> None:
        lake, key = self._lake, (tag.epoch, tag.seq)
        name = f"{tag.epoch}/{tag.seq}"
        [window] = after.receipt.windows
        low, high = number(window.after), number(window.upto)
        rows = [row for file in after.files for row in lake.files[file]]
        if self._world.trace is not None:
            self._world.changed(f"{name} holds ({low}, {high}]: {len(rows)} rows")
        if before is not None:
            if before != after:
                self._world.violated(WRITER, f"{name} was committed, and then once more with other files")
            return
        if self._checks.planned.get(key) != after.receipt.windows:
            self._world.violated(WRITER, f"{name} holds ({low}, {high}], which is not what was planned")
        previous = lake.manifests.get((tag.epoch, tag.seq - 1))
        edge = number(previous.receipt.windows[0].upto) if previous else self._epochs[tag.epoch].start
        if low != edge or (previous is None and tag.seq != 1):
            self._world.violated(ONCE, f"{name} begins at {low}, and what is before it ends at {edge}")
        if tag.epoch and tag.epoch not in lake.openings:
            self._world.violated(EPOCHS, f"{name} was committed, and its epoch is not open")
        if any(not low < place <= high for _, place in rows):
            self._world.violated(ONCE, f"{name} holds rows outside of its window")
        missing = set(self._table.between(low, high)).difference(rows)
        if missing:
            self._world.violated(VISIBLE, f"{name} lacks {sorted(missing)}")
        if tag.epoch == lake.newest:
            self._check_visible(self._flow_state)
        else:
            self._world.tally["published into an older epoch, unseen"] += 1

    def opened(self, epoch: int, continues: Continues) -> None:
        if self._world.trace is not None:
            self._world.changed(f"epoch {epoch} is open, continuing {continues}")
        flow_state = self._flow_state
        if (
            flow_state is None
            or flow_state.override is None
            or flow_state.override.epoch != epoch
            or flow_state.epoch >= epoch
        ):
            self._world.violated(EPOCHS, f"epoch {epoch} was opened, and the ledger has not asked for it")
        if any(other > epoch for other in self._lake.openings):
            self._world.violated(EPOCHS, f"epoch {epoch} was opened after {self._lake.newest}")
        self._check_visible(flow_state)

    def _find_visible(self) -> tuple[tuple[Stretch, ...], int, int]:
        """Find what readers see: ranges of earlier epochs; the last batch of the newest and its upper end."""
        lake, epoch = self._lake, self._lake.newest
        last = 0
        while (epoch, last + 1) in lake.manifests:
            last += 1
        end = (
            number(lake.manifests[epoch, last].receipt.windows[0].upto) if last else self._epochs[epoch].start
        )
        splits: list[Stretch] = []
        opening = lake.openings.get(epoch)
        while opening is not None and opening[0] is not None:
            before, upto = opening[0]
            if upto:
                if (before, upto) not in lake.manifests:
                    self._world.violated(VISIBLE, f"{before}/{upto} is continued, and is not there")
                low = number(lake.manifests[before, 1].receipt.windows[0].after)
                high = number(lake.manifests[before, upto].receipt.windows[0].upto)
                if low < high:  # an empty table adds no range
                    splits.append((low, high))
            opening = lake.openings.get(before)
        return tuple(reversed(splits)), last, end

    def _check_visible(self, flow_state: FlowState | None) -> None:
        assert flow_state is not None
        newest = self._lake.newest
        kept, last, end = self._find_visible()
        if newest != flow_state.epoch:
            if flow_state.override is None or flow_state.override.epoch != newest:
                self._world.violated(EPOCHS, f"readers follow epoch {newest}, the ledger {flow_state.epoch}")
            seq, mark = 0, self._epochs[newest].start
        else:
            seq, mark = flow_state.seq, _mark(flow_state)
        if last < seq or end < mark:
            self._world.violated(VISIBLE, f"the watermark is {mark} ({seq}), and visible is {end} ({last})")
        if last > seq + 1:
            self._world.violated(WRITER, f"{newest}/{last} is there, and the ledger has {seq}")
        wanted = self._epochs[newest].kept
        if kept != wanted:
            invariant = ONCE if len(kept) > len(wanted) else VISIBLE
            self._world.violated(
                invariant, f"epoch {newest} shows {kept} of earlier epochs, and should {wanted}"
            )

    # --- the end

    def final(self, flow_state: FlowState) -> None:
        """Check what must hold after all faults have stopped and a fresh runner has run twice."""
        if flow_state.override is not None or flow_state.active is not None:
            left = (
                f"an override ({flow_state.override.kind})"
                if flow_state.override
                else f"a plan that is {flow_state.state}"
            )
            self._world.violated(ENDS, f"{left} is left over")
        self._check_visible(flow_state)
        kept, last, end = self._find_visible()
        splits = self._epochs[flow_state.epoch].upto(_mark(flow_state))
        seen: dict[tuple[int, int], int] = {}
        for row in self._rows(flow_state.epoch):
            seen[row] = seen.get(row, 0) + 1
        for row, times in seen.items():
            legitimate = sum(low < row[1] <= high for low, high in splits)
            if times > legitimate:
                self._world.violated(ONCE, f"row {row} is there {times} times, and should be {legitimate}")
        start = self._epochs[flow_state.epoch].start
        for row in self._table.rows.items():
            times = sum(low < row[1] <= high for low, high in splits[: len(kept)])
            times += start < row[1] <= self._table.bound
            if seen.get(row, 0) != times:
                self._world.violated(VISIBLE, f"row {row} is there {seen.get(row, 0)} times, not {times}")
        if last != flow_state.seq or end != _mark(flow_state):
            self._world.violated(ENDS, f"{last} batches are there, and the ledger has {flow_state.seq}")

    def _rows(self, epoch: int) -> list[tuple[int, int]]:
        lake, upto = self._lake, self._flow_state.seq if self._flow_state else 0
        rows: list[tuple[int, int]] = []
        while True:
            for seq in range(1, upto + 1):
                rows += [row for file in lake.manifests[epoch, seq].files for row in lake.files[file]]
            opening = lake.openings.get(epoch)
            if opening is None or opening[0] is None:
                return rows
            epoch, upto = opening[0]


def _mark(flow_state: FlowState) -> int:
    return mark_of(flow_state, INPUT)
