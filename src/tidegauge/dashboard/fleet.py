"""The first page: how many flows are in each state, and the list of flows, the greatest lag first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from tidegauge.dashboard.snapshot import STUCK, FleetSnapshot, SeenFlow
from tidegauge.model.state import SUSPENDED, State, tell_state

ROWS = 200
"""How many flows are on one page."""
WORDS = (State.FAILED.value, STUCK, State.RUNNING.value, State.PLANNED.value, State.SUCCESS.value,
         State.SKIPPED.value, State.READY.value, SUSPENDED)  # fmt: skip
"""The states that are counted, the worst first."""
NO_TAG = "without a tag"


@dataclass(frozen=True)
class FleetFilter:
    """What the viewer asked for. An empty field does not narrow the list."""

    text: str = ""
    state: str = ""
    pipeline: str = ""
    tag: str = ""
    sort: str = "lag"
    group: str = ""
    page: int = 1

    @property
    def narrows(self) -> bool:
        return bool(self.text or self.state or self.pipeline or self.tag)

    def takes(self, seen: SeenFlow) -> bool:
        return (
            (not self.text or self.text.casefold() in seen.flow.casefold())
            and (
                not self.state or self.state == seen.word or (self.state == SUSPENDED and _is_suspended(seen))
            )
            and (not self.pipeline or self.pipeline == seen.pipeline)
            and (not self.tag or self.tag in seen.tags)
        )

    def but(self, **changed: Any) -> FleetFilter:
        """The same filter with some fields changed, on its first page unless `page` is given."""
        return replace(self, **{"page": 1, **changed})

    def to_query(self) -> dict[str, str]:
        """The fields that differ from their defaults, as parameters of an address."""
        return {name: str(value) for name, value in vars(self).items() if value != getattr(FleetFilter, name)}


@dataclass(frozen=True)
class FleetGroup:
    title: str
    """The group's name; empty if the flows are not grouped."""
    flows: tuple[SeenFlow, ...]


@dataclass(frozen=True)
class FleetPage:
    at: datetime
    shown: str
    """The ledger's address."""
    counts: tuple[tuple[str, str, int], ...]
    """Each state that a flow is in, as people read it, and how many flows are in it."""
    total: int
    selected: int
    worst: SeenFlow | None
    """The flow with the greatest lag."""
    groups: tuple[FleetGroup, ...]
    asked: FleetFilter
    pages: int
    pipelines: tuple[str, ...]
    tags: tuple[str, ...]


def make_fleet_page(snapshot: FleetSnapshot, asked: FleetFilter, *, rows: int = ROWS) -> FleetPage:
    counts = Counter(one.word for one in snapshot.flows)
    counts[SUSPENDED] = sum(map(_is_suspended, snapshot.flows))
    # A state is called `nothing new` only where that is true of all flows in it.
    pairs = [(one.word, _tell_resumed(one)) for one in snapshot.flows]
    told = dict(sorted(pairs, key=lambda pair: pair[0] == pair[1]))
    chosen = _sort([one for one in snapshot.flows if asked.takes(one)], asked.sort)
    pages = max(1, -(-len(chosen) // rows))
    page = min(max(asked.page, 1), pages)
    late = [one for one in snapshot.flows if one.summary.lag_seconds is not None]
    return FleetPage(
        at=snapshot.at,
        shown=snapshot.shown,
        counts=tuple((word, told.get(word, word), counts[word]) for word in WORDS if counts[word]),
        total=len(snapshot.flows),
        selected=len(chosen),
        worst=max(late, key=_lag, default=None),
        groups=tuple(_group(chosen[(page - 1) * rows : page * rows], asked, snapshot)),
        asked=replace(asked, page=page),
        pages=pages,
        pipelines=tuple(dict.fromkeys(one.pipeline for one in snapshot.flows)),
        tags=tuple(sorted({tag for one in snapshot.flows for tag in one.tags})),
    )


def _tell_resumed(seen: SeenFlow) -> str:
    """The flow's state as people would read it if the flow were not suspended."""
    run = seen.summary.last_run
    ended_as_skipped = run is not None and run.ended_as_skipped
    return tell_state(seen.summary.state, prevented=ended_as_skipped) if seen.told == SUSPENDED else seen.told


def _is_suspended(seen: SeenFlow) -> bool:
    return seen.summary.suspended is not None


def _lag(seen: SeenFlow) -> float:
    lag = seen.summary.lag_seconds
    return -1.0 if lag is None else lag


def _began(seen: SeenFlow) -> datetime:
    return seen.summary.last_run.started_at if seen.summary.last_run else datetime.min


_SORTS: Mapping[str, Callable[[SeenFlow], Any]] = {
    "lag": lambda one: (-_lag(one), one.flow),
    "flow": lambda one: (one.pipeline, one.flow),
    "state": lambda one: (WORDS.index(one.word), -_lag(one), one.flow),
    "last": lambda one: (datetime.max - _began(one), one.flow),
}


def _sort(flows: list[SeenFlow], how: str) -> list[SeenFlow]:
    return sorted(flows, key=_SORTS.get(how, _SORTS["lag"]))


def _group(flows: Sequence[SeenFlow], asked: FleetFilter, snapshot: FleetSnapshot) -> list[FleetGroup]:
    several = len({one.pipeline for one in snapshot.flows}) > 1
    how = asked.group or ("pipeline" if several else "")
    if how not in ("pipeline", "tag"):
        return [FleetGroup("", tuple(flows))] if flows else []
    found: dict[str, list[SeenFlow]] = {}
    for one in flows:
        for title in (one.tags or (NO_TAG,)) if how == "tag" else (one.pipeline,):
            found.setdefault(title, []).append(one)
    return [FleetGroup(title, tuple(members)) for title, members in found.items()]
