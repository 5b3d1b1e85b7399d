"""Rows whose stamp is older than their transaction, on real servers: a bound waits for who was open (A27)."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tests.contract.test_source_bound import (
    INSERT,
    hurry,
    make_table,
    moment,
    notes_of,
    place,
    transaction,
    utc_now,
)
from tests.support.project import until
from tests.support.servers import MariaDB
from tests.support.source_parts import Place, asked, mysql_place
from tidegauge.model.pending import Pending
from tidegauge.model.secret import Secret
from tidegauge.model.spec import Engine
from tidegauge.sources.open import open_source

__all__ = ["hurry", "place"]

LOCKS = {
    Engine.MYSQL: ("LOCK TABLES gate WRITE", "UNLOCK TABLES"),
    Engine.POSTGRESQL: ("LOCK TABLE gate IN ACCESS EXCLUSIVE MODE", "ROLLBACK"),
}
LATE = "INSERT INTO t (note) SELECT 'late' FROM gate"
WAITING = {
    Engine.MYSQL: "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE STATE LIKE 'Waiting for table%'"
    " AND DB = DATABASE()",
    Engine.POSTGRESQL: "SELECT COUNT(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    " AND datname = current_database()",
}


@contextmanager
def held_up(place: Place, late: Any) -> Iterator[None]:
    """Inside, a statement that inserts into t waits for the lock of another table; outside it is through."""
    place.run("CREATE TABLE gate (id int PRIMARY KEY)")
    place.run("INSERT INTO gate VALUES (1)")
    lock, unlock = LOCKS[place.engine]
    with ThreadPoolExecutor(1) as pool, transaction(place) as owner:
        owner.execute(lock)
        waits = pool.submit(late.execute, LATE)
        until(lambda: place.run(WAITING[place.engine])[0][0] == 1)
        yield
        owner.execute(unlock)
        waits.result()


def pass_by(seconds: float) -> None:
    """Longer than any `settle` here and than the whole second that InnoDB rounds a start to."""
    time.sleep(seconds)


@pytest.mark.parametrize("settle", [0, 1])
def test_a27_a_row_stamped_before_its_transaction_began_arrives(place: Place, settle: int) -> None:
    """It waited for the table's lock, and its transaction then stays open and idle."""
    pause = timedelta(seconds=settle)
    with transaction(place) as late:
        with held_up(place, late):
            pass_by(settle + 2.2)
        first = place.survey("t", settle=pause)
        got = notes_of(place, first, None)
        late.connection.commit()
    pass_by(settle + 0.1)
    second = place.survey("t", after=first[1].upto, pending=first[1].pending, settle=pause)
    assert got + notes_of(place, second, first[1].upto) == ["late"]


def test_a27_a_look_while_the_statement_waits_and_one_while_its_transaction_idles(place: Place) -> None:
    with transaction(place) as late:
        with held_up(place, late):
            first = place.survey("t")
            pass_by(2.2)
        second = place.survey("t", after=first[1].upto, pending=first[1].pending)
        upto = second[1].upto or first[1].upto
        got = notes_of(place, first, None) + notes_of(place, second, first[1].upto)
        late.connection.commit()
    pass_by(0.1)
    third = place.survey("t", after=upto, pending=second[1].pending)
    assert got + notes_of(place, third, upto) == ["late"]


def test_a27_a_number_drawn_before_the_transaction_began_arrives(mariadb: MariaDB) -> None:
    place = mysql_place(mariadb)
    place.run("CREATE SEQUENCE s")
    place.run("CREATE TABLE t (id bigint PRIMARY KEY, note varchar(50))")
    slow = "INSERT INTO t SELECT NEXTVAL(s), concat('slow', left(SLEEP(3), 0))"
    with transaction(place) as late, ThreadPoolExecutor(1) as pool:
        waits = pool.submit(late.execute, slow)
        until(lambda: place.run("SELECT next_not_cached_value FROM s")[0][0] > 1)
        place.run("INSERT INTO t SELECT NEXTVAL(s), 'quick'")
        first = place.survey("t", cursor="id")
        got = notes_of(place, first, None)
        waits.result()
        second = place.survey("t", cursor="id", after=first[1].upto, pending=first[1].pending)
        upto = second[1].upto or first[1].upto
        got += notes_of(place, second, first[1].upto)
        late.connection.commit()
    third = place.survey("t", cursor="id", after=upto, pending=second[1].pending)
    assert sorted(got + notes_of(place, third, upto)) == ["quick", "slow"]


def test_a27_a_prepared_transaction_whose_statement_waited_arrives(mariadb: MariaDB) -> None:
    """After XA PREPARE its connection goes away, and the transaction is nobody's."""
    place = mysql_place(mariadb)
    make_table(place)
    name = place.database.database
    connection = place.connect()
    late = connection.cursor()
    late.execute(f"XA START '{name}'")
    try:
        with held_up(place, late):
            first = place.survey("t")
            pass_by(2.2)
        late.execute(f"XA END '{name}'")
        late.execute(f"XA PREPARE '{name}'")
        connection.close()
        second = place.survey("t", after=first[1].upto, pending=first[1].pending)
        got = notes_of(place, first, None) + notes_of(place, second, first[1].upto)
    finally:
        place.run(f"XA COMMIT '{name}'")
    upto = second[1].upto or first[1].upto
    third = place.survey("t", after=upto, pending=second[1].pending)
    assert got + notes_of(place, third, upto) == ["late"]


def test_a27_the_work_of_before_is_told_from_the_next_of_the_same_connection(mariadb: MariaDB) -> None:
    """A connection that is never at rest holds nothing back: each of its transactions ends."""
    place = mysql_place(mariadb)
    make_table(place)
    source: Any = open_source(place.database)
    over = threading.Event()

    def hammer() -> None:
        with transaction(place) as cursor:
            while not over.is_set():
                cursor.execute(INSERT.format("x"))
                cursor.connection.commit()

    with ThreadPoolExecutor(2) as pool:
        writers = [pool.submit(hammer) for _ in range(2)]
        try:
            until(lambda: place.run("SELECT COUNT(*) FROM t")[0][0] > 20)
            source_table = source.describe(place.table("t"), asked())
            for _ in range(3):
                survey = source.survey(source_table, None, 1_000_000, None)
                assert not Pending(survey.pending or "").points
                assert moment(survey) > utc_now() - timedelta(seconds=5)
        finally:
            over.set()
        for writer in writers:
            writer.result()
    source.close()


def test_a27_a_login_without_sight_still_relies_on_settle(mariadb: MariaDB) -> None:
    place = mysql_place(mariadb)
    make_table(place)
    bare = mariadb.bare_login()
    blind = replace(place, database=replace(place.database, user=bare.user, password=Secret(bare.password)))
    with transaction(place) as late:
        late.execute(INSERT.format("late"))
        _, survey = blind.survey("t", settle=timedelta(seconds=1))
        assert survey.upto is not None
        assert survey.pending is None
