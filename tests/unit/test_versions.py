"""Planning version windows: what is new of each input, in which way it is read, and where batches end."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.histories import (
    DAY,
    GONE,
    SEEN,
    START,
    delta_flow,
    history,
    idle,
    mark,
    plan,
    source,
    steps,
    version,
)
from tidegauge.errors import TableReplaced, VersionsMissing
from tidegauge.model.delta_flow import Function, OnMissing
from tidegauge.model.mode import Mode
from tidegauge.model.plan import ReadWay, draft_from_json, draft_to_json
from tidegauge.model.position import VersionPosition, Window
from tidegauge.model.retention import unread
from tidegauge.model.versions import FEED, LATEST, Version
from tidegauge.plan.versions import draft_versions, log_needed_after, retention_note


def test_what_came_since_is_one_batch_from_the_feed() -> None:
    found = history(version(5), idle(6), version(7), idle(8), after=4)
    draft = plan(found, 4)
    assert steps(draft) == [(4, 8, "feed")]
    [part] = draft.inputs
    assert (part.input, part.cursor, part.source_id, part.fingerprint) == ("a", "version", "id1", "d1")
    assert part.window == Window(VersionPosition(4), VersionPosition(8))
    assert part.stamp == "2026-11-01T00:08:00+00:00"
    assert draft.seen == SEEN
    assert draft_from_json("p", "silver_t", draft_to_json(draft)) == replace(draft, seen=None)


def test_c9_versions_that_change_no_row_cost_nothing_and_are_kept_as_looked_at() -> None:
    draft = plan(history(idle(5), idle(6, digest="d2"), after=4), 4)
    assert draft.batches == ()
    assert draft.inputs[0].window == Window(VersionPosition(4), VersionPosition(6))
    # The next time the log is read from there on.
    assert log_needed_after(delta_flow(), source(), mark(4, checked=6)) == 6
    assert steps(plan(history(version(7), after=6), 4, checked=6)) == [(6, 7, "feed")]


def test_nothing_new_has_no_batches() -> None:
    draft = plan(history(after=9), 9)
    assert draft.batches == ()
    assert draft.inputs[0].window == Window(VersionPosition(9), VersionPosition(9))


def test_without_a_feed_versions_that_only_add_are_read_from_their_files() -> None:
    assert steps(plan(history(version(5, feed=False), idle(6, feed=False), after=4), 4)) == [(4, 6, "files")]


def test_c3_a_batch_ends_where_the_feed_was_switched() -> None:
    found = history(
        version(1, feed=False), version(2, feed=False), idle(3), version(4, only_adds=False), version(5),
        idle(6, feed=False), version(7, feed=False), after=0,
    )  # fmt: skip
    # Version 6 has no change and no feed: the feed's piece may not touch it, the files' piece may.
    assert steps(plan(found, 0)) == [(0, 2, "files"), (2, 5, "feed"), (5, 7, "files")]


def test_c3_a_feed_that_was_off_and_on_again_without_a_change_between_is_read_around() -> None:
    found = history(version(1), idle(2, feed=False), idle(3), version(4, only_adds=False), after=0)
    assert steps(plan(found, 0)) == [(0, 1, "feed"), (3, 4, "feed")]
    assert steps(plan(history(idle(1, feed=False), idle(2), version(3), after=0), 0)) == [(2, 3, "feed")]
    trailing = plan(history(version(1), idle(2, feed=False), after=0), 0)
    assert steps(trailing) == [(0, 1, "feed")]
    assert trailing.inputs[0].window == Window(VersionPosition(0), VersionPosition(1))


def test_c3_an_update_while_the_feed_was_off_stops_the_flow() -> None:
    found = history(version(5), version(6, feed=False, only_adds=False), after=4)
    with pytest.raises(VersionsMissing) as caught:
        plan(found, 4)
    assert "version 6 of bronze.a" in caught.value.message
    assert "feed was off" in caught.value.message


def test_c4_the_version_that_changes_the_schema_begins_a_batch() -> None:
    found = history(
        version(1), version(2, digest="d2"), idle(3, digest="d3"), version(4, digest="d3"), after=0
    )
    draft = plan(found, 0)
    assert steps(draft) == [(0, 1, "feed"), (1, 2, "feed"), (2, 4, "feed")]
    assert draft.inputs[0].fingerprint == "d3"
    # An older schema in front, under which nothing changed, is no part of what is read.
    assert steps(plan(history(idle(1), version(2, digest="d2"), after=0), 0)) == [(1, 2, "feed")]


def test_c4_a_schema_change_behind_the_last_row_waits_for_the_next_plan() -> None:
    draft = plan(history(version(1), idle(2, digest="d2"), after=0), 0)
    assert steps(draft) == [(0, 1, "feed")]
    assert draft.inputs[0].stamp == "2026-11-01T00:01:00+00:00"


def test_batches_end_by_versions_and_by_bytes() -> None:
    found = history(version(1), idle(2), version(3), version(4, bytes=100), version(5), after=0)
    assert steps(plan(found, 0, flow=delta_flow(source(max_versions=2)))) == [(0, 3, "feed"), (3, 5, "feed")]
    assert steps(plan(found, 0, flow=delta_flow(source(max_bytes=25)))) == [
        (0, 3, "feed"),
        (3, 4, "feed"),
        (4, 5, "feed"),
    ]


def test_f3_every_batch_has_the_time_of_its_last_commit() -> None:
    found = history(version(1), version(2), version(3), after=0)
    draft = plan(found, 0, flow=delta_flow(source(max_versions=1)))
    assert [batch.stamps for batch in draft.batches] == [
        (f"2026-11-01T00:0{number}:00+00:00",) for number in (1, 2, 3)
    ]
    assert draft.inputs[0].stamp == "2026-11-01T00:03:00+00:00"


def test_a_function_that_keeps_history_is_called_for_twenty_versions_at_most() -> None:
    found = history(*map(version, range(1, 46)), after=0)
    flow = delta_flow(source(), mode=Mode.SCD2, transform=Function("m:f"))
    assert [upto for _, upto, _ in steps(plan(found, 0, flow=flow))] == [20, 40, 45]
    fewer = delta_flow(source(max_versions=15), mode=Mode.SCD2, transform=Function("m:f"))
    assert [upto for _, upto, _ in steps(plan(found, 0, flow=fewer))] == [15, 30, 45]


def test_c1_change_files_that_are_gone_stop_the_flow_with_the_choices() -> None:
    with pytest.raises(VersionsMissing) as caught:
        plan(GONE, 4)
    assert caught.value.message == (
        "silver_t: version 6 of bronze.a, not read yet, cannot be read any more: 2 of its files are gone,"
        " such as _change_data/x.parquet"
    )
    hint = str(caught.value.hint)
    for choice in ("on_missing: rebaseline", "on_missing: diff", "watermark reset --select silver_t"):
        assert choice in hint


def test_c1_a_log_that_was_cleaned_past_the_watermark_stops_the_flow() -> None:
    lost = [Version(n, None, True, False, 0, False, None, None, absent=True) for n in (5, 6)]
    with pytest.raises(VersionsMissing, match=r"version 5 of bronze\.a.*the log begins at version 7"):
        plan(history(*lost, version(7), after=4, earliest=7), 4)
    with pytest.raises(VersionsMissing, match=r"version 5 .*its commit is gone from the log"):
        plan(history(*lost, version(7), after=4, earliest=0), 4)


def test_c1_to_rebaseline_reads_the_whole_table_in_one_batch() -> None:
    draft = plan(GONE, 4, flow=delta_flow(source(on_missing=OnMissing.REBASELINE, max_versions=1)))
    assert steps(draft) == [(4, 7, "snapshot")]
    assert "the whole table is read again" in draft.notes[0]


def test_c1_a_difference_needs_the_version_that_was_read_last() -> None:
    flow = delta_flow(source(on_missing=OnMissing.DIFF))
    draft = plan(replace(GONE, readable=lambda version: version == 4), 4, flow=flow)
    assert steps(draft) == [(4, 7, "diff")]
    assert "versions 4 and 7 are compared" in draft.notes[0]
    with pytest.raises(VersionsMissing, match="nor can version 4") as caught:
        plan(GONE, 4, flow=flow)
    assert "on_missing: diff" not in str(caught.value.hint)
    assert "on_missing: rebaseline" in str(caught.value.hint)


def test_the_store_is_not_asked_while_nothing_is_missing() -> None:
    def asked(version: int) -> bool:
        raise AssertionError("asked")

    flow = delta_flow(source(on_missing=OnMissing.DIFF))
    assert steps(plan(history(version(5), after=4, readable=asked), 4, flow=flow)) == [(4, 5, "feed")]


def test_c2_a_table_made_anew_stops_the_flow_even_with_nothing_new() -> None:
    for found in (history(after=9, table_id="id2"), history(version(10, table_id="id2"), table_id="id2")):
        with pytest.raises(TableReplaced) as caught:
            plan(found, 9)
        assert "then id1, now id2" in caught.value.message
        assert "tidegauge watermark reset --select silver_t --reason" in str(caught.value.hint)


def test_c2_a_table_replaced_inside_the_window_or_set_back_stops_the_flow() -> None:
    with pytest.raises(TableReplaced, match="was made anew after version 5"):
        plan(history(version(5, table_id="id0"), version(6), after=4), 4)
    with pytest.raises(TableReplaced, match="is at version 2, and was read up to version 4"):
        plan(history(after=2), 4)


def test_overwrite_is_one_batch_whatever_is_missing_between() -> None:
    flow = delta_flow(source(max_versions=1), mode=Mode.OVERWRITE)
    assert steps(plan(GONE, 4, flow=flow)) == [(4, 7, "snapshot")]
    assert plan(history(idle(5), after=4), 4, flow=flow).batches == ()


def test_several_inputs_go_in_step_and_pinned_ones_stay() -> None:
    flow = delta_flow(source("a", max_versions=1), source("b"), source("c"), source("p", snapshot=True))
    found = {
        "a": history(version(1), version(2), version(3), after=0),
        "b": history(version(8), after=7),
        "c": history(idle(5), after=4),
        "p": history(after=30, table_id="id9"),
    }
    marks = {name: mark(at) for name, at in {"a": 0, "b": 7, "c": 4, "p": 29}.items()}
    draft = draft_versions(flow, found, marks, seen=SEEN)
    assert steps(draft, 0) == [(0, 1, "feed"), (1, 2, "feed"), (2, 3, "feed")]
    assert steps(draft, 1) == [(7, 8, "feed"), (8, 8, "nothing"), (8, 8, "nothing")]
    assert steps(draft, 2) == [(4, 5, "nothing"), (5, 5, "nothing"), (5, 5, "nothing")]
    assert steps(draft, 3) == [(None, 30, "pinned")] * 3
    assert [part.cursor for part in draft.inputs] == ["version", "version", "version", "snapshot"]
    assert draft.notes == ("p: bronze.p was made anew; it is pinned as it is now",)
    assert log_needed_after(flow, flow.inputs[3], marks["p"]) == LATEST


def test_changes_of_a_pinned_input_alone_are_nothing_new() -> None:
    flow = delta_flow(source("a"), source("p", snapshot=True))
    found = {"a": history(after=4), "p": history(version(5), after=4)}
    draft = draft_versions(flow, found, {"a": mark(4), "p": mark(4)}, seen=SEEN)
    assert draft.batches == ()


def test_one_input_that_begins_with_a_snapshot_goes_with_the_others_first_piece() -> None:
    flow = delta_flow(source("a", max_versions=1), source("b"))
    found = {"a": history(version(1), version(2), after=0), "b": history(version(0), version(1))}
    draft = draft_versions(flow, found, {"a": mark(0)}, seen=SEEN)
    assert steps(draft, 0) == [(0, 1, "feed"), (1, 2, "feed")]
    assert steps(draft, 1) == [(None, 1, "snapshot"), (1, 1, "nothing")]


def test_a_warning_comes_with_half_of_the_retention_gone() -> None:
    keep = {FEED: "true", "delta.deletedFileRetentionDuration": "interval 4 days"}
    found = history(version(5), after=4, properties=keep, read_at=START + 3 * DAY)
    note = retention_note(found, 4, found.read_at)
    assert note is not None
    assert "version 5" in note
    assert plan(found, 4).notes == (f"a: {note}",)
    assert retention_note(found, 4, START + DAY) is None
    assert retention_note(found, 5, START + 3 * DAY) is None
    assert retention_note(history(idle(5), after=4, properties=keep), 4, START + 3 * DAY) is None
    odd = keep | {"delta.logRetentionDuration": "interval soon"}
    assert retention_note(replace(found, properties=odd), 4, START + 3 * DAY) is None


def test_plan_and_health_name_the_same_first_version() -> None:
    keep = {FEED: "true", "delta.deletedFileRetentionDuration": "interval 4 days"}
    now = START + 3 * DAY
    found = history(idle(5), version(6), version(7), after=4, properties=keep, read_at=now)
    left = unread(found, 4, now)
    assert left is not None
    assert left.version == 6
    assert retention_note(found, 4, now) == left.note


def test_versions_that_only_add_are_read_by_their_files_though_the_feed_is_on() -> None:
    grown = history(version(1, only_adds=True), idle(2), version(3, only_adds=True), after=0)
    assert steps(plan(grown, 0)) == [(0, 3, "files")]
    mixed = history(version(1, only_adds=True), version(2), after=0)
    assert steps(plan(mixed, 0)) == [(0, 2, "feed")]
    # Who is shown the time of a commit is shown the feed's own.
    assert steps(plan(grown, 0, flow=delta_flow(source(raw=True)))) == [(0, 3, "feed")]
    assert steps(plan(grown, 0, flow=delta_flow(source(), mode=Mode.SCD2))) == [(0, 3, "feed")]


@st.composite
def logs(draw: st.DrawFn) -> list[Version]:
    """Any versions that can be read: with and without a change, a feed, and a new schema."""
    made: list[Version] = []
    for number in range(1, draw(st.integers(1, 12)) + 1):
        feed = draw(st.booleans())
        changes = draw(st.booleans())
        digest = draw(st.sampled_from(["d1", "d1", "d2"]))
        only_adds = draw(st.booleans()) if feed else True
        made.append(
            version(number, feed=feed, changes=changes, digest=digest, only_adds=only_adds, bytes=changes)
        )
    return made


@given(logs(), st.none() | st.integers(1, 3), st.none() | st.integers(1, 3))
def test_every_change_is_in_exactly_one_batch_that_can_be_read_in_its_way(
    versions: list[Version], most: int | None, largest: int | None
) -> None:
    draft = plan(
        history(*versions, after=0), 0, flow=delta_flow(source(max_versions=most, max_bytes=largest))
    )
    covered: list[int] = []
    end = 0
    for after, upto, way in steps(draft):
        assert end <= after < upto
        assert not any(one.changes for one in versions if end < one.number <= after)
        inside = [one for one in versions if after < one.number <= upto]
        changing = [one for one in inside if one.changes]
        assert {one.digest for one in inside} == {inside[0].digest}
        assert {one.feed for one in inside} == {inside[0].feed}
        assert (way == ReadWay.FILES) == all(one.only_adds for one in changing)
        assert 0 < len(changing) <= min(most or 99, largest or 99)
        covered += [one.number for one in changing]
        end = upto
    assert covered == [one.number for one in versions if one.changes]
