"""`files compact`: whatever is done to a table before or after it, each row is there, and once."""

from __future__ import annotations

from typing import Any

import duckdb
import pytest

from tests.integration.conftest import Make
from tests.integration.test_clean import EVERY, NOW, OPTIONS, WHY, done, landed, made, parquet
from tests.support.lake import latest, rows
from tests.support.project import Project, refused, until

NEW = (7, 70, "2025-02-01 00:00:00")


@pytest.fixture
def project(make: Make) -> Project:
    return made(make())


def compacted(project: Project, *words: str) -> dict[str, Any]:
    """Compact, with the same rows in the lake before and after for a stranger, old and new."""
    before = rows(project.lake, "orders")
    [table] = done(project, "files", "compact", "-t", "orders", *words, *WHY).json["tables"]
    assert isinstance(table, dict)
    assert rows(project.lake, "orders") == before
    return table


def swept(project: Project) -> None:
    """The small files are gone."""
    before = rows(project.lake, "orders")

    def cleaned() -> bool:
        done(project, "files", "clean", "-t", "orders", *NOW, *WHY)
        [listed] = done(project, "files", "list", "-t", "orders").json["tables"]
        assert listed["missing"] == listed["leftovers"] == listed["removed"] == []
        return not listed["replaced"]

    until(cleaned)  # S3 counts whole seconds
    assert rows(project.lake, "orders") == before


def check_whole(project: Project, expected: dict[int, int]) -> None:
    assert landed(project) == expected
    assert done(project, "verify").json["tables"][0]["equal"]
    assert {key: row["total"] for (key,), row in latest(project.lake, "orders", "id").items()} == expected


@pytest.mark.shown_on("local")
@pytest.mark.parametrize("output", ["local", "s3"])
def test_batches_that_every_load_has_passed_become_one_file_and_load_again(make: Make, output: str) -> None:
    project = made(make("sqlite", output))
    done(project, "run", "--stage", "extract")
    said = project.here("files", "compact", "-t", "orders", "--dry-run")
    assert "orders/load has yet to read them" in said.out, said.said
    assert "nothing to compact" in said.out
    done(project, "run", "--stage", "load")
    project.database.insert("orders", [NEW])
    done(project, "run", "--stage", "extract")
    said = project.here("files", "compact", "-t", "orders", "--dry-run")
    assert "orders/extract: batches 0/1-3: 3 files, 6 rows" in said.out, said.said
    assert parquet(project) == 4
    refused(project.here("files", "compact", "-t", "orders", "--yes"), "reason", code=2)
    refused(project.here("files", "compact", "-t", "orders", "--target-size", "0MB"), "is not a size", code=2)
    [group] = compacted(project)["groups"]
    assert (group["first_seq"], group["last_seq"], group["files"], len(group["written"])) == (1, 3, 3, 1)
    event = done(project, "history", "--limit", "1").json["events"][0]
    assert (event["event"], event["reason"]) == ("files_compacted", "spring")
    listed = project.here("files", "list", "-t", "orders").out
    assert "0/1-3" in listed
    assert listed.count("replaced") == 3
    swept(project)
    assert parquet(project) == 2
    done(project, "run")
    check_whole(project, EVERY | {7: 70})
    done(project, "watermark", "reset", "--stage", "load", "-t", "orders", *WHY)
    done(project, "run")
    check_whole(project, EVERY | {7: 70})
    assert done(project, "verify", "--stage", "extract").json["tables"][0]["equal"]


def test_an_appending_load_that_is_filled_anew_has_each_row_once(make: Make) -> None:
    project = made(make(), f"{OPTIONS}, mode: append")
    done(project, "run")
    compacted(project)
    swept(project)
    done(project, "run", "--stage", "load", "--full-refresh", *WHY)
    project.database.insert("orders", [NEW])
    done(project, "run")
    with duckdb.connect(str(project.folder / "warehouse.duckdb"), read_only=True) as connection:
        found = connection.execute("SELECT id, count(*) FROM orders GROUP BY id ORDER BY id").fetchall()
    assert found == [(n, 1) for n in range(1, 8)]


def test_a_watermark_in_the_middle_reads_only_what_is_after_it(make: Make) -> None:
    project = made(make(), f"{OPTIONS}, mode: append")
    done(project, "run")
    compacted(project)
    swept(project)
    done(project, "watermark", "set", "--stage", "load", "-t", "orders", "--position", "2", "--force", *WHY)
    done(project, "run")
    with duckdb.connect(str(project.folder / "warehouse.duckdb"), read_only=True) as connection:
        found = dict(connection.execute("SELECT id, count(*) FROM orders GROUP BY id").fetchall())
    assert found == {1: 1, 2: 1, 3: 1, 4: 1, 5: 2, 6: 2}, "the third batch again, and nothing before it"


def test_the_newest_version_of_a_row_wins_also_inside_a_compacted_file(project: Project) -> None:
    done(project, "run")
    for total in (1, 2, 3):
        project.database.execute(
            f"UPDATE orders SET total = {total}, at = '2025-03-0{total} 00:00:00' WHERE id = 2"
        )
        done(project, "run")
    compacted(project)
    swept(project)
    done(project, "run", "--stage", "load", "--full-refresh", *WHY)
    check_whole(project, EVERY | {2: 3})
    assert done(project, "verify", "--stage", "extract").json["tables"][0]["equal"]


def test_columns_that_came_later_are_read_as_they_were(project: Project) -> None:
    done(project, "run")
    project.database.execute("ALTER TABLE orders ADD COLUMN word TEXT")
    for n in (7, 8):
        project.database.insert("orders", [(n, n * 10, f"2025-02-0{n} 00:00:00", f"w{n}")])
        done(project, "run")
    groups = compacted(project)["groups"]
    assert [(one["first_seq"], one["last_seq"]) for one in groups] == [(1, 3), (4, 5)]
    swept(project)
    done(project, "run", "--stage", "load", "--full-refresh", *WHY)
    check_whole(project, EVERY | {7: 70, 8: 80})
    assert done(project, "verify", "--stage", "extract").json["tables"][0]["equal"]


def test_a_ledger_that_is_rebuilt_goes_on(project: Project) -> None:
    done(project, "run")
    compacted(project)
    swept(project)
    project.ledger_file.unlink()
    ran = project.here("ledger", "rebuild", *WHY)
    assert ran.code == 0, ran.said
    assert "cleaned away" not in ran.out + ran.err
    project.database.insert("orders", [NEW])
    done(project, "run")
    check_whole(project, EVERY | {7: 70})


def test_a_reset_and_its_undo_find_what_was_compacted_before(project: Project) -> None:
    done(project, "run")
    compacted(project)
    swept(project)
    done(project, "watermark", "reset", "-t", "orders", "--stage", "extract", *WHY)
    done(project, "watermark", "undo", "-t", "orders", "--stage", "extract", *WHY)
    project.database.insert("orders", [NEW])
    done(project, "run")
    check_whole(project, EVERY | {7: 70})
    done(project, "run", "--stage", "load", "--full-refresh", *WHY)
    check_whole(project, EVERY | {7: 70})
    done(project, "run", "--full-refresh", *WHY)
    check_whole(project, EVERY | {7: 70})
    done(project, "files", "clean", "-t", "orders", *NOW, "--earlier-epochs", *WHY)
    assert not any(name.startswith("compacted/") for name in project.lake.names("orders"))
    check_whole(project, EVERY | {7: 70})


def test_what_is_cleaned_away_after_it_was_compacted_is_said(project: Project) -> None:
    done(project, "run")
    compacted(project)
    done(project, "files", "clean", "-t", "orders", *NOW, "--loaded", *WHY)
    assert parquet(project) == 0
    stopped = project.here("run", "--stage", "load", "--full-refresh", *WHY)
    assert stopped.code == 1
    assert "cleaned away" in stopped.err
    project.database.insert("orders", [NEW])
    done(project, "run")
    assert landed(project) == EVERY | {7: 70}


def test_of_a_table_that_is_read_whole_only_the_last_reading_is_compacted(make: Make) -> None:
    project = made(make(), f"{OPTIONS}, mode: overwrite")
    done(project, "run")
    project.database.insert("orders", [NEW])
    done(project, "run")
    [group] = compacted(project)["groups"]
    assert (group["first_seq"], group["last_seq"], group["files"]) == (2, 2, 4)
    swept(project)
    done(project, "run", "--stage", "load", "--full-refresh", *WHY)
    assert landed(project) == EVERY | {7: 70}


def test_rows_are_checked_that_come_out_of_a_compacted_file(make: Make) -> None:
    project = made(make(), f"{OPTIONS}, expect: {{'total < 50': {{action: quarantine}}}}")
    ran = project.here("run", "--json")
    assert ran.code in (0, 3), ran.said
    compacted(project)
    swept(project)
    again = project.here("run", "--stage", "load", "--full-refresh", *WHY)
    assert again.code in (0, 3), again.said
    assert landed(project) == {n: n * 10 for n in range(1, 5)}


def test_a_warehouse_that_comes_long_after_gets_everything(project: Project) -> None:
    done(project, "run")
    compacted(project)
    swept(project)
    project.file.write_text(project.file.read_text().replace("warehouse.duckdb", "other.duckdb"))
    done(project, "watermark", "reset", "--stage", "load", "-t", "orders", *WHY)
    done(project, "run")
    with duckdb.connect(str(project.folder / "other.duckdb"), read_only=True) as connection:
        assert dict(connection.execute("SELECT id, total FROM orders").fetchall()) == EVERY


def test_a_lake_that_nobody_loads_is_compacted_up_to_its_end(make: Make) -> None:
    project = make()
    project.database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, at TEXT NOT NULL)")
    project.database.insert("orders", [(n, f"2025-01-0{n} 12:00:00") for n in range(1, 7)])
    project.write("tables: [orders], cursor: at, settle: 1s, batch_rows: 2, parallel: 1")
    done(project, "run")
    [group] = compacted(project)["groups"]
    assert (group["first_seq"], group["last_seq"], group["rows"]) == (1, 3, 6)
    swept(project)
    assert done(project, "verify").json["tables"][0]["equal"]
