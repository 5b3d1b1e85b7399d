"""Which targets of one warehouse stand where the ledger says they do, asked once for many flows.

Only planning may rely on the answer: a commit reads and moves the head itself. Only the ordinary case is
found. A flow that is not found may be in order all the same: it is then asked about alone, which also says
what is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from tidegauge.errors import OutputError, OutputUnreachable
from tidegauge.outputs.warehouse import columns, staging
from tidegauge.outputs.warehouse.flow_target import FlowTarget
from tidegauge.outputs.warehouse.warehouse import WarehouseSession

T = TypeVar("T")

_AT_ONCE = 100
"""Targets in one statement: few enough for every engine's limits."""


@dataclass(frozen=True)
class ExpectedTarget:
    """A target, and the last batch that the ledger knows to be in it."""

    target: FlowTarget
    epoch: int
    seq: int


def find_up_to_date(expected: Sequence[ExpectedTarget]) -> frozenset[str]:
    """The flows whose epoch is the newest and ends with the expected batch, and whose table has rows; and the
    flows that are to have no batch yet, where there is no table either.

    All are of one warehouse and one schema. Also clears away what dead attempts left there.
    """
    first = expected[0].target
    if not first.warehouse.is_there():
        return frozenset(one.target.flow for one in expected if (one.epoch, one.seq) == (0, 0))
    found: set[str] = set()
    with first.session() as session:
        there = first.commits.is_there(session)
        if there and not first.commits.is_complete(session):
            return frozenset()  # made by an older version: `FlowTarget.make_ready` adds the columns it lacks
        staging.clear_leftovers(first.warehouse, session, first.table.schema)
        session.rollback()
        for some in _chunk([one for one in expected if one.seq and there]):
            found |= _find_as_expected(session, some)
        fresh = [one.target for one in expected if (one.epoch, one.seq) == (0, 0)]
        if fresh:
            found |= _find_fresh(session, fresh, there)
    return frozenset(found)


def _find_fresh(session: WarehouseSession, targets: Sequence[FlowTarget], there: bool) -> set[str]:
    """The flows that have no table and no epoch, and whose table no other flow has an epoch for. `there`:
    whether `tidegauge_commits` exists."""
    first = targets[0]
    tables = {first.named(name) for name in first.warehouse.tables(session, first.table.schema, "")}
    session.rollback()
    without = [one for one in targets if first.named(one.table.table) not in tables]
    known = {name for those in _chunk(without) if there for name in _find_known(session, those)}
    return {one.flow for one in without} - known


def _chunk(items: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), _AT_ONCE):
        yield items[start : start + _AT_ONCE]


def _find_known(session: WarehouseSession, targets: Sequence[FlowTarget]) -> set[str]:
    """The flows that have an epoch already, or whose table another flow has one for."""
    owners = targets[0].commits.find_owners(session, [one.commits.owner for one in targets])
    session.rollback()
    keys, places = {key for key, _ in owners}, {place for _, place in owners}
    return {one.flow for one in targets if one.commits.owner[0] in keys or one.commits.owner[1] in places}


def _find_as_expected(session: WarehouseSession, expected: Sequence[ExpectedTarget]) -> set[str]:
    first = expected[0].target
    asked = [one.target.commits.ask_for(one.epoch, one.seq) for one in expected]
    values = [value for _, values in asked for value in values]
    where = " OR ".join(f"({condition})" for condition, _ in asked)
    rows = first.commits.find_rows(session, where, values)
    session.rollback()
    by_owner: dict[tuple[str, str], dict[int, tuple[Any, ...]]] = {}
    for key, target, seq, *rest in rows:
        by_owner.setdefault((key, target), {})[int(seq)] = tuple(rest)
    right = [one for one in expected if _is_as_expected(one, by_owner.get(one.target.commits.owner, {}))]
    filled = _find_filled(session, [one.target for one in right])
    session.rollback()
    return {one.target.flow for place, one in enumerate(right) if place in filled}


def _is_as_expected(one: ExpectedTarget, rows: Mapping[int, tuple[Any, ...]]) -> bool:
    """Whether the flow's rows of the epoch are as expected. `rows`: `last_seq`, `closed` and `shape` by the
    number of the batch; 0 is the head."""
    head, last = rows.get(0), rows.get(one.seq)
    if head is None or last is None:
        return False
    (last_seq, closed, _), (_, _, shape) = head, last
    before = None if shape is None else columns.mode_of(shape)
    together = before is None or columns.go_together(before, one.target.options.mode)
    return int(last_seq) == one.seq and not closed and together


def _find_filled(session: WarehouseSession, targets: Sequence[FlowTarget]) -> set[int]:
    """The places of the targets that exist and have a row; empty where any one of them cannot be read."""
    if not targets:
        return set()
    asked = " UNION ALL ".join(_probe(place, target) for place, target in enumerate(targets))
    try:
        return {int(place) for place, rows in session.rows(asked) if rows}
    except OutputUnreachable:
        raise
    except OutputError:
        return set()


def _probe(place: int, target: FlowTarget) -> str:
    table = target.warehouse.table(target.table)
    return f"SELECT {place}, COUNT(*) FROM (SELECT 1 FROM {table} LIMIT 1) AS p_"


def by_place(expected: Sequence[ExpectedTarget]) -> Iterator[list[ExpectedTarget]]:
    """Group what is expected by warehouse and schema."""
    groups: list[list[ExpectedTarget]] = []
    for one in expected:
        for group in groups:
            if _is_beside(group[0].target, one.target):
                group.append(one)
                break
        else:
            groups.append([one])
    yield from groups


def _is_beside(one: FlowTarget, other: FlowTarget) -> bool:
    return one.warehouse.database == other.warehouse.database and one.table.schema == other.table.schema
