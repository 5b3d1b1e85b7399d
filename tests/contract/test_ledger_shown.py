"""The tables that a Delta ledger has for people: what they hold, and what they hold after a crash."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pytest
from deltalake import DeltaTable

from tests.support import processes
from tests.support.drafts import ME, OTHER, draft, nothing_new, receipt
from tidegauge.errors import LedgerUnreachable
from tidegauge.ledger.delta_shown import ReportTableWriter
from tidegauge.ledger.delta_store import DeltaDocumentStore
from tidegauge.ledger.document_ledger import DocumentLedger
from tidegauge.ledger.open import Ledger, open_ledger
from tidegauge.ledger.views import open_views
from tidegauge.model.claim import Claim
from tidegauge.model.plan import Plan
from tidegauge.model.state import State

CONTROL = "etl_pipeline_sync_control"
ELEVEN = [
    "sync_run_id",
    "table_name",
    "sync_start_timestamp",
    "sync_end_timestamp",
    "watermark_from",
    "watermark_to",
    "rows_inserted",
    "rows_updated",
    "rows_processed",
    "sync_status",
    "error_message",
]
MINUTE = timedelta(minutes=1)
Row = dict[str, Any]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "ledger"


def opened(folder: Path) -> DocumentLedger:
    ledger = open_ledger(f"delta:{folder}", create=True)
    assert isinstance(ledger, DocumentLedger)
    return ledger


def table(folder: Path, name: str = CONTROL) -> list[Row]:
    """As delta-rs and DuckDB read it: ordinary columns."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("found", DeltaTable(folder / name).to_pyarrow_dataset())
        rows: list[Row] = connection.sql("SELECT * FROM found ORDER BY 1").to_arrow_table().to_pylist()
    return rows


def asked(ledger: Ledger, name: str = CONTROL) -> list[Row]:
    """As `tidegauge sql` shows it."""
    with open_views(ledger, [name]) as connection:
        rows: list[Row] = connection.sql(f"SELECT * FROM {name} ORDER BY 1").to_arrow_table().to_pylist()
    return rows


def plain(rows: list[Row]) -> list[Row]:
    """Without what differs between stores: zones, and columns of one of them."""
    return [
        {
            name: value.replace(tzinfo=None) if hasattr(value, "tzinfo") else value
            for name, value in row.items()
            if name in ELEVEN
        }
        for row in rows
    ]


def standing(folder: Path) -> list[tuple[str, str]]:
    return [(row["table_name"], row["sync_status"]) for row in table(folder)]


def plan_one(ledger: Ledger, flow: str = "orders", start: int = 0) -> Plan:
    return ledger.plan([draft(flow, batches=1, start=start)], owner=ME, run_id="job")[flow]


def claim(ledger: Ledger, plan: Plan) -> Claim:
    return ledger.claim(plan, owner=ME, run_id="job", lease=MINUTE)


def succeed(ledger: Ledger, held: Claim) -> None:
    ledger.begin(held, 0)
    ledger.advance(held, 0, receipt(held.plan, 0, changed=(6, 4, 0)))
    ledger.finish(held, State.SUCCESS)


def tell(ledger: Ledger) -> None:
    """A day of syncs: one that fails and is tried again, one that finds nothing, one that is under way."""
    held = claim(ledger, plan_one(ledger))
    ledger.finish(held, State.FAILED, {"type": "Boom", "message": 'it "broke" ☂'})
    succeed(ledger, claim(ledger, held.plan))
    ledger.plan([nothing_new("idle")], owner=ME, run_id="job")
    claim(ledger, plan_one(ledger, start=1))


def test_the_control_table_has_every_attempt_as_a_sql_ledgers_view_has_it(
    folder: Path, tmp_path: Path
) -> None:
    with opened(folder) as ledger, open_ledger(f"sqlite:///{tmp_path}/l.db", create=True) as sql:
        tell(ledger)
        tell(sql)
        found, expected = table(folder), asked(sql)
        assert plain(found) == plain(asked(ledger))
    assert list(found[0]) == [*ELEVEN, "pipeline"]
    times = ("sync_start_timestamp", "sync_end_timestamp")
    assert [(row["sync_end_timestamp"] is None, row["sync_status"]) for row in found] == [
        (False, "FAILED"),
        (False, "SUCCESS"),
        (False, "SUCCESS"),
        (True, "RUNNING"),
    ]
    for ours, theirs in zip(plain(found), plain(expected), strict=True):
        assert {k: v for k, v in ours.items() if k not in times} == {
            k: v for k, v in theirs.items() if k not in times
        }


def test_an_attempt_is_seen_while_it_runs_and_keeps_its_number(folder: Path) -> None:
    with opened(folder) as ledger:
        held = claim(ledger, plan_one(ledger))
        [running] = table(folder)
        assert (running["sync_status"], running["sync_end_timestamp"]) == ("RUNNING", None)
        version = DeltaTable(folder / CONTROL).version()
        ledger.begin(held, 0)
        ledger.renew(held, MINUTE)
        ledger.advance(held, 0, receipt(held.plan, 0))
        assert DeltaTable(folder / CONTROL).version() == version, "a batch costs nothing here"
        ledger.finish(held, State.SUCCESS)
        [ended] = table(folder)
        assert (ended["sync_run_id"], ended["sync_status"]) == (running["sync_run_id"], "SUCCESS")


def test_an_attempt_that_is_taken_over_ends_in_the_commit_that_shows_the_next(folder: Path) -> None:
    with opened(folder) as ledger:
        held = claim(ledger, plan_one(ledger))
        before = DeltaTable(folder / CONTROL).version()
        ledger.claim(held.plan, owner=OTHER, run_id="other", lease=MINUTE, dead=ME)
        assert [state for _, state in standing(folder)] == ["FAILED", "RUNNING"]
        assert DeltaTable(folder / CONTROL).version() == before + 1


def die_instead(_: object, *__: object, **___: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def killed_at(folder: Path, name: str, work: Callable[[DocumentLedger], object]) -> None:
    """Do the work in a process that is killed where it would call this method of a shown table."""

    def child() -> None:
        setattr(ReportTableWriter, name, die_instead)
        with opened(folder) as ledger:
            work(ledger)

    assert processes.run(child, fresh=True) is processes.KILLED


@pytest.mark.parametrize("name", ["show", "_write"])
def test_a_process_that_dies_before_the_table_is_written_is_made_up_for_by_the_next_change(
    folder: Path, name: str
) -> None:
    with opened(folder) as ledger:
        plan = plan_one(ledger)
        killed_at(folder, name, partial(claim, plan=plan))
        assert standing(folder) == [], "it runs, and the table does not say so yet"
        held = ledger.claim(plan, owner=OTHER, run_id="next", lease=MINUTE, dead=ME)
        assert [state for _, state in standing(folder)] == ["FAILED", "RUNNING"]
        killed_at(folder, name, lambda theirs: theirs.finish(held, State.FAILED, {"message": "x"}))
        assert [state for _, state in standing(folder)] == ["FAILED", "RUNNING"], "it has ended, unsaid"
    with opened(folder) as ledger:
        held = ledger.claim(plan, owner=OTHER, run_id="third", lease=MINUTE)
        assert [row["sync_run_id"] for row in table(folder)] == [1, 2, 3]
        assert [state for _, state in standing(folder)] == ["FAILED", "FAILED", "RUNNING"]
        assert plain(table(folder)) == plain(asked(ledger))


def test_a_process_that_dies_between_the_table_and_the_logs_shows_nothing_twice(folder: Path) -> None:
    def child() -> None:
        setattr(DeltaDocumentStore, "append", die_instead)  # noqa: B010 - mypy minds an assignment
        with opened(folder) as theirs:
            theirs.finish(held, State.FAILED, {"message": "x"})

    with opened(folder) as ledger:
        held = claim(ledger, plan_one(ledger))
        assert processes.run(child, fresh=True) is processes.KILLED
        assert [state for _, state in standing(folder)] == ["FAILED"]
        succeed(ledger, claim(ledger, held.plan))
        assert [state for _, state in standing(folder)] == ["FAILED", "SUCCESS"]
        assert plain(table(folder)) == plain(asked(ledger))


def test_a_ledger_that_had_no_such_table_gets_it_with_all_that_it_remembers(folder: Path) -> None:
    with opened(folder) as ledger:
        tell(ledger)
        before = table(folder)
    shutil.rmtree(folder / CONTROL)
    with opened(folder) as ledger:
        assert standing(folder) == []
        ledger.plan([nothing_new("another")], owner=ME, run_id="job")
        assert plain(table(folder))[:4] == plain(before)
        assert standing(folder)[4:] == [("another", "SUCCESS")]


def test_what_a_failure_left_out_is_filled_from_the_log(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise LedgerUnreachable("the table is away")

    with opened(folder) as ledger:
        with monkeypatch.context() as away:
            away.setattr(ReportTableWriter, "show", refuse)
            held = claim(ledger, plan_one(ledger))
            ledger.finish(held, State.FAILED, {"message": "x"})
            assert standing(folder) == []
        held = claim(ledger, held.plan)
        ledger.finish(held, State.FAILED, {"message": "y"})
        assert [row["error_message"] for row in table(folder)] == ["x", "y"]


def test_a_runner_that_was_paused_does_not_bring_back_what_has_ended(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    late: list[Callable[[], object]] = []
    show = ReportTableWriter.show

    with opened(folder) as paused, opened(folder) as ledger:
        plan = plan_one(ledger)
        with monkeypatch.context() as held_back:
            held_back.setattr(
                ReportTableWriter, "show", lambda *of, **how: late.append(partial(show, *of, **how))
            )
            claim(paused, plan)
        held = ledger.claim(plan, owner=OTHER, run_id="other", lease=MINUTE, dead=ME)
        ledger.finish(held, State.FAILED, {"message": "x"})
        before = table(folder)
        for one in late:
            one()
        assert table(folder) == before


def test_many_runners_leave_each_attempt_once_with_a_number_of_its_own(folder: Path) -> None:
    flows = [f"f{number}" for number in range(12)]

    def work(mine: int) -> None:
        with opened(folder) as ledger:
            for flow in flows[mine::3]:
                held = claim(ledger, plan_one(ledger, flow))
                ledger.finish(held, State.FAILED, {"message": flow})
                succeed(ledger, claim(ledger, held.plan))

    opened(folder).close()
    children = [processes.start(partial(work, mine), fresh=True) for mine in range(3)]
    for child in children:
        child.answer()
    found = table(folder)
    assert sorted((row["table_name"], row["sync_status"]) for row in found) == sorted(
        (flow, state) for flow in flows for state in ("FAILED", "SUCCESS")
    )
    assert [row["sync_run_id"] for row in found] == list(range(1, 25))


def test_prune_forgets_here_what_it_forgets_there(folder: Path) -> None:
    with opened(folder) as ledger:
        tell(ledger)
        ledger.prune(before=ledger.now() + MINUTE)
        assert standing(folder) == [("idle", "SUCCESS"), ("orders", "RUNNING")]
        assert plain(table(folder)) == plain(asked(ledger))
