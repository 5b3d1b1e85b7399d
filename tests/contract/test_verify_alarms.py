"""What `verify` must not take for a difference: empty tables, backfills, new types, rows of the next run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.support.project import Project, Ran, local, mysql_database, postgres_database, sqlite_database
from tests.support.warehouses import Yard, flow_of, loader
from tidegauge.model.batch_data import BatchRows
from tidegauge.model.mode import Mode
from tidegauge.model.spec import TableName
from tidegauge.model.table import Field, Layout

WAREHOUSE = "  warehouse: {type: duckdb, path: warehouse.duckdb}\n"
ONE, TWO = "to: warehouse", "via: lake, to: warehouse"
OPTIONS = "tables: [orders], cursor: at, settle: 1s"


def empty(engine: str, request: pytest.FixtureRequest | None, folder: Path) -> Project:
    """A table of orders with no row in it, to be brought into DuckDB."""
    match engine:
        case "sqlite":
            database = sqlite_database(folder / "source.db")
        case "mysql":
            assert request is not None
            database = mysql_database(request.getfixturevalue("mariadb"))
        case _:
            assert request is not None
            database = postgres_database(request.getfixturevalue("postgres"))
    made = local(folder, database)
    made.connections = WAREHOUSE
    made.route = ONE
    database.execute(
        f"CREATE TABLE orders (id INTEGER PRIMARY KEY, total INTEGER, at {database.moment} NOT NULL)"
    )
    return made


@pytest.fixture(params=["sqlite", "mysql", "postgresql"])
def project(request: pytest.FixtureRequest, tmp_path: Path) -> Project:
    """On each database in turn, in one stage."""
    return empty(request.param, request, tmp_path)


@pytest.fixture(
    params=[
        ("sqlite", ONE),
        ("sqlite", TWO),
        ("mysql", ONE),
        ("postgresql", ONE),
        pytest.param(("mysql", TWO), marks=pytest.mark.long),
        pytest.param(("postgresql", TWO), marks=pytest.mark.long),
    ],
    ids=lambda pair: f"{pair[0]}-{'two' if pair[1] == TWO else 'one'}",
)
def routed(request: pytest.FixtureRequest, tmp_path: Path) -> Project:
    """In two stages too."""
    engine, route = request.param
    made = empty(engine, request, tmp_path)
    made.route = route
    return made


def orders(project: Project, *numbers: int) -> None:
    """On as many days of January."""
    project.database.insert("orders", [(n, n * 10, f"2025-01-{n:02} 12:00:00") for n in numbers])


def done(project: Project, *words: str, code: int = 0) -> Ran:
    ran = project.here(*words, "--json")
    assert ran.code == code, ran.said
    return ran


def verified(project: Project, *words: str, code: int = 0) -> dict[str, Any]:
    [one] = done(project, "verify", *words, code=code).json["tables"]
    assert isinstance(one, dict)
    return one


def counts(one: dict[str, Any]) -> list[int]:
    names = ("source_rows", "target_rows", "missing", "extra", "different", "newer")
    return [one[name] for name in names]


def columns(project: Project) -> list[str]:
    with duckdb.connect(str(project.folder / "warehouse.duckdb"), read_only=True) as connection:
        return [row[0] for row in connection.execute("DESCRIBE orders").fetchall()]


@pytest.mark.shown_on("sqlite")
def test_f2_an_empty_table_has_an_empty_target_and_is_proven_equal(routed: Project) -> None:
    project = routed.write(OPTIONS)
    first = done(project, "run")
    assert {flow["state"] for flow in first.json["flows"]} == {"SUCCESS"}
    assert {flow["rows_written"] for flow in first.json["flows"]} == {0}
    assert columns(project) == ["id", "total", "at"]
    assert counts(verified(project)) == [0, 0, 0, 0, 0, 0]
    assert {flow["state"] for flow in done(project, "run").json["flows"]} == {"SKIPPED"}

    # What comes later is read, however old it is.
    orders(project, 1, 2)
    assert counts(verified(project)) == [0, 0, 0, 0, 0, 2]
    assert "2 rows newer than the last look" in project.here("verify").out
    done(project, "run")
    assert counts(verified(project)) == [2, 2, 0, 0, 0, 0]


@pytest.mark.shown_on("sqlite")
def test_f2_a_target_that_was_dropped_is_not_equal_to_an_empty_table(project: Project) -> None:
    project.write(OPTIONS)
    done(project, "run")
    with duckdb.connect(str(project.folder / "warehouse.duckdb")) as connection:
        connection.execute("DROP TABLE orders")
    one = verified(project, code=1)
    assert (one["equal"], one["error"]["type"]) == (False, "OutputDisagrees")
    assert "is not there" in one["error"]["message"]


@pytest.mark.shown_on("sqlite")
def test_f2_a_target_that_lost_a_column_is_not_equal_until_it_is_back(routed: Project) -> None:
    project = routed.write(OPTIONS)
    orders(project, 1, 2)
    done(project, "run")
    with duckdb.connect(str(project.folder / "warehouse.duckdb")) as connection:
        connection.execute("ALTER TABLE orders DROP COLUMN total")
    one = verified(project, code=1)
    assert (one["equal"], one["different"]) == (False, 0)
    assert "has lost the column total" in one["notes"][-1]
    [kept] = done(project, "history", "--event", "differs").json["events"]
    assert kept["reason"].startswith("1 columns lost")
    repaired = project.here("repair", "-t", "orders", "--reason", "lost", "--yes", "--json")
    assert (repaired.code, repaired.json["state"]) == (1, "SKIPPED"), repaired.said
    assert "has lost the column total" in repaired.json["repairs"][0]["notes"][0]
    done(project, "backfill", "-t", "orders", "--column", "total", "--reason", "lost", "--yes")
    assert verified(project)["notes"] == []

    # What the source has new, and no batch has brought yet, was never there.
    project.database.execute("ALTER TABLE orders ADD COLUMN later INTEGER")
    assert verified(project)["notes"] == ["the target does not have the column later: not compared"]


def test_the_return_of_a_lost_column_to_a_target_that_keeps_every_version_has_its_price(
    tmp_path: Path,
) -> None:
    project = empty("sqlite", None, tmp_path)
    project.write(f"{OPTIONS}, mode: append")
    orders(project, 1)
    done(project, "run")
    with duckdb.connect(str(tmp_path / "warehouse.duckdb")) as connection:
        connection.execute("ALTER TABLE orders DROP COLUMN total")
    orders(project, 2)
    [failed] = done(project, "run", code=1).json["flows"]
    for said in (failed["error"]["hint"], verified(project, code=1)["notes"][-1]):
        assert "put it back from a copy of the target" in said
        assert "sync -t orders --full-refresh" in said
        assert "their earlier versions are lost" in said
        assert "backfill" not in said


@pytest.mark.parametrize("mode", ["append", "scd2", "overwrite"])
def test_f2_an_empty_table_has_its_target_in_every_mode(tmp_path: Path, mode: str) -> None:
    made = local(tmp_path, sqlite_database(tmp_path / "source.db"))
    made.database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, total INTEGER, at TEXT NOT NULL)")
    made.write(f"{OPTIONS}, mode: {mode}", route=TWO, connections=WAREHOUSE)
    done(made, "run")
    history = ["valid_from", "valid_to", "is_current"] if mode == "scd2" else []
    assert columns(made) == ["id", "total", "at", *history]
    assert verified(made)["equal"] is True
    orders(made, 3)
    done(made, "run")
    assert counts(verified(made)) == [1, 1, 0, 0, 0, 0]


@pytest.mark.parametrize(
    "mode",
    [
        Mode.MERGE,
        Mode.SCD2,
        pytest.param(Mode.APPEND, marks=pytest.mark.long),
        pytest.param(Mode.OVERWRITE, marks=pytest.mark.long),
    ],
)
def test_f2_a_batch_of_no_rows_makes_the_table(warehouse: Yard, mode: Mode) -> None:
    fields = (Field("id", "bigint", "integer"), Field("at", "timestamp_ntz", "timestamp"))
    layout = Layout(TableName(None, "t"), fields, ("id",), "timestamp", "at")
    loading = loader(warehouse)
    loading.flow = flow_of(warehouse, mode=mode)
    loading.load(BatchRows(layout, 0))
    output = warehouse.output(loading.flow)
    held = output.layout()
    assert held is not None
    assert [output.named(field.name) for field in held] == [output.named(name) for name in ("id", "at")]
    assert list(output.rows(layout)) == []


@pytest.mark.shown_on("sqlite")
def test_f2_rows_of_a_backfill_below_the_beginning_are_not_extra(routed: Project) -> None:
    project = routed.write(f"{OPTIONS}, initial: '2025-01-05 00:00:00'")
    orders(project, *range(1, 8))
    done(project, "run")
    assert counts(verified(project)) == [3, 3, 0, 0, 0, 0]
    back = ("--from", "2025-01-03 00:00:00", "--to", "2025-01-04 23:00:00", "--reason", "x", "--yes")
    done(project, "backfill", "-t", project.name("orders"), *back)
    if project.route == TWO:
        done(project, "run")
    assert counts(verified(project)) == [5, 5, 0, 0, 0, 0]
    # They were not promised, but have to be right.
    project.database.execute("UPDATE orders SET total = -1 WHERE id = 3", "DELETE FROM orders WHERE id = 4")
    one = verified(project, code=1)
    assert counts(one) == [4, 5, 0, 1, 1, 0]
    assert {(found["kind"], found["key"]) for found in one["examples"]} == {
        ("different", "3"),
        ("extra", "4"),
    }


@pytest.mark.shown_on("sqlite", "postgresql")
def test_f2_a_number_that_became_a_text_is_compared_as_text(project: Project) -> None:
    orders(project, 1, 2)
    project.write(OPTIONS)
    done(project, "run")
    match project.database.engine:
        case "sqlite":
            project.database.execute(
                "CREATE TABLE changed (id INTEGER PRIMARY KEY, total TEXT, at TEXT NOT NULL)",
                "INSERT INTO changed SELECT * FROM orders",
                "DROP TABLE orders",
                "ALTER TABLE changed RENAME TO orders",
            )
        case "mysql":
            project.database.execute("ALTER TABLE orders MODIFY total VARCHAR(20)")
        case _:
            project.database.execute("ALTER TABLE orders ALTER COLUMN total TYPE text")
    one = verified(project)
    assert counts(one) == [2, 2, 0, 0, 0, 0]
    assert "column total is string at the source and" in str(one["notes"])
    assert "another hand" not in project.here("verify").said
    project.database.execute("UPDATE orders SET total = 'many' WHERE id = 2")
    assert counts(verified(project, code=1)) == [2, 2, 0, 0, 1, 0]


@pytest.mark.shown_on("sqlite", "mysql")
def test_f2_rows_past_the_watermark_are_counted_and_no_difference(project: Project) -> None:
    orders(project, 1, 2, 3)
    project.write(OPTIONS)
    done(project, "run")
    assert verified(project)["newer"] == 0
    # One that is new, one that changed, one that is dated in the future, and one that was committed late with
    # a time between the last row and the last look: the next run reads them all.
    now = project.database.ago(0)
    project.database.execute(
        f"INSERT INTO orders VALUES (4, 40, {now})",
        f"UPDATE orders SET total = 31, at = {now} WHERE id = 3",
        "INSERT INTO orders VALUES (5, 50, '2099-01-01 00:00:00')",
        "INSERT INTO orders VALUES (6, 60, '2025-02-01 00:00:00')",
    )
    assert counts(verified(project)) == [2, 2, 0, 0, 0, 4]
    shown = project.here("verify")
    assert shown.code == 0
    assert f"{project.name('orders')}: 4 rows newer than the last look" in shown.out
    # Below the last row no run will look by itself.
    project.database.execute("INSERT INTO orders VALUES (7, 70, '2025-01-02 00:00:00')")
    one = verified(project, code=1)
    assert counts(one) == [3, 2, 1, 0, 0, 4]
    assert one["examples"] == [{"kind": "missing", "key": "7"}]
