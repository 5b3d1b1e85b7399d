"""Projects as a user writes them, and the command as a user types it."""

from __future__ import annotations

import io
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import duckdb
import typer.main

from tests.support.lake import Lake, LocalLake, S3Lake
from tests.support.nursery import Forked, own_nursery
from tests.support.servers import S3, MariaDB, Postgres
from tests.support.snowflake_server import DATABASE, SnowflakeServer
from tidegauge.cli.main import app, main

ROOT = Path(__file__).parents[2]
# Build the tree of commands only once, because that takes longer than most commands.
patch.object(typer.main, "get_command", cache(typer.main.get_command)).start()

PATIENCE = 600.0
"""Seconds until something counts as hanging; it normally happens much sooner, even on a busy machine."""
TRACES = ("Traceback (most recent call last)", "\tat ", "Caused by:", "py4j", "org.apache.")
"""Texts of stack traces, which a user must not see without asking for them."""


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """The JSON object on stdout; fails if stdout holds anything else."""
        document = json.loads(self.out)
        assert isinstance(document, dict)
        return document

    @property
    def said(self) -> str:
        return f"exit {self.code}\n{self.out}\n{self.err}"

    def flow(self, name: str) -> dict[str, Any]:
        """Return the last report of a flow; a flow whose old plan was resumed has two."""
        found: list[dict[str, Any]] = [one for one in self.json["flows"] if one["flow"] == name]
        assert found, self.said
        return found[-1]


def build_commands() -> None:
    """Build the tree of commands in advance."""
    typer.main.get_command(app)


def here(*words: object) -> Ran:
    """Run the command in this process, so that it uses the session's Spark."""
    out, err = io.StringIO(), io.StringIO()
    code: object = 0
    with (
        patch.object(sys, "argv", ["tidegauge", *map(str, words)]),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as end:
            code = end.code
    return Ran(code if isinstance(code, int) else int(code is not None), out.getvalue(), err.getvalue())


def command(*words: object) -> list[str]:
    return [sys.executable, "-m", "tidegauge.cli.main", *map(str, words)]


Process = subprocess.Popen[str] | Forked


def start(*words: object, env: dict[str, str] | None = None) -> Forked:
    """Start the command in a separate process, forked from the nursery."""
    return own_nursery().main(*words, env=env)


def start_afresh(
    *words: object, env: dict[str, str] | None = None, prefix: Sequence[str] = ()
) -> subprocess.Popen[str]:
    """Start the command in a new interpreter; `prefix` is a command that starts it, such as `prlimit`."""
    return subprocess.Popen(
        [*prefix, *command(*words)],
        cwd=ROOT,
        env={**os.environ, **(env or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def end(process: Process, *, timeout: float = PATIENCE) -> Ran:
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGCONT)
        process.kill()
        out, err = process.communicate()
        raise AssertionError(f"it did not end in {timeout} s: {out}\n{err}") from None
    assert process.returncode is not None
    return Ran(process.returncode, out, err)


def shell(*words: object, env: dict[str, str] | None = None, prefix: Sequence[str] = ()) -> Ran:
    return end(start_afresh(*words, env=env, prefix=prefix) if prefix else start(*words, env=env))


def until(
    true: Callable[[], object],
    *,
    seconds: float = PATIENCE,
    every: float = 0.05,
    tell: Callable[[], object] = str,
) -> None:
    """Wait until `true()`; `tell()` is added to the message if it takes too long."""
    limit = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < limit, f"not in {seconds} s {tell()}"
        time.sleep(every)


@dataclass(frozen=True)
class Database:
    """A database for one test, to read from or to write to."""

    engine: str
    connection: str
    """The YAML of this database under `connections:`."""
    home: str
    """The prefix of a table's name in a flow's name: `public.`, `db_1.` or nothing."""
    _connect: Callable[[], Any] = field(repr=False)

    def execute(self, *statements: str) -> None:
        with closing(self._connect()) as connection:
            cursor = connection.cursor()
            for statement in statements:
                cursor.execute(statement)
            connection.commit()

    def insert(self, table: str, rows: Sequence[Sequence[object]]) -> None:
        mark = "?" if self.engine in ("sqlite", "duckdb") else "%s"
        marks = ", ".join([mark] * len(rows[0]))
        with closing(self._connect()) as connection:
            name = table if mark == "?" else table.replace("%", "%%")
            connection.cursor().executemany(f"INSERT INTO {name} VALUES ({marks})", rows)
            connection.commit()

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with closing(self._connect()) as connection:
            cursor = connection.cursor()
            cursor.execute(query)
            return [tuple(row) for row in cursor.fetchall()]

    def connect(self) -> Any:
        return self._connect()

    def quote(self, name: str) -> str:
        mark = "`" if self.engine == "mysql" else '"'
        return mark + name.replace(mark, mark * 2) + mark

    @property
    def moment(self) -> str:
        """The SQL type of a timestamp column."""
        return {
            "sqlite": "TEXT",
            "mysql": "DATETIME(6)",
            "postgresql": "TIMESTAMP(6)",
            "duckdb": "TIMESTAMP",
            "snowflake": "TIMESTAMP_NTZ",
        }[self.engine]

    @property
    def word(self) -> str:
        return "VARCHAR(60)" if self.engine == "mysql" else "TEXT"

    def ago(self, seconds: int) -> str:
        """Make SQL for the time so many seconds ago on the database's clock, in UTC."""
        return {
            "sqlite": f"strftime('%Y-%m-%d %H:%M:%S', 'now', '-{seconds} seconds')",
            "mysql": f"utc_timestamp(6) - INTERVAL {seconds} SECOND",
            "postgresql": f"(clock_timestamp() AT TIME ZONE 'UTC') - INTERVAL '{seconds} seconds'",
            "duckdb": f"(now() AT TIME ZONE 'UTC') - INTERVAL '{seconds} seconds'",
            "snowflake": f"DATEADD(second, -{seconds}, SYSDATE())",
        }[self.engine]


def sqlite_database(file: Path) -> Database:
    return Database(
        "sqlite", f"{{type: sqlite, path: '{file}'}}", "", lambda: sqlite3.connect(file, timeout=30)
    )


def mysql_database(server: MariaDB, *, password: str = "${env:TG_MYSQL}") -> Database:
    os.environ["TG_MYSQL"] = server.password
    name = server.create_database()
    text = (
        f"{{type: mysql, host: {server.host}, port: {server.port}, database: {name}, user: {server.user},"
        f' password: "{password}"}}'
    )
    return Database("mysql", text, f"{name}.", lambda: server.connect(name))


def postgres_database(server: Postgres, *, password: str = "${env:TG_POSTGRES}") -> Database:
    os.environ["TG_POSTGRES"] = server.password
    name = server.create_database()
    text = (
        f"{{type: postgresql, host: {server.host}, port: {server.port}, database: {name},"
        f' user: {server.user}, password: "{password}"}}'
    )
    return Database("postgresql", text, "public.", lambda: server.connect(name))


class _DuckDBConnection:
    """A DuckDB connection with the methods of other drivers. DuckDB's cursor would be a new connection."""

    def __init__(self, file: Path) -> None:
        self._connection = duckdb.connect(str(file))

    def cursor(self) -> duckdb.DuckDBPyConnection:
        return self._connection

    def commit(self) -> None:
        """Do nothing: DuckDB commits every statement by itself."""

    def close(self) -> None:
        self._connection.close()


def duckdb_database(file: Path) -> Database:
    return Database("duckdb", f"{{type: duckdb, path: '{file}'}}", "main.", lambda: _DuckDBConnection(file))


def snowflake_database(server: SnowflakeServer) -> Database:
    os.environ["TG_SNOWFLAKE"] = "snow secret"
    schema = server.create_schema()
    text = (
        f"{{type: snowflake, account: test, user: tester, database: {DATABASE}, schema: {schema},"
        f" options: {{host: 127.0.0.1, port: {server.port}, protocol: http}},"
        ' password: "${env:TG_SNOWFLAKE}"}'
    )
    return Database("snowflake", text, f"{schema}.", lambda: server.connect(schema))


def s3_lake(s3: S3) -> tuple[str, Lake]:
    os.environ["TG_S3_KEY"], os.environ["TG_S3_SECRET"] = s3.access_key, s3.secret_key
    bucket = s3.create_bucket()
    text = (
        f"{{type: parquet, path: 's3a://{bucket}/raw', endpoint: '{s3.endpoint}', region: {s3.region},"
        " access_key: '${env:TG_S3_KEY}', secret_key: '${env:TG_S3_SECRET}'}"
    )
    return text, S3Lake(s3, bucket, "raw")


@dataclass
class Project:
    """A folder with a `tidegauge.yml`; by default the lake and the ledger are in it too."""

    folder: Path
    database: Database
    lake: Lake
    lake_text: str = "{type: parquet, path: lake}"
    ledger: str = "sqlite:///ledger.db"
    top: str = ""
    """More keys at the top of the file, such as `lease: 3s`."""
    route: str = "to: lake"
    connections: str = ""
    """More connections, a line each: `  warehouse: {type: duckdb, path: warehouse.duckdb}`."""

    def write(self, *syncs: str, **changes: str) -> Project:
        """Write the file; `syncs` are the bodies of `sync:` entries without `from` and the route."""
        for name, value in changes.items():
            setattr(self, name, value)
        entries = "".join(f"  - {{from: app, {self.route}, {body}}}\n" for body in syncs)
        self.file.write_text(
            f"pipeline: test\nledger: '{self.ledger}'\n{self.top}\n"
            f"connections:\n  app: {self.database.connection}\n  lake: {self.lake_text}\n"
            f"{self.connections}sync:\n{entries}",
            encoding="utf-8",
        )
        return self

    @property
    def file(self) -> Path:
        return self.folder / "tidegauge.yml"

    @property
    def ledger_file(self) -> Path:
        return self.folder / "ledger.db"

    def name(self, table: str) -> str:
        """Return the flow's name, which is also the name of its folder as long as it is a plain word."""
        return f"{self.database.home}{table}"

    def here(self, *words: object) -> Ran:
        return here(*words, "--project", self.file)

    def start(self, *words: object, env: dict[str, str] | None = None) -> Forked:
        return start(*words, "--project", self.file, env=env)

    def shell(self, *words: object, env: dict[str, str] | None = None, prefix: Sequence[str] = ()) -> Ran:
        return shell(*words, "--project", self.file, env=env, prefix=prefix)

    def traces(self) -> dict[str, bytes]:
        """Read every file below the folder, to check that a command changes nothing."""
        return {
            str(path.relative_to(self.folder)): path.read_bytes()
            for path in sorted(self.folder.rglob("*"))
            if path.is_file()
        }


def local(folder: Path, database: Database) -> Project:
    return Project(folder, database, LocalLake(folder / "lake"))


@contextmanager
def unchanged(project: Project) -> Iterator[None]:
    """Check that the block changes neither the lake nor any watermark or plan in the ledger."""

    def facts() -> object:
        lake = {name: body for name, body in project.traces().items() if name.startswith("lake/")}
        if not project.ledger_file.is_file():
            return lake, None
        with closing(sqlite3.connect(f"file:{project.ledger_file}?mode=ro", uri=True)) as ledger:
            try:
                marks = ledger.execute("SELECT flow, position, seq FROM watermarks ORDER BY 1").fetchall()
                plans = ledger.execute("SELECT * FROM plans ORDER BY 1").fetchall()
            except sqlite3.OperationalError:
                return lake, None
        return lake, (marks, plans) if marks or plans else None

    before = facts()
    yield
    assert facts() == before


def refused(ran: Ran, *words: str, code: int = 1) -> str:
    """Check for one error line, one hint, the exit code and no stack trace; return the error line."""
    assert ran.code == code, ran.said
    for trace in TRACES:
        assert trace not in ran.out + ran.err, ran.said
    errors = [line for line in ran.err.splitlines() if line.startswith("error: ")]
    hints = [line for line in ran.err.splitlines() if line.startswith(" hint: ")]
    assert len(errors) == 1, ran.said
    assert len(hints) == 1, ran.said
    for word in words:
        assert word in errors[0] + hints[0], ran.said
    return errors[0]
