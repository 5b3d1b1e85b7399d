"""The example of one table and its replica: thirty times by the clock, with writers and mishaps."""

from __future__ import annotations

import json
import runpy
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.support.project import end, here, start, until
from tests.support.servers import Postgres
from tests.support.snowflake_server import DATABASE, SnowflakeServer

EXAMPLE = Path(__file__).parents[2] / "examples" / "004_run_history_sync"
SOURCE, REPLICA = "ETL_PIPELINE_RUN_HISTORY_LOG", "ETL_PIPELINE_RUN_HISTORY_LOG_REPLICATION"
TIMES = 30


@dataclass
class Example:
    file: Path
    table: str
    """As the project names it."""
    execute: Callable[[str], list[tuple[Any, ...]]]
    now: str


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[dict[str, Any]]]:
    """The messages that a web hook has received."""
    received: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("ALERT_URL", f"json://127.0.0.1:{server.server_port}/hook")
    yield received
    server.shutdown()
    server.server_close()


@pytest.fixture(params=["postgresql", "snowflake"])
def example(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Example]:
    folder = shutil.copytree(EXAMPLE, tmp_path / "example")
    if request.param == "postgresql":
        server: Postgres = request.getfixturevalue("postgres")
        database = server.create_database()
        said = {"HOST": server.host, "PORT": server.port, "DATABASE": database}
        for name, value in (said | {"USER": server.user, "PASSWORD": server.password}).items():
            monkeypatch.setenv(f"OPS_{name}", str(value))
        with server.connect(database) as connection:
            connection.execute("SET TIME ZONE 'UTC'")
            lock = threading.Lock()

            def execute(statement: str) -> list[tuple[Any, ...]]:
                with lock:
                    found = connection.execute(statement)
                    return found.fetchall() if found.description else []

            table = f"public.{SOURCE.lower()}"
            yield prepare(Example(folder / "tidegauge.yml", table, execute, "LOCALTIMESTAMP"))
        return
    snowflake: SnowflakeServer = request.getfixturevalue("snowflake")
    schema = snowflake.create_schema()
    said = {"ACCOUNT": "test", "USER": "tester", "PASSWORD": "snow secret"}
    for name, value in (said | {"DATABASE": DATABASE, "SCHEMA": schema}).items():
        monkeypatch.setenv(f"SNOWFLAKE_{name}", str(value))
    file = folder / "snowflake.yml"
    # Where the stand-in is; and it has no hybrid tables.
    options = f'{{host: 127.0.0.1, port: "{snowflake.port}", protocol: http}}'
    text = file.read_text().replace("    type: snowflake\n", f"    type: snowflake\n    options: {options}\n")
    file.write_text(text.replace("    hybrid: true ", "    # hybrid: true "))
    with closing(snowflake.connect(schema)) as held:
        lock = threading.Lock()

        def ask(statement: str) -> list[tuple[Any, ...]]:
            with lock:
                return [tuple(row) for row in held.cursor().execute(statement).fetchall()]

        yield prepare(Example(file, f"{schema}.{SOURCE}", ask, "SYSDATE()"))


def prepare(example: Example) -> Example:
    text = example.file.read_text()
    assert "schedule: every 1 minute" in text
    example.file.write_text(text.replace("schedule: every 1 minute", "schedule: every 1 second"))
    example.execute((EXAMPLE / "run_history_log.sql").read_text().split("\n", 1)[1].strip().rstrip(";"))
    return example


def rows(example: Example, table: str) -> list[tuple[Any, ...]]:
    return sorted(example.execute(f"SELECT * FROM {table}"))


def statuses(example: Example) -> list[str]:
    query = "SELECT sync_status FROM etl_pipeline_sync_control ORDER BY sync_run_id"
    asked = here("sql", query, "--json", "--project", example.file)
    return [row["sync_status"] for row in asked.json["rows"]]


@pytest.mark.shown_on("postgresql")
def test_thirty_times_with_writers_a_suspension_and_a_failure(
    example: Example, hook: list[dict[str, Any]]
) -> None:
    write = runpy.run_path(str(EXAMPLE / "write.py"))["write"]
    stop = threading.Event()
    steps: list[int] = []

    def keep_writing() -> None:
        while not stop.is_set():
            write(example.execute, len(steps), now=example.now)
            steps.append(len(steps))
            stop.wait(0.3)

    write(example.execute, 0, now=example.now)
    steps.append(0)
    scheduler = start("schedule", "start", "--ticks", TIMES, "--project", example.file)
    writer = threading.Thread(target=keep_writing)
    writer.start()
    try:
        until(lambda: statuses(example).count("SUCCESS") >= 2 or scheduler.poll() is not None)
        assert rows(example, REPLICA), scheduler.said()

        # A person holds it: nothing more arrives, and the table is written to all the same.
        held = here("schedule", "suspend", example.table, "--reason", "a test", "--project", example.file)
        assert held.code == 0, held.said
        until(lambda: "1 suspended" in scheduler.said() or scheduler.poll() is not None)
        before, written = rows(example, REPLICA), len(steps)
        until(lambda: len(steps) > written + 2)
        assert rows(example, REPLICA) == before
        assert here("schedule", "resume", example.table, "--project", example.file).code == 0
        until(lambda: len(rows(example, REPLICA)) > len(before) or scheduler.poll() is not None)

        # Somebody renames the column that everything goes by.
        stop.set()
        writer.join()
        example.execute(f"ALTER TABLE {SOURCE} RENAME COLUMN LAST_UPDATE_DATE TO GONE")
        until(lambda: bool(hook) or scheduler.poll() is not None)
        example.execute(f"ALTER TABLE {SOURCE} RENAME COLUMN GONE TO LAST_UPDATE_DATE")
        until(lambda: len(hook) > 1 or scheduler.poll() is not None)
    finally:
        stop.set()
        writer.join()
    ran = end(scheduler)
    assert ran.code == 0, ran.said

    assert ["failed" in str(hook[0]).lower(), "recovered" in str(hook[-1]).lower()] == [True, True], hook
    assert len(hook) == 2, hook
    assert here("run", "--project", example.file).code == 0
    compared = [partial(rows, example)(table) for table in (SOURCE, REPLICA)]
    assert compared[0] == compared[1]
    assert len(compared[0]) == 5 * len(steps)
    kept = statuses(example)
    assert {"SUCCESS", "FAILED"} <= set(kept)
    assert "RUNNING" not in kept
    verified = here("verify", "--project", example.file)
    assert verified.code == 0, verified.said
