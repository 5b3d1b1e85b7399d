"""`tidegauge stats`: the runs of any ledger, added up."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from tests.contract.test_ledger_views import QUERIES
from tests.support.drafts import ME, draft, nothing_new, receipt
from tests.support.project import here, refused
from tests.support.servers import Postgres
from tidegauge.ledger.open import Ledger, open_ledger
from tidegauge.model.state import State
from tidegauge.operations.stats import add_up_days

MINUTE = timedelta(minutes=1)


def fill(ledger: Ledger) -> None:
    """Flow orders: failed, taken up again, then nothing new; items: under way."""
    plan = ledger.plan([draft(batches=1)], owner=ME, run_id="one")["orders"]
    claim = ledger.claim(plan, owner=ME, run_id="one", lease=MINUTE)
    ledger.finish(claim, State.FAILED, {"type": "Boom", "message": "it broke"})
    claim = ledger.claim(plan, owner=ME, run_id="two", lease=MINUTE)
    ledger.begin(claim, 0)
    ledger.advance(claim, 0, receipt(plan, 0, changed=(6, 3, 0)))
    ledger.finish(claim, State.SUCCESS)
    ledger.plan([nothing_new()], owner=ME, run_id="three")
    other = ledger.plan([draft("items"), draft("orders", pipeline="other")], owner=ME, run_id="four")
    ledger.claim(other["items"], owner=ME, run_id="four", lease=MINUTE)


def test_every_attempt_since_a_moment_is_listed(ledger_address: str) -> None:
    with open_ledger(ledger_address, create=True) as ledger:
        before = ledger.now()
        assert ledger.runs("shop", since=before - MINUTE) == []
        fill(ledger)
        found = ledger.runs("shop", since=before)
        assert sorted((run.flow, run.run_id, run.state) for run in found) == [
            ("items", "four", State.RUNNING),
            ("orders", "one", State.FAILED),
            ("orders", "three", State.SKIPPED),
            ("orders", "two", State.SUCCESS),
        ]
        [done] = [run for run in found if run.run_id == "two"]
        assert (done.rows_written, done.rows_inserted, done.rows_updated) == (10, 6, 3)
        assert done.ended_at is not None
        assert ledger.runs("shop", since=ledger.now() + MINUTE) == []


def test_days_say_what_the_query_of_a_control_table_says(postgres: Postgres) -> None:
    database = postgres.create_database()
    with open_ledger(postgres.address(database), create=True) as ledger:
        fill(ledger)
        with postgres.connect(database) as connection:
            rows = connection.execute(QUERIES[2]).fetchall()
        [day] = add_up_days(ledger.runs("shop", since=ledger.now() - timedelta(days=2)))
    [(date, total, good, bad, inserted, updated, seconds)] = rows
    assert (day.sync_date, day.total_runs, day.success_count, day.failed_count) == (date, total, good, bad)
    assert (day.total_inserted, day.total_updated) == (inserted, updated)
    assert day.avg_duration_sec == pytest.approx(seconds, abs=0.001)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "tidegauge.yml").write_text(
        "pipeline: shop\nledger: sqlite:///ledger.db\n"
        "connections: {app: {type: sqlite, path: shop.db}, lake: {type: parquet, path: lake}}\n"
        "sync: [{from: app, to: lake, tables: orders, cursor: at, tags: early}]\n"
    )
    with open_ledger(f"sqlite:///{tmp_path / 'ledger.db'}", create=True) as ledger:
        fill(ledger)
    return tmp_path


def test_the_command_shows_flows_and_days(project: Path) -> None:
    [orders] = here("stats", "--json", "--project", project).json["flows"]
    assert (orders["flow"], orders["runs"], orders["failures"], orders["rows"]) == ("orders", 3, 1, 10)
    assert orders["lag_seconds"] is not None
    assert "33.3%" in here("stats", "--project", project).out
    [tagged] = here("stats", "--select", "tag:early", "--json", "--project", project).json["flows"]
    assert tagged["flow"] == "orders"
    assert "no run has ended" in here("stats", "--select", "tag:late", "--project", project).out
    [day] = here("stats", "--daily", "--days", "1", "--json", "--project", project).json["days"]
    assert (day["total_runs"], day["success_count"], day["failed_count"]) == (3, 2, 1)
    head, line = here("stats", "--daily", "--csv", "--project", project).out.splitlines()
    assert dict(zip(head.split(","), line.split(","), strict=True))["total_inserted"] == "6"
    assert "total_runs" in here("stats", "--daily", "--project", project).out
    assert "no run has ended" in here("stats", "--since", "0", "--project", project).out


def test_ways_to_show_and_spans_exclude_each_other(project: Path) -> None:
    refused(here("stats", "--json", "--csv", "--project", project), "exclude each other", code=2)
    refused(here("stats", "--since", "1d", "--days", "2", "--project", project), "exclude each other", code=2)
    refused(here("stats", "--since", "soon", "--project", project), "is not a duration", code=2)


def test_a_project_that_never_ran_has_no_stats(project: Path) -> None:
    (project / "ledger.db").unlink()
    assert here("stats", "--json", "--project", project).json["flows"] == []
