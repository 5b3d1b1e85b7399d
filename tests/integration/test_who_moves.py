"""Who moves the rows of a batch: this process, processes beside it, or Spark; and that all say which."""

from __future__ import annotations

import pytest

from tests.integration.conftest import Make
from tidegauge.spark import local_tasks, on_demand

OPTIONS = "tables: [t], cursor: at, settle: 1s, batch_rows: 30, parallel: 2"


@pytest.mark.shown_on("processes", "spark")
@pytest.mark.parametrize(
    ("execute", "few", "at_hand", "by"),
    [
        ("auto", 100, False, "process"),
        ("auto", 10, False, "processes"),
        ("auto", 10, True, "spark"),
        ("spark", 100, False, "spark"),
    ],
)
def test_a_run_and_its_plan_say_who_moves_the_rows(
    make: Make, monkeypatch: pytest.MonkeyPatch, execute: str, few: int, at_hand: bool, by: str
) -> None:
    """`at_hand`: a Spark that was there before. That of the tests is, and is hidden from the question."""
    from tidegauge.run import context

    monkeypatch.setattr(on_demand, "FEW", few)
    for place in (local_tasks, context):
        monkeypatch.setattr(place, "is_at_hand", lambda: at_hand)
    project = make("postgresql")
    database = project.database
    database.execute("CREATE TABLE t (id INT PRIMARY KEY, word TEXT, at TIMESTAMP NOT NULL)")
    database.insert("t", [(n, f"word {n}", "2025-01-01 00:00:00") for n in range(50)])
    project.write(f"{OPTIONS}, execute: {execute}", top="spark: {master: 'local[2]'}")

    [planned] = project.here("plan", "--json").json["flows"]
    assert planned["moved_by"] == by
    ran = project.here("run", "--json")
    assert ran.code == 0, ran.said
    [flow] = ran.json["flows"]
    assert (flow["rows_written"], flow["moved_by"]) == (50, [by]), ran.said
    assert project.here("verify").code == 0
    # Nothing new is moved by nobody.
    [planned] = project.here("plan", "--json").json["flows"]
    assert planned["moved_by"] is None
    [flow] = project.here("run", "--json").json["flows"]
    assert flow["moved_by"] == []
    database.insert("t", [(50, "one more", "2025-01-02 00:00:00")])
    shown = project.here("run")
    words = {"process": "this process", "processes": "local processes", "spark": "Spark"}
    assert words["process" if few == 10 else by] in shown.out
