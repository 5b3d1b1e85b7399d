"""Any batches in any order: the target is what a few lines of Python say it is, and so are the counts."""

from __future__ import annotations

import itertools
from random import Random
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.warehouses import Yard, counts, layout_of, loader
from tidegauge.model.mode import Mode
from tidegauge.model.spec import DeleteMode

Row = tuple[int, str | None, int]
LAYOUT = layout_of(("id", "bigint"), ("v", "string", "varchar(9)"), ("at", "bigint"))
_numbers = itertools.count()

rows = st.tuples(st.integers(1, 4), st.sampled_from([None, "", "a", "A", "b"]), st.integers(1, 5))
splits = st.lists(rows, max_size=4, unique_by=lambda row: row[0])
batches = st.lists(st.lists(splits, max_size=3), min_size=1, max_size=4)

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
        last = {row[0]: row for split in load for row in split}
        inserted = sum(key not in model for key in last)
        updated = sum(key in model and model[key] != row for key, row in last.items())
        assert counts(orders.rows(LAYOUT, *load)) == (sum(map(len, load)), inserted, updated, 0)
        model |= last
    assert warehouse.contents(table, ["id", "v", "at"], ["id"]) == [model[key] for key in sorted(model)]


Version = tuple[int, int | None, int, str | None]


def rebuilt(known: dict[int, list[Version]], load: list[list[Row]]) -> dict[int, list[Version]]:
    after = dict(known)
    for key in {row[0] for split in load for row in split}:
        events = {start: value for start, _, _, value in known.get(key, [])}
        for split in load:
            events |= {at: value for one, value, at in split if one == key}
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


GONE = layout_of(("id", "bigint"), ("valid_to", "bigint"))
happenings = st.one_of(
    st.tuples(st.just("write"), st.integers(1, 3), st.sampled_from([None, "a", "b"])),
    st.tuples(st.just("delete"), st.integers(1, 3), st.none()),
)
runs = st.lists(st.lists(happenings, max_size=5), min_size=2, max_size=6)


@settings(CAREFUL, max_examples=4)
@given(loads=runs, seed=st.randoms(use_true_random=False))
def test_d13_a_history_with_deletes_is_what_each_run_saw(
    warehouse: Yard, loads: list[list[tuple[str, int, str | None]]], seed: Random
) -> None:
    """Rows come, change, go and come back. Each run brings what is new, and then looks which keys are gone;
    now and then all that was brought is loaded again."""
    table = f"h{next(_numbers)}"
    orders = loader(warehouse, table=table, name=table, mode=Mode.SCD2, deletes=DeleteMode.SOFT)
    source: dict[int, tuple[str | None, int]] = {}
    model: dict[int, list[Version]] = {}
    brought: list[list[Row]] = []
    clock = 0
    for one_load in loads:
        since = clock
        for what, key, value in one_load:
            clock += 1
            if what == "delete":
                source.pop(key, None)
            else:
                source[key] = (value, clock)
        news = [(key, value, at) for key, (value, at) in source.items() if at > since]
        if brought and seed.random() < 0.4:
            orders.again()
            for orders.place, batch in enumerate(brought, 1):
                assert counts(orders.rows(LAYOUT, batch)) == (len(batch), 0, 0, 0)
        orders.place = len(brought) + 1
        orders.rows(LAYOUT, news)
        for key, value, at in news:
            before = model.setdefault(key, [])
            if before and before[-1][2]:
                start, _, _, held = before[-1]
                if held == value:
                    continue
                before[-1] = (start, at, 0, held)
            before.append((at, None, 1, value))
        brought.append(news)
        clock += 1
        gone = [key for key, known in model.items() if known[-1][2] and key not in source]
        if gone:
            assert counts(orders.delete(GONE, [(key, clock) for key in gone]))[1:] == (0, 0, len(gone))
        for key in gone:
            start, _, _, held = model[key][-1]
            model[key][-1] = (start, clock, 0, held)
        wanted = [(key, *version) for key in sorted(model) for version in model[key]]
        assert history(warehouse, table) == wanted


def history(yard: Yard, table: str) -> list[tuple[Any, ...]]:
    return yard.contents(table, ["id", "valid_from", "valid_to", "is_current", "v"], ["id", "valid_from"])
