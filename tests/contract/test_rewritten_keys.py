"""A19: a key that is rewritten within its collation is the same key to its source, and another to a target
that compares bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract.test_without_cursor import Shop, make_database
from tests.support.project import mysql_database
from tests.support.servers import MariaDB

REWRITES = ("UPPER(code)", "CONCAT(code, ' ')")


@pytest.mark.shown_on("blanks-mysql", "case-mysql")
@pytest.mark.parametrize("target", ["postgresql", "mysql", pytest.param("duckdb", marks=pytest.mark.long)])
@pytest.mark.parametrize("rewrite", REWRITES, ids=["case", "blanks"])
def test_a19_the_old_spelling_is_extra_until_deletes_takes_it_away(
    request: pytest.FixtureRequest, mariadb: MariaDB, tmp_path: Path, target: str, rewrite: str
) -> None:
    shop = Shop(tmp_path, mysql_database(mariadb), make_database(target, request, tmp_path / "copy"))
    shop.app.execute(
        "CREATE TABLE t (code VARCHAR(20) COLLATE utf8mb4_general_ci PRIMARY KEY, seen DATETIME NOT NULL)",
        "INSERT INTO t SELECT CONCAT('k', seq), '2025-01-01' FROM seq_1_to_100",
    )
    shop.write("t", more=", cursor: seen")
    assert shop.run() == {"t": ("SUCCESS", 100, 100, 0, 0)}
    shop.app.execute(f"UPDATE t SET code = {rewrite}, seen = '2025-01-02' WHERE code LIKE 'k1%'")
    assert shop.run() == {"t": ("SUCCESS", 12, 12, 0, 0)}
    found = shop.verify(code=1)["t"]
    assert (found["missing"], found["extra"], found["different"]) == (0, 12, 0)
    shop.write("t", more=", cursor: seen, deletes: hard")
    assert shop.run() == {"t": ("SUCCESS", 0, 0, 0, 12)}
    assert shop.verify()["t"]["equal"]
    # And where it is asked for from the beginning, one run does both.
    shop.app.execute(
        "UPDATE t SET code = REPLACE(code, 'k2', 'K2'), seen = '2025-01-03' WHERE code LIKE 'k2%'"
    )
    assert shop.run() == {"t": ("SUCCESS", 11, 11, 0, 11)}
    codes = "SELECT code FROM t"
    assert sorted(shop.copy.rows(codes)) == sorted(shop.app.rows(codes))
