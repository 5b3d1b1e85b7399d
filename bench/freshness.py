"""How far the bound is behind MariaDB's clock while others write, against the oldest transaction's start."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta

from tests.support.servers import MariaDB, start_mariadb

from bench.result import Result
from bench.timing import Stopwatch
from tidegauge.model.secret import Secret
from tidegauge.model.spec import Database, Engine, TableName, TableOptions
from tidegauge.sources.open import open_source

GOAL = 1.0
_WRITERS = 8
_TIMES = 15
_MILLISECONDS = (5, 100, 2000)
_TABLE = (
    "CREATE TABLE t (id bigint AUTO_INCREMENT PRIMARY KEY, note varchar(9),"
    " at timestamp(6) NOT NULL DEFAULT current_timestamp(6), KEY (at))"
)


def measure() -> list[Result]:
    with start_mariadb() as server:
        return [_measure_one(server, length) for length in _MILLISECONDS]


def _measure_one(server: MariaDB, milliseconds: int) -> Result:
    name = server.create_database()
    database = Database(
        "app",
        Engine.MYSQL,
        host=server.host,
        port=server.port,
        database=name,
        user=server.user,
        password=Secret(server.password),
    )
    options = TableOptions(cursor="at", settle=timedelta(0))
    behind, starts, took = [], [], []
    with closing(server.connect(name)) as control, control.cursor() as cursor:
        cursor.execute(_TABLE)
        with _writers(server, name, milliseconds / 1000):
            for _ in range(_TIMES):
                # A new source each time, because each process opens a new one.
                source = open_source(database)
                source_table = source.describe(TableName(name, "t"), options)
                cursor.execute(
                    "SELECT TIMESTAMPDIFF(MICROSECOND, MIN(trx_started), NOW(6)) FROM"
                    " information_schema.INNODB_TRX"
                )
                ((oldest,),) = cursor.fetchall()
                watch = Stopwatch()
                with watch.running():
                    survey = source.survey(source_table, None, 10**9, None)
                source.close()
                took.append(watch.seconds)
                # `trx_started` has whole seconds, so the bound is taken one second earlier.
                starts.append((oldest or 0) / 1e6 + 1)
                if survey.upto is not None:
                    reached = datetime.fromisoformat(survey.upto.cursor.text).replace(tzinfo=UTC)
                    behind.append((datetime.now(UTC) - reached).total_seconds())
                time.sleep(0.3)
    return Result(
        name=f"how far the bound is behind, {_WRITERS} writers of {milliseconds} ms transactions",
        ours=statistics.median(behind),
        reference=statistics.median(starts),
        goal=GOAL if milliseconds < 1000 else None,
        unit="s",
        against="the start of the oldest open transaction, which can pass by rows of statements that waited",
        more={"survey_ms": round(1000 * statistics.median(took)), "bounds": len(behind), "times": _TIMES},
    )


@contextmanager
def _writers(server: MariaDB, name: str, seconds: float) -> Iterator[None]:
    over = threading.Event()

    def write() -> None:
        with closing(server.connect(name)) as connection, connection.cursor() as cursor:
            connection.autocommit(False)
            while not over.is_set():
                cursor.execute("INSERT INTO t (note) VALUES ('x')")
                time.sleep(seconds)
                connection.commit()

    with ThreadPoolExecutor(_WRITERS) as pool:
        writers = [pool.submit(write) for _ in range(_WRITERS)]
        try:
            time.sleep(1)
            yield
        finally:
            over.set()
        for writer in writers:
            writer.result()
