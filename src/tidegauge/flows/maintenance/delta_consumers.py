"""Which flows read a Delta table, and from which version on each of them still needs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidegauge.delta_log.history import version_at
from tidegauge.flows.delta_locator import DeltaTableLocator
from tidegauge.flows.maintenance.vacuum_needs import VacuumConsumer
from tidegauge.model.delta_flow import DeltaFlow, DeltaInput
from tidegauge.model.location import identify
from tidegauge.model.plan import Plan, ReadWay
from tidegauge.model.position import Position, VersionPosition
from tidegauge.model.run import FlowStatus
from tidegauge.model.watermark import Watermark
from tidegauge.plan.versions import EARLIEST, SNAPSHOT, find_initial, read_up_to

_WHOLE = (ReadWay.SNAPSHOT, ReadWay.PINNED, ReadWay.NOTHING)
"""Ways of reading that need the table exactly as it is at the window's end."""


class DeltaConsumers:
    """The flows of a project as readers of Delta tables, with their status and watermarks from the ledger."""

    def __init__(
        self,
        delta_flows: Sequence[DeltaFlow],
        statuses: Mapping[str, FlowStatus],
        marks: Mapping[tuple[str, str], Watermark],
        places: DeltaTableLocator,
    ) -> None:
        self._delta_flows = delta_flows
        self._statuses = statuses
        self._marks = marks
        self._places = places

    def of(self, location: str, table_id: str, earliest: int) -> list[VacuumConsumer]:
        """Find the readers of the table at a location. `earliest`: the first version that its log still has.

        A flow whose watermark comes from another table (`table_id`) needs nothing of this one: it cannot run
        until a person resets it.
        """
        found, wanted = [], identify(location)
        for flow in self._delta_flows:
            for part in flow.inputs:
                if part.by_column is not None:
                    continue  # reads only the newest version
                if (where := self._places.find(part.table)) is None or identify(where) != wanted:
                    continue
                reader = self._find_reader(flow, part, location, table_id, earliest)
                if reader is not None:
                    found.append(reader)
        return found

    def _find_reader(
        self, flow: DeltaFlow, part: DeltaInput, location: str, table_id: str, earliest: int
    ) -> VacuumConsumer | None:
        mark, status = self._marks.get((flow.name, part.name)), self._statuses.get(flow.name)
        if mark is not None and mark.source_id not in (None, table_id):
            return None
        needed: list[tuple[int, str]] = []
        if not part.snapshot:
            after = read_up_to(mark)
            if after is not None:
                needed.append((after, f"its watermark is version {after}"))
            else:
                needed += self._find_beginning(flow, part, location, earliest)
        if status is not None and status.plan is not None:
            frozen = _find_frozen_version(status.plan, part.name)
            if frozen is not None:
                needed.append((frozen, f"its plan, {status.state}, froze version {frozen}"))
        if not needed:
            return None
        after, why = min(needed)
        return VacuumConsumer(flow.name, part.name, after, why)

    def _find_beginning(
        self, flow: DeltaFlow, part: DeltaInput, location: str, earliest: int
    ) -> list[tuple[int, str]]:
        """For an input that was never read: after which version it begins, and why; empty: at a snapshot."""
        initial = find_initial(flow, part)
        if initial == SNAPSHOT or (part.initial is None and earliest):
            return []
        why = f"it has not run yet, and begins at {initial}"
        if initial == EARLIEST:
            return [(-1, why)]
        if initial.isdigit():
            return [(int(initial) - 1, why)]
        return [(version_at(location, initial, part.table.storage) - 1, why)]


def _find_frozen_version(plan: Plan, name: str) -> int | None:
    """The lowest version of an input that the remaining batches of a plan need; None: they need none."""
    names = [part.input for part in plan.draft.inputs]
    if name not in names:
        return None
    place = names.index(name)
    found = []
    for batch in plan.draft.batches[plan.done :]:
        window, way = batch.windows[place], batch.ways[place] if batch.ways else ReadWay.FEED
        found.append(_version(window.upto if way in _WHOLE else window.after))
    return min(found, default=None)


def _version(position: Position | None) -> int:
    return position.version if isinstance(position, VersionPosition) else -1
