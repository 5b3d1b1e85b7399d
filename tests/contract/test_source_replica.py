"""Reading from real replicas, which are held back at the worst moment."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import psycopg
import pymysql
import pytest
from pymysql.cursors import DictCursor

from tests.contract.test_source_bound import INSERT, make_table, moment, notes_of, transaction
from tests.support.project import until
from tests.support.servers import MariaDB, Postgres, start_postgres, start_replica, start_standby
from tests.support.source_parts import Place, mysql_place, postgresql_place
from tidegauge.errors import SourceUnreachable
from tidegauge.model.position import RowPosition, Value, ValueKind
from tidegauge.model.secret import Secret
from tidegauge.model.spec import Engine

SETTLE = timedelta(seconds=2)
BLIND = "this server replicates from another one, and does not see what is open there: only `settle` guards"


@dataclass(frozen=True)
class Pair:
    """A database on a primary and on its replica, with the same table on both."""

    primary: Place
    replica: Place

    @contextmanager
    def held(self) -> Iterator[None]:
        """Inside the block the replica receives what is committed, and does not apply it."""
        if self.primary.engine is Engine.POSTGRESQL:
            self.replica.run("SELECT pg_wal_replay_pause()")
            until(lambda: self.replica.run("SELECT pg_get_wal_replay_pause_state()") == [("paused",)])
            try:
                yield
            finally:
                self.replica.run("SELECT pg_wal_replay_resume()")
            return
        with closing(self.replica.connect()) as connection, connection.cursor() as cursor:
            cursor.execute("LOCK TABLES t READ")
            yield

    def await_received(self) -> None:
        """Wait until the held replica knows that there is something to apply."""
        if self.primary.engine is Engine.MYSQL:
            until(lambda: _count_seconds_behind(self.replica) not in (0, None))

    def await_applied(self) -> None:
        """Commit one more transaction, and wait until the replica has it."""
        self.primary.run("UPDATE beat SET n = n + 1")
        [(number,)] = self.primary.run("SELECT n FROM beat")
        until(lambda: list(self.replica.run("SELECT n FROM beat")) == [(number,)])


@pytest.fixture(scope="module")
def mariadbs() -> Iterator[tuple[MariaDB, MariaDB]]:
    with start_replica() as servers:
        yield servers


@pytest.fixture(scope="module")
def postgreses() -> Iterator[tuple[Postgres, Postgres]]:
    with start_postgres() as primary, start_standby(primary) as standby:
        yield primary, standby


@pytest.fixture
def pair(request: pytest.FixtureRequest) -> Pair:
    return make_pair(*request.getfixturevalue(request.param))


def make_pair(primary: Any, replica: Any) -> Pair:
    make = mysql_place if isinstance(primary, MariaDB) else postgresql_place
    one = make(primary)
    make_table(one)
    one.run("CREATE TABLE beat (n int)")
    one.run("INSERT INTO beat VALUES (0)")
    two = make(replica, one.database.database)
    until(lambda: _has_rows(two, "beat"))
    return Pair(one, two)


def _has_rows(place: Place, table: str) -> bool:
    """False also while the replica has not made the table or its database yet."""
    try:
        return bool(place.run(f"SELECT 1 FROM {table}"))
    except (pymysql.Error, psycopg.Error):
        return False


def _count_seconds_behind(replica: Place) -> Any:
    with closing(replica.connect()) as connection, connection.cursor(DictCursor) as cursor:
        cursor.execute("SHOW ALL SLAVES STATUS")
        return cursor.fetchone()["Seconds_Behind_Master"]


ON_BOTH = pytest.mark.parametrize("pair", ["mariadbs", "postgreses"], indirect=True)


@ON_BOTH
def test_a2_a7_a_row_that_commits_late_on_the_primary_arrives_from_a_replica_that_lags(pair: Pair) -> None:
    """The transaction is shorter than `settle`, which guards against it as on the primary."""
    with transaction(pair.primary) as late:
        late.execute(INSERT.format("late"))
        time.sleep(0.3)
        pair.primary.run(INSERT.format("early"))
        until(lambda: list(pair.replica.run("SELECT COUNT(*) FROM t")) == [(1,)])
        with pair.held():
            late.connection.commit()
            pair.await_received()
            time.sleep(SETTLE.total_seconds() + 1)
            first = pair.replica.survey("t", settle=SETTLE)
            got = notes_of(pair.replica, first, None)
    assert got == []
    assert any(BLIND in note for note in first[1].notes)

    def everything() -> list[str]:
        pair.await_applied()
        second = pair.replica.survey("t", after=first[1].upto, settle=SETTLE)
        return got + notes_of(pair.replica, second, first[1].upto)

    until(lambda: len(everything()) == 2, every=0.5)
    assert everything() == ["early", "late"]


@ON_BOTH
def test_a7_what_the_replica_has_not_applied_is_not_checked(pair: Pair) -> None:
    pair.await_applied()
    with pair.held():
        pair.primary.run(INSERT.format("row"))
        pair.await_received()
        time.sleep(2)
        _, before = pair.replica.survey("t")
        time.sleep(2)
        _, after = pair.replica.survey("t")
        assert moment(after) - moment(before) < timedelta(seconds=1.5)
    until(lambda: list(pair.replica.run("SELECT COUNT(*) FROM t")) == [(1,)])
    time.sleep(1.1)
    pair.await_applied()
    last = pair.replica.survey("t")
    assert notes_of(pair.replica, last, None) == ["row"]


@ON_BOTH
def test_a7_a_value_ripens_once_the_replica_has_applied_settle_more(pair: Pair) -> None:
    pair.primary.run(INSERT.format("one"))
    pair.await_applied()
    _, first = pair.replica.survey("t", cursor="id", settle=SETTLE)
    assert first.upto is None
    with pair.held():
        pair.primary.run(INSERT.format("two"))
        pair.await_received()
        time.sleep(SETTLE.total_seconds() + 0.5)
        _, second = pair.replica.survey("t", cursor="id", settle=SETTLE, pending=first.pending)
        assert second.upto is None
    until(lambda: list(pair.replica.run("SELECT COUNT(*) FROM t")) == [(2,)])
    pair.await_applied()
    time.sleep(1.1)
    pair.await_applied()
    _, third = pair.replica.survey("t", cursor="id", settle=SETTLE, pending=second.pending)
    assert third.upto == RowPosition(Value(ValueKind.INT, "1"))


def test_a7_a_mariadb_replica_that_does_not_replicate_is_an_error(mariadbs: tuple[MariaDB, MariaDB]) -> None:
    pair = make_pair(*mariadbs)
    pair.replica.run("STOP SLAVE SQL_THREAD")
    try:
        with pytest.raises(
            SourceUnreachable, match=r"^app: the server is a replica that does not replicate now"
        ) as caught:
            pair.replica.survey("t")
        assert caught.value.retryable
        pair.replica.run("STOP SLAVE")
        with pytest.raises(SourceUnreachable, match="a replica that does not replicate now"):
            pair.replica.survey("t")
        pair.replica.run("SET GLOBAL read_only = OFF")
        _, survey = pair.replica.survey("t")
        assert any("RESET SLAVE ALL says that it is a primary now" in note for note in survey.notes)
    finally:
        pair.replica.run("SET GLOBAL read_only = ON")
        pair.replica.run("START SLAVE")
    _, survey = pair.primary.survey("t")
    assert not any("replica" in note for note in survey.notes)


def test_a7_a_login_that_may_not_ask_how_far_the_replica_is_says_so(
    mariadbs: tuple[MariaDB, MariaDB],
) -> None:
    pair = make_pair(*mariadbs)
    bare = mariadbs[1].bare_login()
    login = replace(pair.replica.database, user=bare.user, password=Secret(bare.password))
    _, survey = replace(pair.replica, database=login).survey("t")
    assert any("GRANT SLAVE MONITOR ON *.*" in note and BLIND in note for note in survey.notes)
    pair.replica.run(f"GRANT PROCESS, SLAVE MONITOR ON *.* TO {bare.user}@'%'")
    _, survey = replace(pair.replica, database=login).survey("t")
    [note] = [note for note in survey.notes if BLIND in note]
    assert "GRANT" not in note


def test_a2_a7_what_is_open_on_a_writable_replica_itself_is_waited_for_too(
    mariadbs: tuple[MariaDB, MariaDB],
) -> None:
    pair = make_pair(*mariadbs)
    pair.replica.run("SET GLOBAL read_only = OFF")
    try:
        pair.replica.run("CREATE TABLE own LIKE t")
        insert = INSERT.replace(" t ", " own ")
        with transaction(pair.replica) as late:
            late.execute(insert.format("late"))
            time.sleep(2)
            pair.replica.run(insert.format("early"))
            time.sleep(2)
            first = pair.replica.survey("own")
            got = notes_of(pair.replica, first, None)
            late.connection.commit()
        time.sleep(2.1)
        second = pair.replica.survey("own", after=first[1].upto, pending=first[1].pending)
    finally:
        pair.replica.run("SET GLOBAL read_only = ON")
    assert got == []
    assert notes_of(pair.replica, second, first[1].upto) == ["early", "late"]
    assert any(BLIND in note for note in second[1].notes)


def test_a7_an_aurora_reader_is_known_though_it_does_not_say_how_far_it_is(
    postgreses: tuple[Postgres, Postgres],
) -> None:
    pair = make_pair(*postgreses)
    pair.primary.run("CREATE FUNCTION aurora_version() RETURNS text LANGUAGE sql AS $$ SELECT '15.4' $$")
    pair.await_applied()
    _, survey = pair.replica.survey("t")
    assert any("longer than it is behind, which Aurora does not say" in note for note in survey.notes)
