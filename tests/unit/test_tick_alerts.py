"""When a scheduler looks for what alerts have to tell, and what it says of a channel that is down."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tidegauge.config.load import load_project
from tidegauge.errors import TidegaugeError
from tidegauge.flows.selection.scheduled import find_scheduled
from tidegauge.model.alert import AlertResult
from tidegauge.operations import tick_alerts
from tidegauge.operations.tick import TickResult
from tidegauge.operations.tick_alerts import TickAlerts

FILE = """\
pipeline: shop
schedule: every 1 minute
connections: {a: {type: sqlite, path: a.db}, b: {type: duckdb, path: b.duckdb}}
sync: [{from: a, to: b, tables: t, cursor: c}]
"""


def test_it_looks_when_something_failed_or_is_well_again_and_else_now_and_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tidegauge.yml").write_text(f'{FILE}alerts: {{to: ["json://127.0.0.1:9/hook"]}}\n')
    project = load_project(tmp_path / "tidegauge.yml")
    [part] = find_scheduled(project)
    clock = [0.0]
    said: list[str] = []
    looks: list[object] = []

    def send(*_: object, **options: Any) -> list[AlertResult]:
        looks.append(options["error"])
        return [AlertResult("json", False, (), "nobody answers")]

    monkeypatch.setattr(tick_alerts, "send_alerts", send)
    # Not `time.monotonic` itself, by which every thread of this process sleeps.
    monkeypatch.setattr(tick_alerts, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    alerts = TickAlerts(project, said.append)
    broken = TidegaugeError("it broke", hint="mend it")

    def end(error: TidegaugeError | None) -> int:
        """How often it has looked after one more time."""
        alerts.tell(TickResult(part.schedule, datetime(2026, 1, 1), 0.1, None, error))
        clock[0] += 60
        return len(looks)

    assert [end(None), end(None), end(None)] == [1, 1, 1]
    assert [end(broken), end(broken)] == [2, 3]
    assert [end(None), end(None)] == [4, 4], "that it is over is looked for once"
    clock[0] += tick_alerts.EVERY
    assert end(None) == 5
    assert looks == [None, broken, broken, None, None]
    assert said == ["alerts to json were not sent, and will be tried again: nobody answers"] * 5


def test_a_project_without_alerts_is_not_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tidegauge.yml").write_text(FILE)
    project = load_project(tmp_path / "tidegauge.yml")
    [part] = find_scheduled(project)
    monkeypatch.setattr(tick_alerts, "send_alerts", lambda *_, **__: pytest.fail("it looked"))
    TickAlerts(project, pytest.fail).tell(TickResult(part.schedule, datetime(2026, 1, 1), 0.1))
