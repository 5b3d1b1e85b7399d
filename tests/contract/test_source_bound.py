"""How far it is safe to read while others write: real transactions, held open at the worst moment."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.project import until
from tests.support.servers import MariaDB, Postgres, start_mariadb, start_postgres
from tests.support.source_parts import Place, batches, mysql_place, postgresql_place, sqlite_place
from tidegauge.model.position import RowPosition, Value, ValueKind
from tidegauge.model.secret import Secret
from tidegauge.model.spec import Engine
from tidegauge.model.table import Survey
from tidegauge.sources import bound_wait as bound_wait
from tidegauge.sources.dialect import COMMENT
from tidegauge.sources.open import open_source

SECOND = timedelta(seconds=1)
INSERT = "INSERT INTO t (note) VALUES ('{}')"


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is open here stays open until the test is done with it."""
    monkeypatch.setattr(bound_wait, "LONG", 1.0)


@pytest.fixture(params=["mysql", "postgresql"])
def place(request: pytest.FixtureRequest) -> Place:
    if request.param == "mysql":
        made = mysql_place(request.getfixturevalue("mariadb"))
        make_table(made)
        return made
    made = postgresql_place(request.getfixturevalue("postgres"))
    make_table(made)
    return made


def make_table(place: Place) -> None:
    if place.engine is Engine.MYSQL:
        place.run(
            "CREATE TABLE t (id bigint AUTO_INCREMENT PRIMARY KEY, note varchar(50),"
            " at timestamp(6) NOT NULL DEFAULT current_timestamp(6), KEY (at))"
        )
    else:
        place.run(
            "CREATE TABLE t (id bigserial PRIMARY KEY, note text, at timestamptz NOT NULL DEFAULT now())"
        )
        place.run("CREATE INDEX ON t (at)")


@contextmanager
def transaction(place: Place) -> Iterator[Any]:
    """An open transaction; it is rolled back unless the test commits it."""
    connection = place.connect()
    if place.engine is Engine.MYSQL:
        connection.autocommit(False)
        cursor = connection.cursor()
    else:
        connection.autocommit = False
        cursor = connection.cursor()
    try:
        yield cursor
    finally:
        connection.rollback()
        connection.close()


def notes_of(place: Place, survey_of: tuple[Any, Survey], after: RowPosition | None) -> list[str]:
    source_table, survey = survey_of
    found = [row for batch in batches(survey, after) for row in place.read(source_table, batch, "note")]
    return sorted(row[0] for row in found)


def moment(survey: Survey) -> datetime:
    assert survey.upto is not None
    return datetime.fromisoformat(survey.upto.cursor.text)


def reached(place: Place, survey: Survey) -> datetime:
    """How far a survey may read beside open work. MySQL cannot say when that was begun, so nothing is safe
    that was not looked at before."""
    if place.engine is Engine.MYSQL and survey.upto is None:
        assert survey.pending
        return datetime.min
    return moment(survey)


def utc_now() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None)


@contextmanager
def waiting(place: Place, statement: str, run: Callable[[str], object]) -> Iterator[None]:
    """A statement that is under way until the block ends: `{}` is what it waits for."""
    name = uuid.uuid4().hex[:8]
    if place.engine is Engine.MYSQL:
        take = lock = f"GET_LOCK('{name}', 600)"
        others = "information_schema.PROCESSLIST WHERE STATE = 'User lock'"
        seen = f"SELECT 1 FROM {others} AND INFO LIKE '%{name}%'"
    else:
        take = f"pg_advisory_lock({int(name, 16)})"
        lock = f"{take}::text"
        seen = (
            "SELECT 1 FROM pg_locks l JOIN pg_database d ON d.oid = l.database"
            " WHERE locktype = 'advisory' AND NOT granted AND datname = current_database()"
        )
    holder = place.connect()
    holder.cursor().execute(f"SELECT {take}")
    writer = threading.Thread(target=run, args=(statement.format(lock),))
    writer.start()
    try:
        until(lambda: place.run(seen))
        yield
        assert writer.is_alive()
    finally:
        holder.close()
        writer.join()


def test_a2_a_row_of_an_open_transaction_arrives_in_the_next_window(place: Place) -> None:
    with transaction(place) as late:
        late.execute(INSERT.format("late"))
        time.sleep(1.1)
        place.run(INSERT.format("early"))
        first = place.survey("t")
        got = notes_of(place, first, None)
        assert got == []
        late.connection.commit()
    upto = first[1].upto
    time.sleep(1.1)
    second = place.survey("t", after=upto)
    assert notes_of(place, second, upto) == ["early", "late"]


def test_a2_a_statement_that_still_runs_holds_the_bound(place: Place) -> None:
    with waiting(place, "INSERT INTO t (note) SELECT concat('slow', left({}, 0))", place.run):
        time.sleep(2)
        first = place.survey("t")
        assert reached(place, first[1]) < utc_now() - timedelta(seconds=1.5)
        assert notes_of(place, first, None) == []
    time.sleep(1.1)
    second = place.survey("t", after=first[1].upto)
    assert notes_of(place, second, first[1].upto) == ["slow"]


def test_a3_a_commit_between_bound_and_read_belongs_to_the_next_window(place: Place) -> None:
    place.run(INSERT.format("before"))
    time.sleep(1.1)
    first = place.survey("t")
    place.run(INSERT.format("between"))
    assert notes_of(place, first, None) == ["before"]
    time.sleep(1.1)
    second = place.survey("t", after=first[1].upto)
    assert notes_of(place, second, first[1].upto) == ["between"]


def test_a4_a_row_that_changes_between_two_readers_of_a_batch_comes_again_later(place: Place) -> None:
    for i in range(10):
        place.run(INSERT.format(f"n{i}"))
    time.sleep(1.1)
    source_table, survey = place.survey("t", step=5)
    (batch,) = batches(survey, None, 2)
    lower, upper = (replace(batch, windows=(window,), split_points=()) for window in split_windows(batch))
    got = [row[0] for row in place.read(source_table, lower, "note")]
    clock = "current_timestamp(6)" if place.engine is Engine.MYSQL else "clock_timestamp()"
    place.run(f"UPDATE t SET note = 'changed', at = {clock} WHERE note IN ('n1', 'n8')")
    got += [row[0] for row in place.read(source_table, upper, "note")]
    time.sleep(1.1)
    second = place.survey("t", after=survey.upto)
    later = notes_of(place, second, survey.upto)
    # n1 was read before it changed and n8 moved away unread: both come with the next window.
    assert sorted(got) == sorted(f"n{i}" for i in range(10) if i != 8)
    assert later == ["changed", "changed"]


def split_windows(batch: Any) -> list[Any]:
    from tidegauge.model.position import Window

    (window,) = batch.windows
    (split,) = batch.split_points
    return [Window(window.after, split), Window(split, window.upto)]


def test_a5_rows_that_move_while_they_are_paged_are_never_lost(place: Place) -> None:
    for i in range(60):
        place.run(INSERT.format(f"n{i}"))
    clock = "current_timestamp(6)" if place.engine is Engine.MYSQL else "clock_timestamp()"
    over = threading.Event()

    def hammer() -> None:
        connection = place.connect()
        cursor = connection.cursor()
        turn = 0
        while not over.is_set():
            turn += 1
            cursor.execute(f"UPDATE t SET note = 'v{turn}', at = {clock} WHERE id = {turn % 60 + 1}")
        connection.close()

    writer = threading.Thread(target=hammer)
    writer.start()
    target: dict[int, str] = {}
    after: RowPosition | None = None
    try:
        for _ in range(8):
            after = copy_once(place, after, target)
    finally:
        over.set()
        writer.join()
    time.sleep(1.2)
    copy_once(place, after, target)
    assert target == {row[0]: row[1] for row in place.run("SELECT id, note FROM t")}


def copy_once(place: Place, after: RowPosition | None, target: dict[int, str]) -> RowPosition | None:
    source_table, survey = place.survey("t", after=after, step=7)
    for batch in batches(survey, after):
        for number, note in place.read(source_table, batch, "id, note"):
            target[number] = note
    return survey.upto or after


def test_a8_rows_stamped_early_by_a_skewed_clock_arrive_within_settle(place: Place) -> None:
    settle = timedelta(seconds=10)
    place.run(INSERT.format("old"))
    _, survey = place.survey("t", settle=settle)
    assert moment(survey) <= utc_now() - settle
    stamp = (utc_now() - timedelta(seconds=8)).isoformat(sep=" ")
    place.run(f"INSERT INTO t (note, at) VALUES ('skewed', '{stamp}')")
    second = place.survey("t", after=survey.upto)
    assert "skewed" in notes_of(place, second, survey.upto)


def test_a8_settle_also_counts_from_the_start_of_an_open_transaction(place: Place) -> None:
    settle = timedelta(seconds=5)
    with transaction(place) as late:
        late.execute("SELECT 1")
        late.execute("SELECT COUNT(*) FROM t")
        began = utc_now()
        time.sleep(1)
        _, survey = place.survey("t", settle=settle)
        assert reached(place, survey) <= began - settle


def test_a9_a_row_dated_in_the_future_waits_and_is_reported(place: Place) -> None:
    place.run(INSERT.format("now"))
    place.run("INSERT INTO t (note, at) VALUES ('future', '2037-01-01 00:00:00')")
    time.sleep(1.1)
    source_table, survey = place.survey("t")
    assert survey.rows_waiting == 1
    assert notes_of(place, (source_table, survey), None) == ["now"]
    assert moment(survey) < utc_now() + SECOND


def test_a22_a_transaction_that_has_written_nothing_yet_counts(place: Place) -> None:
    with transaction(place) as late:
        late.execute("SELECT COUNT(*) FROM t")
        time.sleep(1.5)
        place.run(INSERT.format("early"))
        first = place.survey("t")
        got = notes_of(place, first, None)
        late.execute(INSERT.format("late"))
        late.connection.commit()
    time.sleep(1.1)
    second = place.survey("t", after=first[1].upto)
    got += notes_of(place, second, first[1].upto)
    assert sorted(got) == ["early", "late"]


def test_a22_a_prepared_transaction_counts(postgres: Postgres) -> None:
    place = postgresql_place(postgres)
    make_table(place)
    name = place.database.database
    connection = place.connect()
    connection.execute("BEGIN")
    connection.execute(INSERT.format("prepared"))
    connection.execute(f"PREPARE TRANSACTION '{name}'")
    try:
        time.sleep(1)
        settle = timedelta(milliseconds=500)
        first = place.survey("t", settle=settle)
        assert moment(first[1]) < utc_now() - SECOND
        assert any("prepared transaction" in note for note in first[1].notes)
    finally:
        connection.execute(f"COMMIT PREPARED '{name}'")
    second = place.survey("t", after=first[1].upto)
    assert notes_of(place, second, first[1].upto) == ["prepared"]


def test_a23_a_login_that_cannot_see_others_says_so_and_relies_on_settle(
    mariadb: MariaDB, postgres: Postgres
) -> None:
    for server, place in ((mariadb, mysql_place(mariadb)), (postgres, postgresql_place(postgres))):
        make_table(place)
        place.run(INSERT.format("row"))
        bare = server.bare_login()
        blind = replace(
            place, database=replace(place.database, user=bare.user, password=Secret(bare.password))
        )
        with transaction(place) as open_one:
            open_one.execute("SELECT COUNT(*) FROM t")
            time.sleep(1)
            asked_at = utc_now()
            _, survey = blind.survey("t", settle=SECOND)
            assert any("may not see other sessions" in note for note in survey.notes)
            assert asked_at - timedelta(seconds=1.5) < moment(survey) <= utc_now() - SECOND
        _, clear = place.survey("t")
        assert not any("may not see" in note for note in clear.notes)


def test_a23_without_sight_a_value_ripens_after_settle(mariadb: MariaDB, postgres: Postgres) -> None:
    for server, place in ((mariadb, mysql_place(mariadb)), (postgres, postgresql_place(postgres))):
        make_table(place)
        place.run(INSERT.format("one"))
        bare = server.bare_login()
        blind = replace(
            place, database=replace(place.database, user=bare.user, password=Secret(bare.password))
        )
        _, first = blind.survey("t", cursor="id", settle=SECOND)
        assert first.upto is None
        assert first.pending
        place.run(INSERT.format("two"))
        time.sleep(1.1)
        _, second = blind.survey("t", cursor="id", settle=SECOND, pending=first.pending)
        assert second.upto == RowPosition(Value(ValueKind.INT, "1"))
        assert second.pending != first.pending


def test_a24_the_transaction_that_holds_the_bound_is_named_and_may_be_ignored(place: Place) -> None:
    with transaction(place) as forgotten:
        forgotten.execute("SELECT COUNT(*) FROM t WHERE note = 'a secret value'")
        time.sleep(2.2)
        _, survey = place.survey("t", settle=timedelta(milliseconds=100))
        (held,) = (note for note in survey.notes if "held back" in note)
        assert "connection" in held
        assert place.database.user is not None
        assert place.database.user in held
        assert "idle in transaction" in held
        assert "a secret value" not in held
        assert reached(place, survey) < utc_now() - timedelta(seconds=2)
        asked_at = utc_now()
        _, bold = place.survey("t", ignore_transactions_after=SECOND)
        assert any(note.startswith("risk:") for note in bold.notes)
        assert moment(bold) > asked_at - SECOND


def test_a25_a_lower_number_that_commits_after_a_higher_one_is_not_lost(place: Place) -> None:
    with transaction(place) as first:
        first.execute(INSERT.format("one"))
        place.run(INSERT.format("two"))
        source_table, survey = place.survey("t", cursor="id")
        assert survey.upto is None
        assert survey.pending
        assert any("wait for" in note for note in survey.notes)
        first.connection.commit()
    time.sleep(1.1)
    source_table, survey = place.survey("t", cursor="id", pending=survey.pending)
    assert notes_of(place, (source_table, survey), None) == ["one", "two"]
    assert survey.pending is None


def test_a25_a_steady_stream_of_transactions_does_not_starve_the_bound(place: Place) -> None:
    pending: str | None = None
    reached = 0
    with transaction(place) as one:
        one.execute(INSERT.format("x"))
        for _ in range(4):
            with transaction(place) as other:
                other.execute(INSERT.format("y"))
                _, survey = place.survey("t", cursor="id", pending=pending)
                pending = survey.pending
                one.connection.commit()
                one.execute("SELECT 1")
                time.sleep(1.2)
                one.execute(INSERT.format("x"))
                other.connection.commit()
                _, survey = place.survey("t", cursor="id", pending=pending)
                pending = survey.pending
                if survey.upto is not None:
                    reached = max(reached, int(survey.upto.cursor.text))
    assert reached > 0


def test_a25_nothing_new_is_nothing_to_wait_for(place: Place) -> None:
    place.run(INSERT.format("one"))
    _, survey = place.survey("t", cursor="id")
    assert survey.upto == RowPosition(Value(ValueKind.INT, "1"))
    _, again = place.survey("t", cursor="id", after=survey.upto)
    assert again.upto is None
    assert again.pending is None
    assert again.cuts == ()


def test_a25_sqlite_has_one_writer_and_nothing_to_wait_for(tmp_path: Path) -> None:
    place = sqlite_place(tmp_path)
    place.run("CREATE TABLE t (id INTEGER PRIMARY KEY, note TEXT)")
    place.run("INSERT INTO t (note) VALUES ('a')")
    writer = place.connect()
    writer.execute("PRAGMA journal_mode = WAL")
    writer.execute("BEGIN IMMEDIATE")
    writer.execute("INSERT INTO t (note) VALUES ('b')")
    _, survey = place.survey("t", cursor="id", settle=timedelta(hours=1))
    assert survey.upto == RowPosition(Value(ValueKind.INT, "1"))
    writer.execute("COMMIT")
    _, survey = place.survey("t", cursor="id", after=survey.upto, settle=timedelta(hours=1))
    assert survey.upto == RowPosition(Value(ValueKind.INT, "2"))


@pytest.mark.parametrize("mode", ["", "TIME_ROUND_FRACTIONAL"])
def test_a14_a_second_that_is_not_over_is_not_read(mariadb: MariaDB, mode: str) -> None:
    place = mysql_place(mariadb)
    place.run("CREATE TABLE t (id int AUTO_INCREMENT PRIMARY KEY, note varchar(9), at datetime NOT NULL)")
    connection = place.connect()
    cursor = connection.cursor()
    cursor.execute(f"SET sql_mode = '{mode}'")
    target: dict[int, str] = {}
    after: RowPosition | None = None
    until = time.monotonic() + 3
    while time.monotonic() < until:
        cursor.execute("INSERT INTO t (note, at) VALUES ('x', NOW(6))")
        after = copy_once(place, after, target)
    time.sleep(2.5)
    copy_once(place, after, target)
    assert len(target) == place.run("SELECT COUNT(*) FROM t")[0][0]


def test_a15_a_naive_column_waits_for_the_servers_own_zone() -> None:
    with start_mariadb(
        options=["--default-time-zone=-05:00", "--transaction-isolation=READ-COMMITTED"]
    ) as server:
        place = mysql_place(server)
        place.run("CREATE TABLE t (id int PRIMARY KEY, naive datetime NOT NULL, at timestamp NOT NULL)")
        local = server.connect(place.database.database)
        with local, local.cursor() as cursor:
            cursor.execute("INSERT INTO t VALUES (1, NOW(), NOW())")
        time.sleep(2.1)
        asked_at = utc_now()
        _, naive = place.survey("t", cursor="naive")
        assert asked_at - timedelta(hours=5, seconds=9) < moment(naive) < utc_now() - timedelta(hours=4.9)
        assert sum(cut.rows for cut in naive.cuts) == 1
        assert any("-05:00" in note for note in naive.notes)
        _, instant = place.survey("t", cursor="at")
        assert moment(instant) > asked_at - timedelta(seconds=9)
        assert sum(cut.rows for cut in instant.cuts) == 1


def test_a16_an_hour_that_happens_twice_is_not_passed_over() -> None:
    with start_postgres(options=["timezone=America/New_York"]) as server:
        place = postgresql_place(server)
        place.run("CREATE TABLE t (id int PRIMARY KEY, naive timestamp NOT NULL, at timestamptz NOT NULL)")
        # Both are half past one on the night that the clock goes back, an hour apart.
        place.run("INSERT INTO t VALUES (1, '2024-11-03 01:30', '2024-11-03 01:30-04')")
        place.run("INSERT INTO t VALUES (2, '2024-11-03 01:30', '2024-11-03 01:30-05')")
        _, instant = place.survey("t", cursor="at", step=1)
        assert instant.cuts[0].position.cursor.text == "2024-11-03 05:30:00.000000"
        source_table, naive = place.survey("t", cursor="naive", step=1)
        found = [row for batch in batches(naive, None) for row in place.read(source_table, batch, "id")]
        assert sorted(found) == [(1,), (2,)]
        # In summer the wall clock is an hour ahead of what it falls back to; the bound never is.
        assert moment(naive) <= utc_now() - timedelta(hours=5)
        assert moment(instant) > utc_now() - timedelta(minutes=1)


def test_a2_what_is_open_is_never_an_old_copy(place: Place) -> None:
    """InnoDB's list of transactions is a copy that the server renews only now and then."""
    source: Any = open_source(place.database)
    for turn in range(3):
        source._dialect.read_clock(fresh=True)
        with transaction(place) as late:
            late.execute(INSERT.format(turn))
            ask = "SELECT CONNECTION_ID()" if place.engine is Engine.MYSQL else "SELECT pg_backend_pid()"
            late.execute(ask)
            (number,) = late.fetchone()
            seen = source._dialect.read_clock(fresh=True)
            assert any(f"connection {number} " in work.who for work in seen.open)
            assert all(work.started <= seen.clock for work in seen.open)
        gone = source._dialect.read_clock(fresh=True)
        assert not any(f"connection {number} " in work.who for work in gone.open)
    source.close()


def test_many_flows_can_look_at_once(place: Place) -> None:
    place.run(INSERT.format("x"))
    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(lambda _: place.survey("t", cursor="id")[1], range(12)))
    assert all(survey.upto == RowPosition(Value(ValueKind.INT, "1")) for survey in found)


def test_our_own_sessions_do_not_hold_the_bound(place: Place) -> None:
    place.run(INSERT.format("x"))
    source: Any = open_source(place.database)
    with waiting(place, f"SELECT {COMMENT} COUNT(*), {{}} FROM t", source._dialect.rows):
        time.sleep(1.5)
        asked_at = utc_now()
        _, survey = place.survey("t")
    source.close()
    assert moment(survey) > asked_at - SECOND
    assert not any("held back" in note for note in survey.notes)
