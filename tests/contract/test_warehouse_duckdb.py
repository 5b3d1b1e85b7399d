"""What is DuckDB's own: one file, opened and closed by the threads of one run."""

from __future__ import annotations

import threading
from pathlib import Path

from tidegauge.model.spec import Database, Engine
from tidegauge.outputs.warehouse.duckdb.warehouse import DuckDB


def test_threads_open_and_close_one_file_without_getting_in_each_others_way(tmp_path: Path) -> None:
    """DuckDB answers `Unique file handle conflict` to who opens a file that is just being closed."""
    house = DuckDB(Database("dw", Engine.DUCKDB, path=tmp_path / "dw.duckdb"))
    failures: list[Exception] = []

    def come_and_go() -> None:
        try:
            for _ in range(60):
                session = house.connect()
                assert session.rows("SELECT 1") == [(1,)]
                session.close()
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=come_and_go) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
