"""A project from Python: the same work as the commands do, with typed results that show as tables."""

from __future__ import annotations

import io
import os
import runpy
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import duckdb
import pytest

import tidegauge as tg
from tests.support.project import here
from tidegauge.errors import ConfigError, NotCompared
from tidegauge.observe.events import BatchCommitted, RunEvent

EXAMPLE = Path(__file__).parents[2] / "examples" / "005_python"


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A project of two tables; one row each."""
    (tmp_path / "tidegauge.yml").write_text(
        "pipeline: shop\n"
        "connections: {app: {type: sqlite, path: shop.db}, dw: {type: duckdb, path: dw.duckdb}}\n"
        "sync: [{from: app, to: dw, tables: [orders, lines], cursor: at, mode: merge, settle: 0s}]\n"
    )
    for table in ("orders", "lines"):
        change(tmp_path, f"CREATE TABLE {table} (id INTEGER PRIMARY KEY, at TEXT, note TEXT)")
        change(tmp_path, f"INSERT INTO {table} VALUES (1, '2026-01-01 00:00:00', '<b>&amp;')")
    return tmp_path


def change(folder: Path, sql: str) -> None:
    with sqlite3.connect(folder / "shop.db") as connection:
        connection.execute(sql)


def test_the_example_loads_plans_runs_and_proves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copy(EXAMPLE / "tidegauge.yml", tmp_path)
    main = runpy.run_path(str(EXAMPLE / "notebook.py"))["main"]
    main(tmp_path)
    main(tmp_path)
    said = capsys.readouterr().out
    assert said.count("rows written: 2\n") == 2
    with duckdb.connect(str(tmp_path / "warehouse.duckdb")) as warehouse:
        assert warehouse.execute("SELECT count(*), sum(total) FROM orders").fetchone() == (4, 32)


def test_results_are_those_of_the_commands(shop: Path) -> None:
    project = tg.load_project(shop)
    plan = project.plan("orders")
    assert [(one.flow, one.state.value, one.rows) for one in plan] == [("orders", "PLANNED", 1)]
    assert plan.to_json() == here("plan", "--select", "orders", "--json", "--project", shop).json

    result = project.run()
    assert result.ok
    assert result.state == "SUCCESS"
    assert result["orders"].rows == 1
    assert {"flow", "rows_inserted", "windows"} <= set(result.to_json()["flows"][0])
    assert here("history", "--json", "--project", shop).json["events"][0]["run_id"] == result.run_id

    assert project.watermarks().to_json() == here("watermark", "list", "--json", "--project", shop).json
    assert project.status(["orders", "lines"])["lines"].state.value == "SUCCESS"
    proof = project.verify()
    assert proof.equal
    assert proof.to_json() == here("verify", "--json", "--project", shop).json
    assert project.run(progress=False).state == "SKIPPED"


def test_a_result_shows_as_a_table_and_runs_nothing_as_html(shop: Path) -> None:
    project = tg.load_project(shop)
    change(shop, 'ALTER TABLE orders RENAME TO "<script>x</script>"')
    (shop / "tidegauge.yml").write_text(
        (shop / "tidegauge.yml").read_text().replace("orders", "'<script>x</script>'")
    )
    project = tg.load_project(shop)
    result = project.run()
    assert "flow" in repr(result)
    assert "<script>x</script>" in repr(result)
    for shown in (result, project.plan(), project.status(), project.watermarks(), project.verify()):
        html = shown._repr_html_()
        assert html.startswith("<table>")
        assert "&lt;script&gt;" in html
        assert "<script>" not in html


def test_a_failed_flow_raises_and_the_whole_result_comes_with_it(shop: Path) -> None:
    project = tg.load_project(shop)
    change(shop, "INSERT INTO lines VALUES (2, NULL, '')")
    with pytest.raises(tg.RunFailed, match="lines failed") as failed:
        project.run()
    assert failed.value.hint
    assert f"hint: {failed.value.hint}" in str(failed.value)
    assert failed.value.result["orders"].state.value == "SUCCESS"
    assert failed.value.result["lines"].error is failed.value.__cause__
    result = project.run(check=False)
    assert not result.ok
    assert "hint: " not in result.to_json()["flows"][0]["error"]["message"]
    assert "hint: " in str(result.errors[0])
    assert not project.plan().ok


def test_a_difference_is_a_result_and_nothing_to_compare_is_an_error(shop: Path) -> None:
    project = tg.load_project(shop)
    with pytest.raises(NotCompared, match=r"hint: "):
        project.verify()
    project.run()
    with duckdb.connect(str(shop / "dw.duckdb")) as warehouse:
        warehouse.execute("DELETE FROM orders")
    proof = project.verify(progress=False)
    assert not proof.equal
    assert (proof["lines"].equal, proof["orders"].equal) == (True, False)
    with pytest.raises(KeyError, match="there are: lines, orders"):
        proof["nowhere"]


def test_wrong_use_is_told_with_the_hint(shop: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"does not exist\nhint: "):
        tg.load_project(tmp_path / "nowhere")
    project = tg.load_project(shop)
    with pytest.raises(ConfigError, match=r"hint: .*extract"):
        project.run(stage="first")
    with pytest.raises(ConfigError, match="nothing_like_it"):
        project.run("nothing_like_it")


def test_progress_goes_to_who_asks_for_it(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events: list[RunEvent] = []
    tg.load_project(shop).run(progress=events.append)
    assert sum(isinstance(one, BatchCommitted) for one in events) == 2
    assert capsys.readouterr().err == ""
    change(shop, "INSERT INTO orders VALUES (2, '2026-01-02 00:00:00', '')")
    tg.load_project(shop).run()
    assert "orders: batch 1/1: 1 row" in capsys.readouterr().err


class _Heard(io.StringIO):
    """A stream that says when it was written to."""

    def __init__(self) -> None:
        super().__init__()
        self.heard = threading.Event()

    def write(self, text: str) -> int:
        self.heard.set()
        return super().write(text)


def test_ctrl_c_stops_after_the_batch_in_hand_and_the_rest_comes_later(
    shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change(shop, f"INSERT INTO orders VALUES {', '.join(f'({i}, {i}, null)' for i in range(2, 500))}")
    change(shop, "UPDATE orders SET at = '2026-01-02 00:00:00'")
    file = shop / "tidegauge.yml"
    file.write_text(file.read_text().replace("settle: 0s", "settle: 0s, batch_rows: 100"))
    project, stderr = tg.load_project(shop), _Heard()
    monkeypatch.setattr(sys, "stderr", stderr)

    def interrupt(event: RunEvent) -> None:
        if isinstance(event, BatchCommitted) and event.number == 2:
            os.kill(os.getpid(), signal.SIGINT)
            assert stderr.heard.wait(60)

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        project.run("orders", progress=interrupt)
    assert signal.getsignal(signal.SIGINT) is before
    assert "once more stops at once" in stderr.getvalue()
    assert project.status()["orders"].state.value == "PLANNED"
    result = project.run("orders", progress=False)
    assert result.flows[0].resumed
    assert project.verify("orders", progress=False).equal


def test_it_runs_in_a_thread_too_where_no_signal_comes(shop: Path) -> None:
    states: list[str] = []
    thread = threading.Thread(target=lambda: states.append(tg.load_project(shop).run().state))
    thread.start()
    thread.join()
    assert states == ["SUCCESS"]


def test_everything_public_is_listed_and_importing_it_brings_neither_spark_nor_a_ledger() -> None:
    assert dir(tg) == tg.__all__ == sorted(tg.__all__)
    for name in tg.__all__:
        assert getattr(tg, name) is not None
    script = (
        "import sys, tidegauge as tg; tg.load_project, tg.RunFailed;"
        "assert 'pyspark' not in sys.modules; assert not hasattr(tg, 'nothing')"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
