"""Many rows of a DuckDB file, or of Snowflake: read by Spark's tasks, into a lake and a Delta table."""

from __future__ import annotations

import pytest

from tests.integration.conftest import Make
from tidegauge.spark import on_demand

DELTA = "  tables: {type: delta, path: tables}\n"
OPTIONS = "tables: [T], cursor: TS, settle: 1s"


@pytest.mark.shown_on("snowflake")
@pytest.mark.parametrize("engine", ["duckdb", "snowflake"])
def test_tasks_read_what_is_too_much_for_one_process(
    make: Make, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    monkeypatch.setattr(on_demand, "FEW", 1)
    project = make(engine)
    database = project.database
    database.execute(f'CREATE TABLE "T" ("ID" INT PRIMARY KEY, "NAME" TEXT, "TS" {database.moment})')
    values = ", ".join(f"({n}, 'n{n}', {database.ago(60)})" for n in range(50))
    database.execute(f'INSERT INTO "T" VALUES {values}')
    project.write(f"{OPTIONS}, batch_rows: 30, parallel: 2")
    ran = project.here("run", "--json")
    assert ran.code == 0, ran.said
    assert ran.flow(project.name("T"))["rows_written"] == 50
    verified = project.here("verify", "--json")
    assert verified.code == 0, verified.said
    # A row that changes behind the watermark's back is found by the comparison.
    database.execute("""UPDATE "T" SET "NAME" = 'other' WHERE "ID" = 7""")
    assert project.here("verify", "--json").code == 1

    project.write(OPTIONS, route="to: tables", connections=DELTA, ledger="sqlite:///other.db")
    ran = project.here("run", "--json")
    assert ran.code == 0, ran.said
    verified = project.here("verify", "--json")
    assert verified.code == 0, verified.said
