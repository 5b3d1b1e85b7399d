"""What a person reads of a run while it goes on, and at its end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.drafts import nothing_new
from tidegauge.api.tables import plan_table, run_table
from tidegauge.cli.progress import _report_all
from tidegauge.errors import SourceError, Stopped
from tidegauge.model.plan import Batch, Draft, InputPlan, Receipt, Tag
from tidegauge.model.position import VersionPosition, Window
from tidegauge.model.state import State
from tidegauge.observe.events import BatchCommitted, FlowEnded, FlowPlanned, Planning
from tidegauge.observe.notebook import NotebookProgress, is_notebook
from tidegauge.observe.progress import SaidOnce, describe
from tidegauge.operations.plan import FlowPreview
from tidegauge.run.report import FlowReport, RunReport


def versions(after: int | None, upto: int) -> Draft:
    window = Window(None if after is None else VersionPosition(after), VersionPosition(upto))
    pinned = InputPlan("customers", "version", Window(VersionPosition(9), VersionPosition(9)), "b", "f")
    parts = (InputPlan("orders", "version", window, "a", "f"), pinned)
    return Draft("p", "silver", parts, (Batch((window, pinned.window or window)),))


def receipt(rows: int) -> Receipt:
    return Receipt(Tag("p", "orders", 0, 1), (), rows, 1, 1, "r")


def test_nothing_new_is_not_called_skipped() -> None:
    assert describe(FlowEnded("orders", State.SKIPPED, 0, 0.1, None)) == ["orders: nothing new"]
    assert FlowReport("orders", State.SKIPPED, 0.1, draft=nothing_new()).told_state == "nothing new"
    kept = "silver did not end well"
    assert describe(FlowEnded("gold", State.SKIPPED, 0, 0.0, None, reason=kept)) == [f"gold: SKIPPED: {kept}"]
    assert FlowReport("gold", State.SKIPPED, 0.0, reason=kept).told_state == "SKIPPED"
    assert FlowReport("gold", State.SKIPPED, 0.0, suspended=True).told_state == "SUSPENDED"
    by = "gold was suspended by me: the table moves"
    ended = FlowEnded("gold", State.SKIPPED, 0, 0.0, by, suspended=True)
    assert describe(ended) == [f"gold: SUSPENDED: {by}"]
    assert describe(replace(ended, error=None, reason=by)) == [f"gold: SUSPENDED: {by}"]
    progress = NotebookProgress()
    progress(ended)
    assert progress.table.rows == (("gold", "SUSPENDED", "", 0),)
    assert FlowReport("orders", State.SKIPPED, 0.1).to_json()["state"] == "SKIPPED"


def test_rows_that_nobody_has_counted_yet_are_told_by_their_versions() -> None:
    draft = versions(3, 7)
    event = FlowPlanned("silver", None, 1, resumed=False, notes=(), draft=draft)
    assert describe(event) == ["silver: planned: orders from version 3 to version 7 in 1 batch"]
    preview = FlowPreview("silver", State.PLANNED, "silver.orders", draft)
    assert preview.to_json()["rows"] is None
    first = FlowPlanned("silver", None, 1, resumed=False, notes=(), draft=versions(None, 0))
    assert "orders from the beginning to version 0" in describe(first)[0]


def test_what_holds_for_many_tables_alike_is_said_once() -> None:
    note, other = "no index begins with at: each plan reads the whole table", "1 row waits"
    once = SaidOnce()
    said = [once(FlowPlanned(flow, 0, 0, resumed=False, notes=(note, other))) for flow in ("orders", "lines")]
    [first, second] = [describe(event) for event in said]
    assert first[0].startswith(f"orders: note: {note} (said once")
    assert first[1:] == [f"orders: note: {other}"]
    assert second == [f"lines: note: {other}"]
    previews = [
        FlowPreview(flow, State.SKIPPED, "dw", remarks=(note, other) if flow == "a" else (note,))
        for flow in "abc"
    ]
    assert plan_table(previews).notes == (f"a, b, c: {note}", f"a: {other}")


def test_a_plan_that_was_taken_up_and_the_one_after_it_are_one_line() -> None:
    first = FlowReport("orders", State.SUCCESS, 1.0, (receipt(1000), receipt(500)), resumed=True)
    second = FlowReport("orders", State.SUCCESS, 0.5, (receipt(3),), draft=versions(3, 7))
    table = run_table(RunReport("r", (first, second)))
    assert table.rows == (("orders", "SUCCESS", "2 + 1", "1,500 + 3", "1.5", None, "version 7"),)
    nothing = FlowReport("orders", State.SKIPPED, 0.5, draft=versions(3, 7))
    assert run_table(RunReport("r", (first, nothing))).rows[0][1:4] == ("SUCCESS", 2, 1500)
    assert len(RunReport("r", (first, second)).to_json()["flows"]) == 2


def test_a_notebook_shows_one_table_that_follows_the_run() -> None:
    assert not is_notebook()
    progress, shown = NotebookProgress(), []
    progress.show = lambda now: shown.append(now._repr_html_())
    progress(Planning(2))
    assert "planning 2 flows" in progress._repr_html_()
    progress(FlowPlanned("orders", 1500, 2, resumed=False, notes=("1 row <waits>",)))
    progress(FlowPlanned("lines", 0, 0, resumed=False, notes=()))
    progress(BatchCommitted("orders", 1, 2, 1000, found=False))
    assert progress.table.rows == (("orders", "RUNNING", "1 of 2", 1000), ("lines", "nothing new", "", 0))
    progress(BatchCommitted("orders", 2, 2, 500, found=False))
    progress(FlowEnded("orders", State.SUCCESS, 1500, 1.0, None))
    progress(FlowEnded("gold", State.SKIPPED, 0, 0.0, None, reason="orders did not end well"))
    assert [row[:3] for row in progress.table.rows[::2]] == [
        ("orders", "SUCCESS", "2 of 2"),
        ("gold", "SKIPPED", ""),
    ]
    assert "1 row &lt;waits&gt;" in shown[-1]
    assert len(shown) < 8, "not a picture for each event"


def test_one_sentence_for_all_that_was_stopped(capsys: pytest.CaptureFixture[str]) -> None:
    stopped = Stopped("stopped as asked, before it began", hint="the next run goes on from here")
    _report_all([stopped] * 19, debug=False)
    assert capsys.readouterr().err == "stopped as asked: 19 flows go on from here with the next run\n"
    _report_all([stopped, SourceError("gone")], debug=False)
    said = capsys.readouterr().err
    assert said == "error: gone\nstopped as asked: one flow goes on from here with the next run\n"
