"""A plan that was made earlier: what it wants to read may have vanished since."""

from __future__ import annotations

import operator
from dataclasses import replace
from functools import partial

import pytest

from tests.support.histories import SEEN, delta_flow, history, idle, mark, plan, source, version
from tidegauge.errors import TableReplaced, VersionsMissing
from tidegauge.model.delta_flow import OnMissing
from tidegauge.model.versions import LATEST
from tidegauge.plan.frozen import check_frozen_versions, find_first_versions
from tidegauge.plan.versions import draft_versions

FOUND = history(version(5), idle(6), version(7), after=4)
FLOW = delta_flow(source(max_versions=1))
FROZEN = plan(FOUND, 4, flow=FLOW)


def test_a_plan_whose_versions_are_all_there_goes_on() -> None:
    assert find_first_versions(FROZEN) == {"a": 4}
    assert find_first_versions(FROZEN, 1) == {"a": 5}
    check_frozen_versions(FLOW, FROZEN, {"a": FOUND})
    check_frozen_versions(FLOW, FROZEN, {"a": history(*FOUND.versions, version(8, missing=("x",)), after=4)})


def test_c1_files_that_vanished_after_the_plan_was_made_stop_it() -> None:
    lost = history(version(5, missing=("x",)), idle(6), version(7), after=4)
    with pytest.raises(VersionsMissing, match="version 5 cannot be read any more: 1 of its files") as caught:
        check_frozen_versions(FLOW, FROZEN, {"a": lost})
    assert "watermark reset --select silver_t" in str(caught.value.hint)
    check_frozen_versions(FLOW, FROZEN, {"a": lost}, done=1)


def test_c2_a_table_made_anew_or_set_back_after_the_plan_was_made_stops_it() -> None:
    with pytest.raises(TableReplaced, match="then id1, now id2"):
        check_frozen_versions(FLOW, FROZEN, {"a": replace(FOUND, table_id="id2")})
    with pytest.raises(VersionsMissing, match="an older copy"):
        check_frozen_versions(FLOW, FROZEN, {"a": history(version(5), after=4)})


def test_c1_whole_tables_are_wanted_at_the_versions_of_the_plan() -> None:
    flow = delta_flow(source("a", on_missing=OnMissing.DIFF), source("b"), source("p", snapshot=True))
    found = {
        "a": history(version(5, missing=("x",)), after=4, readable=lambda _: True),
        "b": history(version(0)),
        "p": history(after=9),
    }
    frozen = draft_versions(flow, found, {"a": mark(4)}, seen=SEEN)
    assert find_first_versions(frozen) == {"a": LATEST, "b": LATEST, "p": LATEST}
    assert [way.value for way in frozen.batches[0].ways] == ["diff", "snapshot", "pinned"]
    later = {name: replace(one, latest=one.latest + 1) for name, one in found.items()}
    for name, number in {"a": 4, "b": 0, "p": 9}.items():
        there = {other: replace(one, readable=lambda _: True) for other, one in later.items()}
        check_frozen_versions(flow, frozen, there)
        there[name] = replace(later[name], readable=partial(operator.ne, number))
        with pytest.raises(VersionsMissing, match=f"'{name}'.*as it was at version {number}"):
            check_frozen_versions(flow, frozen, there)


def test_a_plan_from_the_beginning_is_looked_at_from_there() -> None:
    flow = delta_flow(source(initial="earliest"))
    frozen = plan(history(version(0), version(1)), flow=flow)
    assert find_first_versions(frozen) == {"a": None}
    with pytest.raises(VersionsMissing, match="version 0 cannot be read any more"):
        check_frozen_versions(flow, frozen, {"a": history(version(0, missing=("x",)), version(1))})
    with pytest.raises(VersionsMissing, match="the log begins at version 1"):
        check_frozen_versions(flow, frozen, {"a": history(version(1), earliest=1)})
