"""A scheduler that is killed again and again, over a table that is written to all the while."""

from __future__ import annotations

import random
import runpy
import shutil
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.project import here, start, until
from tests.support.servers import Postgres

EXAMPLE = Path(__file__).parents[2] / "examples" / "004_run_history_sync"
SOURCE, REPLICA = "etl_pipeline_run_history_log", "etl_pipeline_run_history_log_replication"


@pytest.mark.parametrize(
    ("seconds", "between"),
    [(0, 0), pytest.param(600, 20, marks=pytest.mark.long)],
    ids=["short", "ten minutes"],
)
def test_b1_b2_nothing_is_lost_or_doubled_by_a_scheduler_that_is_killed(
    postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, between: float
) -> None:
    """Short: four lives, each killed at some moment after it has delivered something."""
    database = postgres.create_database()
    said = {"HOST": postgres.host, "PORT": postgres.port, "DATABASE": database, "USER": postgres.user}
    for name, value in (said | {"PASSWORD": postgres.password}).items():
        monkeypatch.setenv(f"OPS_{name}", str(value))
    monkeypatch.setenv("ALERT_URL", "json://127.0.0.1:9/nobody")
    file = shutil.copytree(EXAMPLE, tmp_path / "example") / "tidegauge.yml"
    text = file.read_text().partition("\nalerts:")[0] + "\n"
    file.write_text(text.replace("every 1 minute", "{every: 1 second, catch_up: one}"))
    write = runpy.run_path(str(EXAMPLE / "write.py"))["write"]
    stop, steps = threading.Event(), [0]

    def keep_writing() -> None:
        with postgres.connect(database) as connection:
            connection.execute("SET TIME ZONE 'UTC'")
            while not stop.is_set():
                write(connection.execute, steps[0])
                steps[0] += 1
                stop.wait(0.1)

    with postgres.connect(database) as connection:

        def rows(table: str) -> list[tuple[Any, ...]]:
            return sorted(connection.execute(f"SELECT * FROM {table}").fetchall())

        def delivered() -> int:
            known = connection.execute(f"SELECT to_regclass('{REPLICA}')").fetchall() != [(None,)]
            return len(rows(REPLICA)) if known else 0

        connection.execute((EXAMPLE / "run_history_log.sql").read_text())
        writer = threading.Thread(target=keep_writing)
        writer.start()
        lives, began, dice = 0, time.monotonic(), random.Random(7)
        try:
            while lives < 4 or time.monotonic() - began < seconds:
                before = delivered()
                scheduler = start("schedule", "start", "--project", file)
                until(lambda: delivered() > before or scheduler.poll() is not None)  # noqa: B023
                assert scheduler.poll() is None, scheduler.said()
                stop.wait(max(between, dice.uniform(0, 0.5)))
                scheduler.kill()
                lives += 1
        finally:
            stop.set()
            writer.join()

        def is_all_there() -> bool:
            """What was left half-way comes first, and the newest rows once they are older than `settle`."""
            ran = here("run", "--project", file)
            assert ran.code == 0, ran.said
            return rows(REPLICA) == rows(SOURCE)

        until(is_all_there)
        source = rows(SOURCE)
    assert len(source) == 5 * steps[0]
    assert here("verify", "--project", file).code == 0
    print(f"{lives} lives, {len(source):,} rows")
