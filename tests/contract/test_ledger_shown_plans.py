"""Plans and history as tables: by a view, by `tidegauge sql`, and on Delta as tables of their own."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest
from sqlalchemy import text

from tests.contract.test_ledger_callers import versions
from tests.contract.test_ledger_shown import (
    Row,
    asked,
    claim,
    killed_at,
    opened,
    plan_one,
    succeed,
    table,
)
from tests.contract.test_ledger_shown import folder as folder
from tests.support.drafts import ME, draft
from tidegauge.ledger.open import Ledger, open_ledger
from tidegauge.ledger.sql_ledger import SqlLedger
from tidegauge.ledger.views import open_views
from tidegauge.model.plan import Plan

PLANS, HISTORY = "pipeline_watermark_plans", "pipeline_watermark_history"
OF_ITS_OWN = ("run_id", "history_id", "created_at", "updated_at", "ended_at", "update_ts", "failed_at")
"""What two ledgers do not have in common, though they were told the same."""


def alike(rows: list[Row], *but: str) -> list[Row]:
    """In an order of their own, and numbers as whole ones."""
    found = [
        {
            name: value.replace(tzinfo=None) if hasattr(value, "tzinfo") else value
            for name, value in row.items()
            if name not in but
        }
        for row in rows
    ]
    return sorted(found, key=lambda row: str(sorted(row.items())))


def plan_tables(ledger: Ledger) -> None:
    """A day of the paper on version ranges: one plan ends, one fails half-way, another waits unclaimed."""
    tables = ("bronze.a", "bronze.b")
    done = ledger.plan([versions(tables)], owner=ME, run_id="x")["silver"]
    ledger.complete("silver", "silver", done.plan_id, owner=ME, run_id="x", rows={"bronze.a": 41})
    ledger.complete("silver", "silver", done.plan_id, owner=ME, run_id="x", rows={"bronze.b": 1})
    second = ledger.plan([versions(tables, after=7, upto=9)], owner=ME, run_id="x")["silver"]
    ledger.complete("silver", "silver", second.plan_id, owner=ME, run_id="x", rows={"bronze.a": 5})
    ledger.fail("silver", "silver", second.plan_id, {"message": "no disk"}, owner=ME, run_id="x")
    plan_one(ledger)


def test_what_is_planned_is_asked_of_every_store_in_the_same_words(store_address: str) -> None:
    with open_ledger(store_address, create=True) as ledger:
        plan_tables(ledger)
        found = asked(ledger, PLANS)
        planned = "SELECT table_name, start_version, end_version, status FROM pipeline_watermark_plans"
        with open_views(ledger, [PLANS]) as connection:
            waiting = connection.execute(f"{planned} WHERE status = 'PLANNED'").fetchall()
        if isinstance(ledger, SqlLedger):
            with ledger._engine.connect() as connection:
                own = [dict(row._mapping) for row in connection.execute(text(f"SELECT * FROM {PLANS}"))]
            times = {"commit_timestamp", *OF_ITS_OWN}
            assert alike(own, *times) == alike(found, *times)
            assert {str(row["commit_timestamp"])[:19] for row in own} == {"2025-08-14 10:00:00", "None"}
    assert waiting == [("orders", None, None, "PLANNED")]
    facts = ("start_version", "end_version", "last_processed_version", "status", "records_processed", "error")
    silver = [row for row in found if row["pipeline"] == "silver"]
    silver.sort(key=lambda row: (row["start_version"], row["table_name"]))
    assert [tuple(row[name] for name in ("table_name", *facts)) for row in silver] == [
        ("bronze.a", 0, 7, 7, "COMPLETED", 41, None),
        ("bronze.b", 0, 7, 7, "COMPLETED", 1, None),
        ("bronze.a", 8, 9, 9, "COMPLETED", 5, None),
        ("bronze.b", 8, 9, 7, "FAILED", None, "no disk"),
    ]
    assert {row["schema_version"] for row in silver} == {"schema-1"}
    assert {row["commit_timestamp"] for row in silver} == {datetime(2025, 8, 14, 10)}
    assert [row["ended_at"] is None for row in silver] == [False, False, True, True]


def test_a_delta_ledgers_plans_and_history_are_tables_with_the_same_rows(folder: Path) -> None:
    with opened(folder) as ledger:
        plan_tables(ledger)
        assert alike(table(folder, PLANS), "updated_at") == alike(asked(ledger, PLANS), "updated_at")
        more = ("pipeline", "flow")
        history = [row for row in asked(ledger, HISTORY) if row["pipeline_name"] == "silver"]
        assert alike(table(folder, HISTORY), *more) == alike(history, *more)
        [waiting] = [row for row in table(folder, PLANS) if row["status"] == "PLANNED"]
        assert (waiting["pipeline"], waiting["flow"], waiting["ended_at"]) == ("shop", "orders", None)
        held = claim(ledger, Plan(waiting["run_id"], draft(batches=1), 0, 1))
        assert [row["status"] for row in table(folder, PLANS) if row["pipeline"] == "shop"] == ["RUNNING"]
        succeed(ledger, held)
        assert [row["status"] for row in table(folder, PLANS) if row["pipeline"] == "shop"] == ["COMPLETED"]


def test_history_has_no_version_where_there_is_none(store_address: str) -> None:
    with open_ledger(store_address, create=True) as ledger:
        succeed(ledger, claim(ledger, plan_one(ledger)))
        found = asked(ledger, HISTORY)
    assert {(row["start_version"], row["end_version"]) for row in found} == {(None, None)}


@pytest.mark.parametrize("name", [PLANS, HISTORY])
def test_a_plan_that_nobody_could_show_is_shown_with_the_next_change(folder: Path, name: str) -> None:
    with opened(folder) as ledger:
        plan = ledger.plan([versions(("bronze.a",))], owner=ME, run_id="x")["silver"]

        def finish(theirs: Ledger) -> None:
            theirs.complete("silver", "silver", plan.plan_id, owner=ME, run_id="x")

        killed_at(folder, "show", finish)
        assert [row["status"] for row in table(folder, PLANS)] == ["PLANNED"]
        assert table(folder, HISTORY) == []
    with opened(folder) as ledger:
        again = ledger.plan([versions(("bronze.a",), after=7, upto=8)], owner=ME, run_id="y")["silver"]
        ledger.complete("silver", "silver", again.plan_id, owner=ME, run_id="x")
        assert [row["status"] for row in table(folder, PLANS)] == ["COMPLETED", "COMPLETED"]
        more = ("history_id", "pipeline", "flow", "updated_at")
        assert alike(table(folder, name), *more) == alike(asked(ledger, name), *more)
