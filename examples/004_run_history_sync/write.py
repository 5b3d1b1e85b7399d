"""Pipelines that write their run history: some begin, some end, some fail. `python write.py [SECONDS]`"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable

import psycopg

Execute = Callable[[str], object]
TABLE = "ETL_PIPELINE_RUN_HISTORY_LOG"


def write(execute: Execute, step: int, *, now: str = "LOCALTIMESTAMP") -> None:
    """Five runs begin, and of those before them some end; each statement is a transaction."""
    first = step * 5
    values = ", ".join(f"({first + n}, 'pipeline {n}', 'RUNNING', NULL, NULL, {now})" for n in range(5))
    execute(f"INSERT INTO {TABLE} VALUES {values}")
    execute(
        f"UPDATE {TABLE} SET RUN_STATUS = 'SUCCESS', ROWS_READ = PIPELINE_RUN_ID * 10,"
        f" LAST_UPDATE_DATE = {now} WHERE RUN_STATUS = 'RUNNING'"
        f" AND PIPELINE_RUN_ID < {first} AND PIPELINE_RUN_ID >= {first - 4}"
    )
    execute(
        f"UPDATE {TABLE} SET RUN_STATUS = 'FAILED', ERROR_MESSAGE = 'no space left', LAST_UPDATE_DATE = {now}"
        f" WHERE PIPELINE_RUN_ID = {first - 5}"
    )


def main(seconds: float) -> None:
    names = {"host": "OPS_HOST", "port": "OPS_PORT", "dbname": "OPS_DATABASE", "user": "OPS_USER"}
    login = {name: os.environ[variable] for name, variable in names.items()}
    with psycopg.connect(**login, password=os.environ["OPS_PASSWORD"], autocommit=True) as connection:
        connection.execute("SET TIME ZONE 'UTC'")
        [(last,)] = connection.execute(f"SELECT COALESCE(MAX(PIPELINE_RUN_ID), -1) FROM {TABLE}").fetchall()
        end, step = time.monotonic() + seconds, last // 5 + 1
        while time.monotonic() < end:
            write(connection.execute, step)
            step += 1
            time.sleep(1)


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 60)
