"""`tidegauge sql`: the same questions, the same answers, whatever store the ledger is kept in."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.contract.test_ledger_views import QUERIES
from tests.contract.test_stats import fill
from tests.support.drafts import ME, draft
from tests.support.project import here, refused
from tidegauge.ledger.open import Ledger, open_ledger
from tidegauge.ledger.sql_ledger import SqlLedger
from tidegauge.ledger.views import TABLES, VIEWS, open_views

MINUTE = timedelta(minutes=1)


@pytest.fixture
def ledger(store_address: str) -> Iterator[Ledger]:
    with open_ledger(store_address, create=True) as opened:
        fill(opened)
        yield opened


def ask(ledger: Ledger, query: str) -> list[tuple[Any, ...]]:
    with open_views(ledger, [*TABLES, *VIEWS]) as connection:
        return connection.execute(query).fetchall()


def test_every_store_answers_the_queries_of_a_control_table(ledger: Ledger) -> None:
    last, failed, daily, wrong, furthest = (ask(ledger, query) for query in QUERIES[:5])
    assert sorted((row[1], row[9]) for row in last) == [
        ("items", "RUNNING"),
        ("orders", "FAILED"),
        ("orders", "SUCCESS"),
        ("orders", "SUCCESS"),
    ]
    assert len({row[0] for row in last}) == 4
    assert [row[9:] for row in failed] == [("FAILED", "it broke")]
    [(_, total, succeeded, faults, inserted, updated, seconds)] = daily
    assert (total, succeeded, faults, inserted, updated) == (3, 2, 1, 6, 3)
    assert 0 <= seconds < 600
    assert wrong == [(failed[0][0], "it broke")]
    assert furthest == [(datetime(2025, 8, 14, 0, 0, 1, 123456),)]


def test_every_store_shows_plans_watermarks_and_history_alike(ledger: Ledger) -> None:
    records = "SELECT pipeline_name, job_id, status FROM watermarks_v ORDER BY pipeline_name, status"
    assert ask(ledger, records) == [("shop/items", "four", "RUNNING"), ("shop/orders", "two", "SUCCESS")]
    assert ask(ledger, "SELECT flow, state, batches, done, active FROM plans ORDER BY pipeline, flow") == [
        ("orders", "PLANNED", 3, 0, 1),
        ("items", "RUNNING", 3, 0, 1),
        ("orders", "SUCCESS", 1, 1, None),
    ]
    assert ask(
        ledger, "SELECT flow_name, batches, watermark_ts FROM watermark_positions WHERE batches > 0"
    ) == [("orders", 1, datetime(2025, 8, 14, 0, 0, 1, 123456))]
    events = ask(
        ledger,
        "SELECT event FROM pipeline_watermark_history WHERE pipeline_name = 'shop/orders'"
        " ORDER BY history_id",
    )
    assert [event for (event,) in events] == [
        "planned",
        "claimed",
        "failed",
        "claimed",
        "advanced",
        "finished",
        "skipped",
    ]


def test_a_sql_ledger_shows_what_its_own_views_show(sql_ledger_address: str) -> None:
    with open_ledger(sql_ledger_address, create=True) as ledger:
        assert isinstance(ledger, SqlLedger)
        fill(ledger)
        for view in VIEWS:
            with ledger._engine.connect() as connection:
                own = connection.exec_driver_sql(f"SELECT * FROM {view}")
                names, mine = list(own.keys()), [tuple(map(_text, row)) for row in own]
            with open_views(ledger, [view]) as asked:
                found = asked.execute(f"SELECT * FROM {view}")
                assert [part[0] for part in found.description or ()] == names
                assert sorted(tuple(map(_text, row)) for row in found.fetchall()) == sorted(mine)


def _text(value: Any) -> str:
    """SQLite keeps moments as text, and MySQL counts in decimals."""
    return f"{value:%Y-%m-%d %H:%M:%S.%f}" if isinstance(value, datetime) else str(value)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "tidegauge.yml").write_text(
        f"pipeline: shop\nledger: json:{tmp_path / 'ledger'}\n"
        "connections: {app: {type: sqlite, path: shop.db}, lake: {type: parquet, path: lake}}\n"
        "sync: [{from: app, to: lake, tables: orders, cursor: at}]\n"
    )
    return tmp_path


def test_the_command_asks_and_lists(project: Path) -> None:
    empty = here("sql", "SELECT count(*) AS n FROM runs", "--json", "--project", project).json
    assert empty["rows"] == [{"n": 0}]
    with open_ledger(f"json:{project / 'ledger'}", create=True) as ledger:
        fill(ledger)
    query = "SELECT table_name, sync_status FROM ETL_PIPELINE_SYNC_CONTROL WHERE SYNC_STATUS = 'FAILED'"
    found = here("sql", query, "--json", "--project", project).json
    assert found["schema"] == "tidegauge/sql/1"
    assert found["rows"] == [{"table_name": "orders", "sync_status": "FAILED"}]
    assert here("sql", query, "--csv", "--project", project).out == "table_name,sync_status\norders,FAILED\n"
    listed = here("sql", "--project", project).out
    assert all(name in listed for name in (*TABLES, *VIEWS))


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELEC 1", "cannot be read"),
        ("SELECT 1 =", "cannot be read: an expression is missing near ="),
        ("SELECT * FROM nothing", "nothing"),
        ("SELECT nothing FROM runs", "nothing"),
        ("DELETE FROM runs", "only read"),
        ("SELECT 1; SELECT 2", "only one query"),
        ("", "only one query"),
        ("SELECT * FROM read_csv('/etc/passwd')", "cannot be asked"),
    ],
)
def test_what_is_no_question_to_a_ledger_is_refused(project: Path, query: str, said: str) -> None:
    refused(here("sql", query, "--project", project), said, code=2)


def test_a_ledger_that_is_asked_stays_as_it_is(project: Path) -> None:
    with open_ledger(f"json:{project / 'ledger'}", create=True) as ledger:
        ledger.plan([draft()], owner=ME, run_id="job")
    before = {path: path.read_bytes() for path in (project / "ledger").rglob("*") if path.is_file()}
    here("sql", "SELECT * FROM plans", "--project", project)
    assert {path: path.read_bytes() for path in (project / "ledger").rglob("*") if path.is_file()} == before


def test_history_is_narrowed_by_kind_and_age(project: Path) -> None:
    with open_ledger(f"json:{project / 'ledger'}", create=True) as ledger:
        fill(ledger)
    found = here("history", "--event", "failed", "--event", "skipped", "--json", "--project", project).json
    assert [one["event"] for one in found["events"]] == ["skipped", "failed"]
    assert here("history", "--since", "1h", "--limit", "2", "--json", "--project", project).json["events"]
    nothing = here("history", "--event", "undone", "--project", project)
    assert nothing.out == "nothing of that kind has happened\n"
