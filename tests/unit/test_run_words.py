"""What a person reads of a run while it goes on, and at its end."""

from __future__ import annotations

import pytest

from tests.support.drafts import nothing_new
from tidegauge.cli.progress import _report_all
from tidegauge.errors import SourceError, Stopped
from tidegauge.model.plan import Batch, Draft, InputPlan
from tidegauge.model.position import VersionPosition, Window
from tidegauge.model.state import State
from tidegauge.observe.events import FlowEnded, FlowPlanned
from tidegauge.observe.view import describe
from tidegauge.operations.plan import Preview
from tidegauge.run.report import FlowReport


def versions(after: int | None, upto: int) -> Draft:
    window = Window(None if after is None else VersionPosition(after), VersionPosition(upto))
    pinned = InputPlan("customers", "version", Window(VersionPosition(9), VersionPosition(9)), "b", "f")
    parts = (InputPlan("orders", "version", window, "a", "f"), pinned)
    return Draft("p", "silver", parts, (Batch((window, pinned.window or window)),))


def test_nothing_new_is_not_called_skipped() -> None:
    assert describe(FlowEnded("orders", State.SKIPPED, 0, 0.1, None)) == ["orders: nothing new"]
    assert FlowReport("orders", State.SKIPPED, 0.1, draft=nothing_new()).told_state == "nothing new"
    kept = "silver did not end well"
    assert describe(FlowEnded("gold", State.SKIPPED, 0, 0.0, None, reason=kept)) == [f"gold: SKIPPED: {kept}"]
    assert FlowReport("gold", State.SKIPPED, 0.0, reason=kept).told_state == "SKIPPED"
    assert FlowReport("gold", State.SKIPPED, 0.0, suspended=True).told_state == "SUSPENDED"
    assert FlowReport("orders", State.SKIPPED, 0.1).to_json()["state"] == "SKIPPED"


def test_rows_that_nobody_has_counted_yet_are_told_by_their_versions() -> None:
    draft = versions(3, 7)
    event = FlowPlanned("silver", None, 1, resumed=False, notes=(), draft=draft)
    assert describe(event) == ["silver: planned: orders from version 3 to version 7 in 1 batch"]
    preview = Preview("silver", State.PLANNED, "silver.orders", draft)
    assert preview.to_json()["rows"] is None
    first = FlowPlanned("silver", None, 1, resumed=False, notes=(), draft=versions(None, 0))
    assert "orders from the beginning to version 0" in describe(first)[0]


def test_one_sentence_for_all_that_was_stopped(capsys: pytest.CaptureFixture[str]) -> None:
    stopped = Stopped("stopped as asked, before it began", hint="the next run goes on from here")
    _report_all([stopped] * 19, debug=False)
    assert capsys.readouterr().err == "stopped as asked: 19 flows go on from here with the next run\n"
    _report_all([stopped, SourceError("gone")], debug=False)
    said = capsys.readouterr().err
    assert said == "error: gone\nstopped as asked: one flow goes on from here with the next run\n"
