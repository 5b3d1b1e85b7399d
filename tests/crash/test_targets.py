"""What somebody else does to a target, or a kill, between two runs; and that it is never passed over."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.crash.houses import Build, House
from tests.support.nursery import Kill, Nursery
from tests.support.project import refused
from tidegauge.run.steps import Step

pytestmark = pytest.mark.timeout(300)

SYNC = "tables: [t], cursor: version, batch_rows: 2"
WHY = ("--reason", "a test", "--yes")
TARGETS = [
    ("local", "duckdb"),
    ("", "sqlite"),
    pytest.param("local", "postgresql", marks=pytest.mark.long),
    pytest.param("", "mysql", marks=pytest.mark.long),
]


def run(house: House, *words: str, code: int = 0) -> None:
    ran = house.here("run", *words)
    assert ran.code == code, ran.said


def refresh(house: House) -> None:
    run(house, "--select", house.load, "--full-refresh", *WHY)


def equal(house: House) -> None:
    assert house.landed() == house.source()
    assert house.here("verify").code == 0
    assert house.here("health").code == 0


@pytest.mark.parametrize(("lake", "target"), TARGETS)
def test_d9_a_dropped_target_is_refused_whether_or_not_there_is_anything_new(
    build: Build, lake: str, target: str
) -> None:
    house = build("sqlite", lake, target).write(SYNC)
    house.change(4, 0)
    run(house)
    house.target.execute("DROP TABLE t")
    for _ in range(2):
        said = refused(house.here("run"), "is gone", f"tidegauge run --select {house.load} --full-refresh")
        assert house.load in said
        planned = house.here("plan", "--json")
        assert (planned.code, planned.flow(house.load)["state"]) == (1, "FAILED"), planned.said
        health = house.here("health", "--json")
        assert health.code == 1, health.said
        assert "is gone" in health.out
        house.change(1, 0)
    refresh(house)
    run(house)
    equal(house)


@pytest.mark.parametrize(("lake", "target"), TARGETS)
def test_d9_a_target_dropped_after_a_kill_is_not_filled_with_the_rest(
    build: Build, nursery: Nursery, lake: str, target: str
) -> None:
    house = build("sqlite", lake, target).write(SYNC)
    house.change(5, 0)
    killed = nursery.run(house.file, Kill(house.load, "before", Step.PUBLISH, 2))
    assert killed.code == -9, killed
    house.target.execute("DROP TABLE t")
    for _ in range(2):
        refused(house.here("run"), "is gone", "--full-refresh")
        assert house.here("health").code == 1
    refresh(house)
    equal(house)


def test_d9_a_target_that_is_gone_with_its_tags_is_refused(build: Build, tmp_path: Path) -> None:
    house = build("sqlite", "local", "duckdb").write(SYNC)
    house.change(4, 0)
    run(house)
    (tmp_path / "target.duckdb").unlink()
    for word in ("run", "plan"):
        refused(house.here(word), "does not have it", f"run --select {house.load} --full-refresh")
    assert house.here("health").code == 1
    refresh(house)
    equal(house)


def test_d9_a_lake_that_is_gone_is_refused(build: Build, tmp_path: Path) -> None:
    house = build("sqlite", "local", "duckdb").write(SYNC)
    house.change(4, 0)
    run(house)
    (tmp_path / "lake").rename(tmp_path / "away")
    refused(house.here("run"), "does not have it", "run --select t --full-refresh")
    assert house.here("health").code == 1
    old = house.landed()
    refused(house.here("run", "--select", house.load, "--full-refresh", *WHY), "is left as it is")
    assert house.landed() == old
    run(house, "--select", "t", "--full-refresh", *WHY)
    equal(house)


def test_d9_a_backfill_brings_back_the_part_that_is_asked_for(build: Build) -> None:
    house = build("sqlite", "", "sqlite").write(SYNC)
    house.change(4, 0)
    run(house)
    house.target.execute("DROP TABLE t")
    ran = house.here("backfill", "-t", "t", "--from", "3", *WHY)
    assert ran.code == 0, ran.said
    assert house.landed() == house.source()[2:]
    house.change(1, 0)
    run(house)
    assert house.landed() == house.source()[2:]


@pytest.mark.parametrize(("lake", "target"), TARGETS)
def test_d9_another_mode_is_refused_with_the_command_that_does_it_right(
    build: Build, lake: str, target: str
) -> None:
    house = build("sqlite", lake, target).write(SYNC)
    house.change(4, 0)
    run(house)
    house.write(f"{SYNC}, mode: scd2")
    for word in ("run", "plan"):
        said = refused(house.here(word), f"run --select {house.load} --full-refresh")
        assert "was filled in mode merge" in said
    assert house.here("health").code == 1
    house.change(0, 2)
    refused(house.here("run"), "--full-refresh")
    refresh(house)
    assert len(house.landed()) == (6 if lake else 4), "a lake has each version of a row, a source one"
    house.change(0, 1)
    run(house)
    equal_now = house.target.rows("SELECT id, version, word FROM t WHERE valid_to IS NULL")
    assert sorted(equal_now) == house.source()
    assert len(house.landed()) == (7 if lake else 5)
    house.write(SYNC)
    refused(house.here("run"), "was filled in mode scd2")
    refresh(house)
    equal(house)


@pytest.mark.parametrize(("lake", "target"), TARGETS)
def test_d12_an_emptied_source_empties_what_overwrites_once_it_was_asked(
    build: Build, nursery: Nursery, lake: str, target: str
) -> None:
    house = build("sqlite", lake, target).write(f"{SYNC}, mode: overwrite")
    house.change(5, 0)
    run(house)
    house.database.execute("DELETE FROM t WHERE id IN (1, 3)")
    run(house)
    equal(house)
    house.database.execute("DELETE FROM t")
    for _ in range(2):
        refused(house.here("run"), "3 of 3 rows", "--confirm-deletes")
        assert len(house.landed()) == 3
    killed = nursery.run(house.file, Kill(house.load, "within", Step.PUBLISH), confirm_deletes=True)
    assert killed.code == -9, killed
    assert len(house.landed()) == 3
    run(house, "--confirm-deletes")
    assert house.landed() == []
    run(house)
    house.change(2, 0)
    run(house)
    equal(house)


def test_d12_rows_that_are_too_young_do_not_make_a_source_empty(build: Build) -> None:
    house = build("sqlite", "", "sqlite").write("tables: [t], cursor: at, mode: overwrite, settle: 1h")
    house.database.execute("ALTER TABLE t ADD COLUMN at TEXT", "CREATE INDEX by_at ON t (at, id)")
    house.change(2, 0)
    house.database.execute("UPDATE t SET at = '2025-01-01 00:00:00'")
    run(house)
    house.database.execute(f"UPDATE t SET at = {house.database.ago(1)}")
    run(house)
    assert len(house.landed()) == 2


def test_d12_a_limit_never_makes_a_part_of_the_table_the_whole_of_it(build: Build) -> None:
    house = build("sqlite", "", "sqlite").write(f"{SYNC}, mode: overwrite")
    house.change(5, 0)
    run(house)
    run(house, "--limit", "2")
    equal(house)


# --- D11


def manifest(house: House, tmp_path: Path) -> Path:
    [first, *_] = sorted((tmp_path / "lake" / "t" / "_tidegauge" / "0").glob("*.json"))
    return first


@pytest.mark.parametrize("damage", ["file gone", "file shorter", "manifest gone", "manifest edited"])
def test_d11_a_load_looks_first_whether_the_lake_can_fill_the_target(
    build: Build, tmp_path: Path, damage: str
) -> None:
    house = build("sqlite", "local", "duckdb").write(SYNC)
    house.change(5, 0)
    run(house)
    written = manifest(house, tmp_path)
    body = json.loads(written.read_text())
    data = tmp_path / "lake" / "t" / body["files"][0]["path"]
    match damage:
        case "file gone":
            data.unlink()
        case "file shorter":
            data.write_bytes(data.read_bytes()[:-1])
        case "manifest gone":
            written.unlink()
        case _:
            written.write_text(json.dumps({**body, "rows": 99}))
    old, marks = house.landed(), house.marks()
    said = refused(
        house.here("run", "--select", house.load, "--full-refresh", *WHY), "run --select t --full-refresh"
    )
    assert "is left as it is" in said
    assert (house.landed(), house.marks()) == (old, marks), "nothing was begun"
    dry = house.here("run", "--select", house.load, "--full-refresh", "--dry-run")
    assert "is left as it is" in dry.out, dry.said
    run(house, "--select", "t", "--full-refresh", *WHY)
    equal(house)


@pytest.mark.parametrize("damage", ["table", "column", "database"])
@pytest.mark.parametrize("lake", ["", "local"])
def test_d11_who_reads_the_source_looks_first_whether_it_answers(
    build: Build, tmp_path: Path, damage: str, lake: str
) -> None:
    house = build("sqlite", lake, "sqlite").write(SYNC)
    house.change(5, 0)
    run(house)
    match damage:
        case "table":
            house.database.execute("ALTER TABLE t RENAME TO away")
        case "column":
            house.database.execute("DROP INDEX by_version", "ALTER TABLE t RENAME COLUMN version TO v")
        case _:
            (tmp_path / "source.db").rename(tmp_path / "away.db")
    old, marks = house.landed(), house.marks()
    ran = house.here("run", "--select", "t", "--full-refresh", *WHY)
    assert ran.code in (1, 2), ran.said
    assert (house.landed(), house.marks()) == (old, marks), "nothing was begun"


def test_d11_a_refresh_keeps_the_old_rows_while_the_new_ones_are_too_young(build: Build) -> None:
    house = build("sqlite", "local", "duckdb").write("tables: [t], cursor: at, settle: 1h")
    house.database.execute("ALTER TABLE t ADD COLUMN at TEXT", "CREATE INDEX by_at ON t (at, id)")
    house.change(2, 0)
    house.database.execute("UPDATE t SET at = '2025-01-01 00:00:00'")
    run(house)
    house.database.execute(f"UPDATE t SET at = {house.database.ago(1)}")
    for _ in range(2):
        run(house, "--select", "t", "--full-refresh", *WHY)
        assert len(house.landed()) == 2


def test_d11_a_refresh_of_an_emptied_source_empties_lake_and_target(build: Build) -> None:
    house = build("sqlite", "local", "duckdb").write(SYNC)
    house.change(5, 0)
    run(house)
    house.database.execute("DELETE FROM t")
    run(house, "--select", "t", "--full-refresh", *WHY)
    assert house.landed() == []
    run(house)
    house.change(3, 0)
    run(house)
    equal(house)
