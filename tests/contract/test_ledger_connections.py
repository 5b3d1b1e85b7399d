"""A ledger on a server: how often it asks, and what becomes of a call whose connection dies."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import event

from tests.support.cutting_proxy import cutting
from tests.support.drafts import ME, OTHER, draft, receipt
from tests.support.ledgers import open_sql
from tests.support.project import until
from tests.support.servers import MariaDB, Postgres
from tidegauge.errors import LedgerUnreachable, WrongState
from tidegauge.ledger.sql_ledger import SqlLedger
from tidegauge.model.claim import Claim
from tidegauge.model.state import State

MINUTE = timedelta(minutes=1)


@dataclass(frozen=True)
class Place:
    server: MariaDB | Postgres
    database: str

    @property
    def address(self) -> str:
        return self.server.address(self.database)

    def through(self, port: int) -> str:
        return replace(self.server, port=port).address(self.database)

    def connect(self) -> Any:
        return closing(self.server.connect(self.database))

    def kill_all(self) -> None:
        """End every session of the database, as an administrator or an idle timeout does."""
        with closing(self.server.connect()) as connection, connection.cursor() as cursor:
            if isinstance(self.server, Postgres):
                cursor.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s",
                    (self.database,),
                )
                return
            cursor.execute("SELECT id FROM information_schema.processlist WHERE db = %s", (self.database,))
            for (number,) in cursor.fetchall():
                with suppress(Exception):  # It has ended by itself.
                    cursor.execute(f"KILL {number}")

    def someone_waits(self) -> bool:
        """For a lock."""
        query = (
            "SELECT count(*) FROM pg_stat_activity WHERE datname = %s AND wait_event_type = 'Lock'"
            if isinstance(self.server, Postgres)
            else "SELECT count(*) FROM information_schema.innodb_trx t JOIN information_schema.processlist p"
            " ON p.id = t.trx_mysql_thread_id WHERE p.db = %s AND t.trx_state = 'LOCK WAIT'"
        )
        with closing(self.server.connect()) as connection, connection.cursor() as cursor:
            cursor.execute(query, (self.database,))
            return bool(cursor.fetchone()[0])


@pytest.fixture(params=["postgres", "mariadb"])
def place(request: pytest.FixtureRequest) -> Place:
    server: MariaDB | Postgres = request.getfixturevalue(request.param)
    return Place(server, server.create_database())


def hold(ledger: SqlLedger) -> Claim:
    plan = ledger.plan([draft()], owner=ME, run_id="run")["orders"]
    return ledger.claim(plan, owner=ME, run_id="run", lease=MINUTE)


def test_a_change_is_few_round_trips(place: Place) -> None:
    # Load, change and commit; psycopg waits for BEGIN, too, and may ask once more for what it has been sent.
    most = 5 if isinstance(place.server, Postgres) else 3
    with cutting(place.server.port) as proxy, open_sql(place.through(proxy.port)) as ledger:
        claim = hold(ledger)
        calls: list[Callable[[], None]] = [
            lambda: ledger.renew(claim, MINUTE),
            lambda: ledger.begin(claim, 0),
        ]
        for call in calls:
            before = proxy.trips
            call()
            assert proxy.trips - before <= most


def _calls(ledger: SqlLedger, claim: Claim) -> list[Callable[[], object]]:
    return [
        lambda: ledger.status("shop"),
        lambda: ledger.renew(claim, MINUTE),
        lambda: ledger.history("shop", failed=True),
        lambda: ledger.plan([draft("items")], owner=ME, run_id="run"),
        lambda: ledger.begin(claim, 0),
        lambda: ledger.advance(claim, 0, receipt(claim.plan, 0)),
        lambda: ledger.note("shop", "orders", "checked", owner=ME, reason="looked"),
    ]


def test_a_connection_that_died_in_the_pool_fails_nobody(place: Place) -> None:
    with open_sql(place.address) as ledger:
        for call in _calls(ledger, hold(ledger)):
            # Several lie there, all of them dead.
            with ThreadPoolExecutor(3) as pool:
                list(pool.map(lambda _: ledger.status("shop"), range(6)))
            place.kill_all()
            call()
        assert [one.event for one in ledger.history("shop", flow="orders")] == [
            "checked",
            "advanced",
            "claimed",
            "planned",
        ]
        assert [mark.seq for mark in ledger.watermarks("shop", ["orders"])] == [1]


@pytest.mark.parametrize("statement", ["SELECT flows.flow_key", "UPDATE plans", "INSERT INTO history"])
def test_a_connection_that_dies_before_the_commit_leaves_nothing_and_the_call_is_made_again(
    place: Place, statement: str
) -> None:
    with open_sql(place.address) as ledger:
        claim = hold(ledger)
        ledger.begin(claim, 0)
        deaths: list[str] = []

        def kill(_c: object, _k: object, sql: str, *_: object) -> None:
            if sql.startswith(statement) and not deaths:
                deaths.append(sql)
                place.kill_all()

        event.listen(ledger._engine, "before_cursor_execute", kill)
        ledger.advance(claim, 0, receipt(claim.plan, 0))
        assert deaths
        assert [one.event for one in ledger.history("shop", limit=2)] == ["advanced", "claimed"]
        assert [(mark.seq, mark.position) for mark in ledger.watermarks("shop")] == [
            (1, claim.plan.draft.batches[0].windows[0].upto)
        ]
        [status] = ledger.status("shop")
        assert status.last_run is not None
        assert (status.last_run.batches, status.last_run.rows_written) == (1, 10)


def test_a_server_that_ends_every_connection_is_not_asked_for_ever(place: Place) -> None:
    with open_sql(place.address) as ledger:
        claim = hold(ledger)
        tries: list[str] = []

        def kill(_c: object, _k: object, sql: str, *_: object) -> None:
            if sql.startswith("UPDATE plans"):
                tries.append(sql)
                place.kill_all()

        event.listen(ledger._engine, "before_cursor_execute", kill)
        with pytest.raises(LedgerUnreachable) as lost:
            ledger.renew(claim, MINUTE)
        assert lost.value.retryable
        assert len(tries) == 2


@pytest.mark.parametrize("heard", [True, False])
def test_b3_a_commit_whose_answer_is_lost_is_not_made_again(place: Place, heard: bool) -> None:
    with cutting(place.server.port) as proxy, open_sql(place.through(proxy.port)) as ledger:
        plan = ledger.plan([draft()], owner=ME, run_id="run")["orders"]
        # The message itself: BEGIN names READ COMMITTED.
        proxy.cut_at(b"COMMIT\0" if isinstance(place.server, Postgres) else b"\3COMMIT", heard=heard)
        with pytest.raises(LedgerUnreachable) as lost:
            ledger.claim(plan, owner=ME, run_id="run", lease=MINUTE)
        assert proxy.cuts == 1
        assert lost.value.retryable
        [status] = ledger.status("shop")
        told = (status.state, status.fence, status.owner)
        assert told == ((State.RUNNING, 1, ME) if heard else (State.PLANNED, 0, None))
        events = [one.event for one in ledger.history("shop")]
        assert events == (["claimed", "planned"] if heard else ["planned"])
        assert ledger.claim(plan, owner=OTHER, run_id="2", lease=MINUTE, dead=ME).fence == 1 + heard


def test_b8_what_was_committed_during_the_wait_for_the_lock_is_seen(place: Place) -> None:
    with open_sql(place.address) as ledger, place.connect() as holder, ThreadPoolExecutor(1) as pool:
        claim = hold(ledger)
        cursor = holder.cursor()
        cursor.execute("BEGIN")
        cursor.execute("SELECT flow_key FROM flows FOR UPDATE")
        # The row that is waited for stays as it is; what changes stands in another table.
        cursor.execute("UPDATE plans SET state = 'FAILED', lease_until = NULL")
        renewing = pool.submit(ledger.renew, claim, MINUTE)
        until(place.someone_waits)
        cursor.execute("COMMIT")
        with pytest.raises(WrongState, match="FAILED"):
            renewing.result()


def test_b9_the_clock_is_read_after_the_wait_for_the_lock(place: Place) -> None:
    with open_sql(place.address) as ledger, place.connect() as holder, ThreadPoolExecutor(1) as pool:
        claim = hold(ledger)
        cursor = holder.cursor()
        cursor.execute("BEGIN")
        cursor.execute("SELECT flow_key FROM flows FOR UPDATE")
        renewing = pool.submit(ledger.renew, claim, MINUTE)
        until(place.someone_waits)
        released = ledger.now()
        cursor.execute("COMMIT")
        renewing.result()
        [status] = ledger.status("shop")
        assert status.lease_until is not None
        assert status.lease_until >= released + MINUTE
