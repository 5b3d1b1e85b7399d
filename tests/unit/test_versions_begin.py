"""Planning version windows: where a flow begins that has read nothing yet."""

from __future__ import annotations

import pytest

from tests.support.histories import delta_flow, history, idle, plan, source, steps, version
from tidegauge.errors import ConfigError, SourceError, TableReplaced, VersionsMissing
from tidegauge.model.delta_flow import OnMissing
from tidegauge.model.mode import Mode
from tidegauge.model.versions import LATEST
from tidegauge.plan.versions import log_needed_after


def test_c2_after_a_reset_the_table_that_is_there_is_read() -> None:
    draft = plan(history(version(0), version(1), table_id="id2"), None, checked=None, source_id="id1")
    assert steps(draft) == [(None, 1, "snapshot")]
    assert draft.inputs[0].source_id == "id2"


def test_by_itself_a_flow_begins_with_the_table_as_it_is() -> None:
    for mode in (Mode.MERGE, Mode.OVERWRITE, Mode.REPLACE_PARTITIONS):
        draft = plan(history(version(0), version(1)), flow=delta_flow(mode=mode))
        assert steps(draft) == [(None, 1, "snapshot")]
        assert draft.notes == (
            f"a: begins with bronze.a as it is at version 1, as `{mode.value}` does by itself",
        )
        assert log_needed_after(delta_flow(mode=mode), source(), None) == LATEST


@pytest.mark.parametrize("mode", [Mode.APPEND, Mode.SCD2])
def test_what_keeps_every_change_begins_with_the_earliest_where_it_can(mode: Mode) -> None:
    flow = delta_flow(mode=mode)
    assert log_needed_after(flow, source(), None) is None
    draft = plan(history(idle(0), version(1), version(2, only_adds=False)), flow=flow)
    assert steps(draft) == [(None, 2, "feed")]
    assert "with version 0, because its changes reach back" in draft.notes[0]
    assert steps(plan(history(version(0, feed=False)), flow=flow)) == [(None, 0, "files")]
    for found, why in (
        (history(version(7), earliest=7), "its log begins at version 7"),
        (history(version(0, missing=("x",)), version(1)), "version 0 cannot be read any more"),
        (history(version(0, feed=False, only_adds=False)), "its change data feed was off at version 0"),
        (history(version(0, table_id="id0"), version(1)), "another table was there at version 0"),
    ):
        draft = plan(found, flow=flow)
        assert steps(draft) == [(None, found.latest, "snapshot")]
        assert why in draft.notes[0]


def test_an_empty_table_is_read_once_all_the_same() -> None:
    draft = plan(history(idle(0)), flow=delta_flow(source(initial="earliest"), mode=Mode.SCD2))
    assert steps(draft) == [(None, 0, "snapshot")]


def test_earliest_is_refused_where_the_history_is_not_whole() -> None:
    flow = delta_flow(source(initial="earliest"))
    for found in (history(version(7), earliest=7), history(idle(7), earliest=7)):
        with pytest.raises(VersionsMissing, match="the log begins at version 7") as caught:
            plan(found, flow=flow)
        assert "initial: snapshot" in str(caught.value.hint)
    with pytest.raises(TableReplaced) as replaced:
        plan(history(version(0, table_id="id0"), version(1)), flow=flow)
    assert "initial: snapshot" in str(replaced.value.hint)
    anyway = delta_flow(source(initial="earliest", on_missing=OnMissing.REBASELINE))
    assert steps(plan(history(version(7), earliest=7), flow=anyway)) == [(None, 7, "snapshot")]


def test_a_baseline_version_is_a_snapshot_and_the_changes_after_it() -> None:
    flow = delta_flow(source(initial="3", max_versions=1))
    assert log_needed_after(flow, flow.inputs[0], None) == 3
    found = history(version(4), version(5, only_adds=False), after=3, readable=lambda number: number == 3)
    assert steps(plan(found, flow=flow)) == [(None, 3, "snapshot"), (3, 4, "feed"), (4, 5, "feed")]
    assert steps(plan(history(idle(4), after=3, readable=lambda _: True), flow=flow)) == [
        (None, 3, "snapshot")
    ]
    with pytest.raises(VersionsMissing, match="as it was at version 3"):
        plan(history(version(4), after=3), flow=flow)
    with pytest.raises(SourceError, match="has no version 3 yet"):
        plan(history(after=2), flow=flow)
    newest = plan(history(after=3), flow=flow)
    assert steps(newest) == [(None, 3, "snapshot")]


def test_a_beginning_that_is_neither_is_refused() -> None:
    with pytest.raises(ConfigError, match="'yesterday' does not say"):
        log_needed_after(delta_flow(), source(initial="yesterday"), None)
