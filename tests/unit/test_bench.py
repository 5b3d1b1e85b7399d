"""What `make bench` promises of its results, without measuring anything."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from bench import __main__ as command
from bench import extract, planning, report, startup
from bench.result import Result, document, keep, kept
from bench.table import table
from bench.timing import Pairs, in_turns


def result(ours: float = 2.0, goal: float | None = 3.0) -> Result:
    return Result("planning", ours, 1.0, goal, "ms", "one bare commit", {"times": 7})


def test_a_result_has_the_fields_that_the_tour_names() -> None:
    body = document("python -m bench", {"python": "3.11"}, [result()])

    assert list(body) == ["command", "versions", "results"]
    assert {"name", "ours", "reference", "ratio", "goal"} <= body["results"][0].keys()


@pytest.mark.parametrize(
    ("ours", "goal", "met"), [(2.0, 3.0, True), (3.0, 3.0, True), (3.1, 3.0, False), (9.0, None, None)]
)
def test_a_goal_is_met_up_to_its_own_ratio(ours: float, goal: float | None, met: bool | None) -> None:
    assert result(ours, goal).met is met


def test_turns_alternate_and_the_first_do_not_count() -> None:
    calls: list[str] = []

    def timed(name: str, turn: int) -> float:
        calls.append(f"{name}{turn}")
        return float(turn)

    pairs = in_turns(2, lambda turn: timed("a", turn), lambda turn: timed("b", turn), warm_up=1)

    assert calls == ["a0", "b0", "a1", "b1", "a2", "b2"]
    assert pairs == Pairs((1.0, 2.0), (1.0, 2.0))


def test_a_difference_is_taken_turn_by_turn() -> None:
    # The disk was slow in the second turn, for both.
    assert Pairs((5.0, 105.0, 6.0), (4.0, 104.0, 5.0)).median_difference == 1.0


def test_kept_results_come_back_by_their_part(tmp_path: Path) -> None:
    body = document("python -m bench", {"python": "3.11"}, [result()])
    path = keep(tmp_path / "made", "planning", body)

    assert path.name == "planning.json"
    assert kept(tmp_path / "made") == {"planning": body}


def test_the_table_marks_a_missed_goal() -> None:
    lines = table([result().to_json(), result(9.0).to_json(), result(9.0, None).to_json()]).splitlines()

    assert [line[-1] for line in lines[1:]] == ["✓", "✗", "—"]


def test_the_report_changes_only_what_is_between_its_marks(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n")
    body = document(
        "python -m bench",
        {"python": "3.11", "pyspark": "4", "sqlalchemy": "2"},
        [result()],
        at="2025-01-02T03:04:05+00:00",
        machine={"cores": 2, "memory_gib": 8.0, "load": 0.1},
    )

    report.write({"planning": body}, page)
    once = page.read_text()
    report.write({"planning": body}, page)

    assert page.read_text() == once
    assert once.startswith(f"before\n{report.BEGIN}\n")
    assert once.endswith(f"{report.END}\nafter\n")
    assert "old" not in once
    assert "| planning | 2.00 ms | 1.00 ms | 2.00 | ≤ 3 | ✓ |" in once


def test_a_page_without_its_marks_is_left_alone(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{report.BEGIN}\n")

    with pytest.raises(SystemExit):
        report.write({}, page)
    assert page.read_text() == f"before\n{report.BEGIN}\n"


def test_the_page_about_performance_has_its_marks() -> None:
    text = report.PAGE.read_text()
    assert text.count(report.BEGIN) == text.count(report.END) == 1


def test_a_part_that_does_not_exist_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command.main(["--only", "everything"])
    assert ended.value.code == 2
    assert "startup" in capsys.readouterr().err


def test_a_missed_goal_ends_with_exit_code_1_and_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(planning, "measure", lambda: [result(9.0)])

    assert command.main(["--only", "planning", "--results", str(tmp_path)]) == 1

    body = json.loads((tmp_path / "planning.json").read_text())
    assert body["command"] == "python -m bench --only planning"
    assert body["results"][0]["met"] is False
    assert body["machine"].keys() == {"cores", "memory_gib", "load"}
    assert "✗" in capsys.readouterr().out


def test_a_trial_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "FOLDER", tmp_path)
    asked: list[int] = []

    def measure(rows: int, *, times: int) -> list[Result]:
        asked.append(rows)
        return [result()]

    monkeypatch.setattr(extract, "measure", measure)

    assert command.main(["--only", "extract", "--rows", "1000"]) == 0

    assert asked == [1000]
    assert list(tmp_path.iterdir()) == []


def test_the_made_past_has_as_many_events_as_it_says(tmp_path: Path) -> None:
    startup.make_past(tmp_path / "ledger.db", flows=5, events=200)

    with closing(sqlite3.connect(tmp_path / "ledger.db")) as store:
        counts = {
            table: store.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0]
            for table in ("flows", "history", "runs", "plans")
        }
        assert counts == {"flows": 5, "history": 200, "runs": 50, "plans": 50}
        # Nobody has a plan in hand, so `status` shows what the runs have left.
        assert store.execute("SELECT COUNT(*) FROM plans WHERE active = 1").fetchone() == (0,)
