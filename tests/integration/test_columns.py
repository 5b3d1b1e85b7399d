"""Columns that are left out or masked, and rows that a filter leaves behind, from the source to every end."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyspark.sql import SparkSession

from tests.integration.conftest import Make
from tests.support.project import Project, Ran, postgres_database, refused
from tests.support.servers import Postgres

SALT = "a salt that nobody knows"
WAREHOUSE = "  warehouse: {type: duckdb, path: warehouse.duckdb}\n"
OPTIONS = "tables: [people], cursor: at, settle: 1s"
WHY = ("--reason", "tried in a test", "--yes")
PEOPLE = [
    (1, "ann@canary.org", "111-canary", "EU", "2025-01-01 00:00:00"),
    (2, "bob@canary.org", "222-canary", "US", "2025-01-02 00:00:00"),
    (3, None, "333-canary", "EU", "2025-01-03 00:00:00"),
]


@pytest.fixture(autouse=True)
def salted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TG_SALT", SALT)


def people(project: Project) -> Project:
    word = project.database.word
    project.database.execute(
        f"CREATE TABLE people (id INTEGER PRIMARY KEY, email {word}, ssn {word}, region {word},"
        f" at {project.database.moment} NOT NULL)"
    )
    project.database.insert("people", PEOPLE)
    return project


def sha256(text: str) -> str:
    return hashlib.sha256((SALT + text).encode()).hexdigest()


def query(project: Project, sql: str) -> list[tuple[Any, ...]]:
    with duckdb.connect(str(project.folder / "warehouse.duckdb"), read_only=True) as connection:
        return connection.execute(sql).fetchall()


def done(project: Project, *words: str, code: int = 0) -> Ran:
    ran = project.here(*words, "--json")
    assert ran.code == code, ran.said
    return ran


def kept(folder: Path) -> str:
    """Everything that a run leaves behind: the files as they are, and the rows of those that are packed."""
    raw = [path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != "source.db"]
    with duckdb.connect(":memory:") as memory:
        rows = [memory.execute(f"FROM '{file}'").fetchall() for file in folder.rglob("*.parquet")]
        memory.execute(f"ATTACH '{folder / 'warehouse.duckdb'}' AS w (READ_ONLY)")
        tables = memory.execute("SELECT schema_name, table_name FROM duckdb_tables()").fetchall()
        rows += [memory.execute(f'FROM w."{schema}"."{table}"').fetchall() for schema, table in tables]
    return str(rows) + b"".join(raw).decode("latin-1")


def test_what_is_left_out_or_masked_gets_nowhere_also_a_column_that_comes_later(make: Make) -> None:
    project = people(make())
    masked = 'mask: {email: {sha256: "${env:TG_SALT}"}, "phone*": null, "*_ssn": "***"}'
    check = 'expect: {known: {check: "email IS NOT NULL", action: quarantine}}'
    project.write(
        f"{OPTIONS}, columns: {{exclude: [ssn, 'secret_*']}}, {masked}, {check}",
        route="via: lake, to: warehouse",
        connections=WAREHOUSE,
    )
    first = done(project, "run")
    notes = done(project, "plan").json["flows"][0]["notes"]
    assert "left out by `columns`: ssn" in notes
    assert "masked: email (sha256)" in notes
    project.database.execute(
        "ALTER TABLE people ADD COLUMN old_ssn TEXT",
        "ALTER TABLE people ADD COLUMN secret_word TEXT",
        "ALTER TABLE people ADD COLUMN phone INTEGER",
        "INSERT INTO people VALUES (4, 'dan@canary.org', '4-canary', 'EU', '2025-02-01 00:00:00',"
        " '44-canary', 'canary', 4444444)",
    )
    second = done(project, "run")
    assert query(project, "SELECT id, email, old_ssn, phone, region FROM people ORDER BY id") == [
        (1, sha256("ann@canary.org"), None, None, "EU"),
        (2, sha256("bob@canary.org"), None, None, "US"),
        (4, sha256("dan@canary.org"), "***", None, "EU"),
    ]
    columns = [
        name
        for (name,) in query(project, "SELECT column_name FROM duckdb_columns() WHERE table_name = 'people'")
    ]
    assert not {"ssn", "secret_word"} & set(columns)
    assert done(project, "verify").json["tables"][0]["equal"]
    assert done(project, "verify", "--stage", "extract").json["tables"][0]["equal"]
    # A value that stops a batch, in a column that is masked.
    project.database.execute(
        "UPDATE people SET email = x'63616e617279', at = '2025-03-01 00:00:00' WHERE id = 1"
    )
    failed = done(project, "run", code=1)
    left = kept(project.folder) + "".join(ran.out + ran.err for ran in (first, second, failed))
    for secret in ("canary", SALT, "4444444", b"canary".hex()):
        assert secret not in left


@pytest.mark.shown_on("mysql-direct", "postgresql-jdbc")
@pytest.mark.parametrize("read", ["direct", "jdbc"])
@pytest.mark.parametrize("engine", ["mysql", "postgresql"])
def test_masks_and_filters_hold_for_deletes_verify_repair_and_backfill(
    make: Make, engine: str, read: str, postgres: Postgres
) -> None:
    project, target = people(make(engine)), postgres_database(postgres)
    project.write(
        f'{OPTIONS}, mask: {{email: {{sha256: "${{env:TG_SALT}}"}}, ssn: null}}, where: "region = \'EU\'",'
        f" deletes: hard, deletes_limit: 100%, read: {read}",
        route="to: warehouse",
        connections=f"  warehouse: {target.connection}\n",
    )
    done(project, "run")
    wanted = [(1, sha256("ann@canary.org"), None, "EU"), (3, None, None, "EU")]
    landed = "SELECT id, email, ssn, region FROM people ORDER BY id"
    assert target.rows(landed) == wanted
    [found] = done(project, "verify").json["tables"]
    assert (found["equal"], found["method"]) == (True, "blocks")

    target.execute("UPDATE people SET email = 'tampered' WHERE id = 1", "DELETE FROM people WHERE id = 3")
    assert not done(project, "verify", code=1).json["tables"][0]["equal"]
    if read == "direct":
        done(project, "repair", "-t", "people", *WHY)
    else:
        done(project, "backfill", "-t", "people", "--from", "2025-01-01", *WHY)
    assert target.rows(landed) == wanted

    # An update takes one row out of the filter, and another one in.
    project.database.execute(
        "UPDATE people SET region = 'US', at = '2025-02-01 00:00:00' WHERE id = 1",
        "UPDATE people SET region = 'EU', at = '2025-02-02 00:00:00' WHERE id = 2",
    )
    done(project, "run")
    assert target.rows(landed) == [(2, sha256("bob@canary.org"), None, "EU"), (3, None, None, "EU")]
    assert done(project, "verify").json["tables"][0]["equal"]


@pytest.mark.shown_on("sqlite", "postgresql")
@pytest.mark.parametrize("engine", ["sqlite", "mysql", "postgresql"])
def test_masks_and_filters_hold_where_the_database_moves_the_rows_itself(make: Make, engine: str) -> None:
    project = people(make(engine))
    project.write(
        f'{OPTIONS}, mask: {{email: {{sha256: "${{env:TG_SALT}}"}}, ssn: null}}, where: "region = \'EU\'",'
        ' execute: database, rename: "copy_of_{table}"',
        route="to: app",
    )
    done(project, "run")
    landed = "SELECT id, email, ssn, region FROM copy_of_people ORDER BY id"
    assert project.database.rows(landed) == [(1, sha256("ann@canary.org"), None, "EU"), (3, None, None, "EU")]
    assert done(project, "verify").json["tables"][0]["equal"]


def test_masks_and_filters_hold_for_a_delta_table(make: Make, spark: SparkSession) -> None:
    project = people(make())
    project.write(
        f'{OPTIONS}, mask: {{email: {{sha256: "${{env:TG_SALT}}"}}, ssn: null}}, where: "region = \'EU\'"',
        route="to: tables",
        connections="  tables: {type: delta, path: tables}\n",
    )
    done(project, "run")
    frame = spark.read.format("delta").load(str(project.folder / "tables" / "people"))
    rows = sorted(tuple(row) for row in frame.select("id", "email", "ssn", "region").collect())
    assert rows == [(1, sha256("ann@canary.org"), None, "EU"), (3, None, None, "EU")]
    assert done(project, "verify").json["tables"][0]["equal"]


def test_a_row_that_leaves_the_filter_stays_where_nothing_deletes_it_and_verify_says_so(make: Make) -> None:
    project = people(make())
    project.write(f"{OPTIONS}, where: \"region = 'EU'\"", route="to: warehouse", connections=WAREHOUSE)
    done(project, "run")
    project.database.execute("UPDATE people SET region = 'US', at = '2025-02-01 00:00:00' WHERE id = 1")
    done(project, "run")
    assert query(project, "SELECT id, region FROM people ORDER BY id") == [(1, "EU"), (3, "EU")]
    [found] = done(project, "verify", code=1).json["tables"]
    assert (found["missing"], found["different"], found["extra"]) == (0, 0, 1)


CHANGES = {
    "filter": ("where: \"region = 'EU'\"", "where: \"region <> 'EU'\"", "`where`"),
    "new filter": ("", "where: \"region = 'EU'\"", "`where`"),
    "no filter": ("where: \"region = 'EU'\"", "", "`where`"),
    "new mask": ("", "mask: {email: sha256}", "email"),
    "no mask": ("mask: {email: sha256}", "", "email"),
    "salt": ("mask: {email: sha256}", 'mask: {email: {sha256: "${env:TG_SALT}"}}', "email"),
    "text": ('mask: {email: "*"}', 'mask: {email: "#"}', "email"),
}


@pytest.mark.shown_on("filter", "new mask", "salt")
@pytest.mark.parametrize(("before", "after", "named"), CHANGES.values(), ids=CHANGES)
def test_another_filter_or_mask_stops_the_flow_until_a_person_says_what_is_meant(
    make: Make, before: str, after: str, named: str
) -> None:
    project = people(make())
    project.write(f"{OPTIONS}, {before}", route="to: warehouse", connections=WAREHOUSE)
    done(project, "run")
    there = query(project, "SELECT id, email FROM people ORDER BY id")
    project.database.execute("UPDATE people SET region = 'XX', at = '2025-02-01 00:00:00' WHERE id = 2")
    project.write(f"{OPTIONS}, {after}", route="to: warehouse", connections=WAREHOUSE)
    refused(project.here("plan"), named, "--full-refresh", "watermark reset", "watermark set")
    stopped = project.here("run")
    assert stopped.code == 1
    assert query(project, "SELECT id, email FROM people ORDER BY id") == there
    # As the hint says it, to the letter.
    said = " ".join(stopped.err.split())
    position = re.search(r"--position '(\{.*?\})'", said)
    assert position, stopped.said
    assert json.loads(position[1])
    done(project, "watermark", "set", "-t", "people", "--position", position[1], *WHY)
    done(project, "run")
    assert done(project, "run").json["state"] == "SKIPPED"


def test_a_full_refresh_takes_the_new_filter_and_masks(make: Make) -> None:
    project = people(make())
    project.write(OPTIONS, route="to: warehouse", connections=WAREHOUSE)
    done(project, "run")
    project.write(
        f"{OPTIONS}, where: \"region = 'EU'\", mask: {{email: sha256}}, columns: {{exclude: [ssn]}}",
        route="to: warehouse",
        connections=WAREHOUSE,
    )
    refused(project.here("plan"), "`where`")
    done(project, "run", "--full-refresh", *WHY)
    plain = hashlib.sha256(b"ann@canary.org").hexdigest()
    assert query(project, "SELECT id, email FROM people ORDER BY id") == [(1, plain), (3, None)]
    assert done(project, "verify").json["tables"][0]["equal"]


def test_a_plan_that_is_taken_up_again_reads_what_it_was_made_for_or_nothing(make: Make) -> None:
    project = people(make())
    one_by_one = f"{OPTIONS}, batch_rows: 1, parallel: 1"
    project.database.execute("UPDATE people SET ssn = x'00' WHERE id = 2")
    project.write(one_by_one, route="to: warehouse", connections=WAREHOUSE)
    done(project, "run", code=1)
    assert query(project, "SELECT id FROM people") == [(1,)], "the plan has two batches left"
    project.database.execute("UPDATE people SET ssn = 'mended' WHERE id = 2")
    for other in ("where: \"region = 'EU'\"", "mask: {email: sha256}"):
        project.write(f"{one_by_one}, {other}", route="to: warehouse", connections=WAREHOUSE)
        done(project, "run", code=1)
        assert query(project, "SELECT id FROM people") == [(1,)]
    project.write(one_by_one, route="to: warehouse", connections=WAREHOUSE)
    done(project, "run")
    assert query(project, "SELECT id FROM people ORDER BY id") == [(1,), (2,), (3,)]


def test_a_column_that_is_left_out_or_let_in_later_is_said_as_any_change_of_columns(make: Make) -> None:
    project = people(make())
    project.write(OPTIONS, route="to: warehouse", connections=WAREHOUSE)
    done(project, "run")
    project.write(f"{OPTIONS}, columns: {{exclude: [ssn]}}", route="to: warehouse", connections=WAREHOUSE)
    notes = " ".join(done(project, "plan").json["flows"][0]["notes"])
    assert "left out by `columns`: ssn" in notes
    assert "the output keeps it, NULL in the rows written from now on" in notes
    done(project, "run")
    project.write(OPTIONS, route="to: warehouse", connections=WAREHOUSE)
    assert done(project, "run").code == 0


def test_a_wrong_filter_is_said_with_its_place_before_anything_is_read(make: Make) -> None:
    project = people(make())
    project.write(f"{OPTIONS}, where: \"regoin = 'EU'\"", route="to: warehouse", connections=WAREHOUSE)
    for words in (("plan",), ("run",)):
        ran = project.here(*words)
        assert ran.code in (1, 2), ran.said
        assert "tidegauge.yml:" in ran.err
        assert "regoin" in ran.err
