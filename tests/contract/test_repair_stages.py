"""A repair of a table with two stages, while the first stage is at work: what it read before must not win in
silence."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.drafts import ME, draft
from tests.support.project import Project, duckdb_database, local, sqlite_database
from tidegauge.flows.table.repair import plan_repair
from tidegauge.ledger.open import open_ledger
from tidegauge.operations import repair

REPAIR = ("repair", "-t", "t", "--reason", "somebody's hand", "--yes", "--json")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Two rows that have landed; another hand has changed one of them in the target."""
    source, target = sqlite_database(tmp_path / "source.db"), duckdb_database(tmp_path / "target.duckdb")
    source.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, at TEXT NOT NULL, word TEXT)")
    source.insert("t", [(n, f"2026-01-01 00:00:0{n}", "first") for n in (1, 2)])
    made = local(tmp_path, source).write(
        "tables: [t], cursor: at, key: id, settle: 0s, lookback: 1d, types: {at: timestamp}",
        route="via: lake, to: warehouse",
        connections=f"  warehouse: {target.connection}\n",
    )
    ran = made.here("run")
    assert ran.code == 0, ran.said
    target.execute("UPDATE t SET word = 'by hand' WHERE id = 1")
    return made


def test_a_row_that_an_extract_read_before_the_repair_does_not_win_in_silence(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = plan_repair

    def plan(*words: Any, **more: Any) -> Any:
        assert project.here("sync", "--stage", "extract").code == 0
        project.database.execute("UPDATE t SET word = 'second' WHERE id = 1")
        return real(*words, **more)

    monkeypatch.setattr(repair, "plan_repair", plan)
    ran = project.here(*REPAIR)
    monkeypatch.undo()
    assert ran.code == 1, ran.said
    error = ran.flow("t/load")["error"]
    assert (error["type"], error["retryable"]) == ("WrongState", True)
    assert "ran while t/load was repaired" in error["message"]
    assert project.here("sync", "--stage", "load").code == 0
    [table] = project.here("verify", "--json").json["tables"]
    assert table["different"] == 1, "what the extract had read came after the repair"
    assert project.here(*REPAIR).code == 0
    assert project.here("verify").code == 0


def test_a_repair_waits_for_an_extract_that_is_under_way(project: Project) -> None:
    with open_ledger(f"sqlite:///{project.ledger_file}", create=True) as ledger:
        [mark] = ledger.watermarks("test", ["t/extract"])
        made = replace(draft("t/extract", pipeline="test", inputs=(mark.input,)), seen=(mark.epoch, mark.seq))
        assert ledger.plan([made], owner=ME, run_id="somebody")
    ran = project.here(*REPAIR)
    assert ran.code == 1, ran.said
    assert "t/extract is under way" in ran.out + ran.err
