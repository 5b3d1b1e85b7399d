"""Any batches in any order: the target is what a few lines of Python say it is, and so are the counts."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.warehouses import Yard, counts, layout_of, loader
from tidegauge.model.spec import Mode

pytestmark = pytest.mark.contract

Row = tuple[int, str | None, int]
LAYOUT = layout_of(("id", "bigint"), ("v", "string", "varchar(9)"), ("at", "bigint"))
_numbers = itertools.count()

rows = st.tuples(st.integers(1, 4), st.sampled_from([None, "", "a", "A", "b"]), st.integers(1, 5))
stretches = st.lists(rows, max_size=4, unique_by=lambda row: row[0])
batches = st.lists(st.lists(stretches, max_size=3), min_size=1, max_size=4)

CAREFUL = settings(
    max_examples=6,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@CAREFUL
@given(loads=batches)
def test_merge_is_a_dictionary(warehouse: Yard, loads: list[list[list[Row]]]) -> None:
    table = f"m{next(_numbers)}"
    orders = loader(warehouse, table=table, name=table)
    model: dict[int, Row] = {}
    for load in loads:
        last = {row[0]: row for stretch in load for row in stretch}
        inserted = sum(key not in model for key in last)
        updated = sum(key in model and model[key] != row for key, row in last.items())
        assert counts(orders.rows(LAYOUT, *load)) == (sum(map(len, load)), inserted, updated, 0)
        model |= last
    assert warehouse.contents(table, ["id", "v", "at"], ["id"]) == [model[key] for key in sorted(model)]


Version = tuple[int, int | None, int, str | None]


def rebuilt(known: dict[int, list[Version]], load: list[list[Row]]) -> dict[int, list[Version]]:
    after = dict(known)
    for key in {row[0] for stretch in load for row in stretch}:
        events = {start: value for start, _, _, value in known.get(key, [])}
        for stretch in load:
            events |= {at: value for one, value, at in stretch if one == key}
        kept: list[tuple[int, str | None]] = []
        for at in sorted(events):
            if not kept or kept[-1][1] != events[at]:
                kept.append((at, events[at]))
        ends: list[int | None] = [*(at for at, _ in kept[1:]), None]
        after[key] = [(at, end, int(end is None), value) for (at, value), end in zip(kept, ends, strict=True)]
    return after


@CAREFUL
@given(loads=batches)
def test_scd2_is_the_history_of_the_events(warehouse: Yard, loads: list[list[list[Row]]]) -> None:
    table = f"s{next(_numbers)}"
    orders = loader(warehouse, table=table, name=table, mode=Mode.SCD2)
    model: dict[int, list[Version]] = {}
    for load in [*loads, loads[-1]]:
        before, model = model, rebuilt(model, load)
        old, new = ({(k, v[0]): v for k in m for v in m[k]} for m in (before, model))
        assert counts(orders.rows(LAYOUT, *load))[1:] == (
            len(new.keys() - old.keys()),
            sum(old[one] != new[one] for one in old.keys() & new.keys()),
            len(old.keys() - new.keys()),
        )
        assert history(warehouse, table) == [
            (key, *version) for key in sorted(model) for version in model[key]
        ]


def history(yard: Yard, table: str) -> list[tuple[Any, ...]]:
    return yard.contents(table, ["id", "valid_from", "valid_to", "is_current", "v"], ["id", "valid_from"])
