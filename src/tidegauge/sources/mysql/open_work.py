"""What is open on a MySQL or MariaDB server, and since when.

Two lists are needed, in this order: running statements, and InnoDB's transactions. A statement takes its
NOW() before InnoDB knows of its transaction, so the statements come first; if a statement ends in between and
its transaction does not, InnoDB's list has it. When the work began cannot be known: a statement that waits
for a table's lock has no transaction yet, and an idle transaction has no statement. So each work gets what
identifies it, and `bound_wait` waits for its end.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Protocol

from tidegauge.errors import SourceError, SourceUnreachable
from tidegauge.sources.dialect import COMMENT, ClockReading, OpenWork
from tidegauge.sources.statement import show_head

_IDLE = "'Sleep', 'Daemon', 'Binlog Dump', 'Binlog Dump GTID', 'Slave_IO', 'Slave_SQL', 'Slave_worker'"
_SECOND = timedelta(seconds=1)
_TRIES = 40
_PAUSE = 0.11
_READERS = 2**48
"""Numbers from here on are of transactions that have written nothing; they get others once they write."""

Offsets = tuple[timedelta, timedelta, str]


class PrivilegeMissing(SourceError):
    """The login lacks a privilege that belongs to no table, such as PROCESS."""


class MysqlOpenSession(Protocol):
    def rows(self, sql: str) -> list[tuple[Any, ...]]: ...


def read_offsets(session: MysqlOpenSession) -> Offsets:
    """The lowest and highest offset of the server's own zone from UTC within a year, and its name."""
    ((zone, system),) = session.rows(f"SELECT {COMMENT} @@global.time_zone, @@system_time_zone")
    months = " UNION ALL ".join(f"SELECT UNIX_TIMESTAMP() + {month} * 2592000 AS x" for month in range(-6, 7))
    session.rows(f"SET {COMMENT} time_zone = @@global.time_zone")
    try:
        found = session.rows(
            f"SELECT {COMMENT} TIMESTAMPDIFF(SECOND, TIMESTAMP'1970-01-01 00:00:00' + INTERVAL x SECOND,"
            f" FROM_UNIXTIME(x)) FROM ({months}) AS m"
        )
    finally:
        session.rows(f"SET {COMMENT} time_zone = '+00:00'")
    seconds = [int(row[0]) for row in found] + [0]
    name = str(system if zone == "SYSTEM" else zone)
    return timedelta(seconds=min(seconds)), timedelta(seconds=max(seconds)), name


class Watch:
    """Looks at one server for all threads of this process.

    The server renews its list of transactions only if nobody has read it for a while, so looks go one at a
    time. A thread that had to wait takes the result of another thread's look, if that began after it asked.
    """

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._last: tuple[float, ClockReading] | None = None

    def look(self, session: MysqlOpenSession, zone: Offsets, *, mariadb: bool) -> ClockReading:
        asked = time.monotonic()
        with self._turn:
            if self._last is not None and self._last[0] >= asked:
                return self._last[1]
            began = time.monotonic()
            moment = _look(session, zone, mariadb=mariadb)
            self._last = began, moment
            return moment


_watches: dict[tuple[str, str | None], Watch] = {}
_making = threading.Lock()


def find_watch(address: str, user: str | None) -> Watch:
    with _making:
        return _watches.setdefault((address, user), Watch())


def _look(session: MysqlOpenSession, zone: Offsets, *, mariadb: bool) -> ClockReading:
    ((clock_text, own),) = session.rows(f"SELECT {COMMENT} UTC_TIMESTAMP(6), CONNECTION_ID()")
    clock = datetime.fromisoformat(clock_text)
    running, ours = _list_statements(session, mariadb=mariadb)
    blind = None
    try:
        transactions = _list_transactions(session, str(own), ours)
    except PrivilegeMissing:
        transactions = []
        blind = (
            "this login may not see other sessions' transactions: only `settle` guards against late commits;"
            " GRANT PROCESS ON *.* to it for an exact bound"
        )
    lowest, highest, name = zone
    return ClockReading(
        clock=clock,
        open=_by_connection(running, transactions),
        blind=blind,
        lowest_offset=lowest,
        highest_offset=highest,
        zone=name,
        sure=blind is not None,
    )


def _by_connection(running: Iterable[OpenWork], transactions: Iterable[OpenWork]) -> tuple[OpenWork, ...]:
    """One work for each connection: its transaction together with its statement, or the one that it has."""
    statements = {work.connection: work for work in running}
    works = []
    for work in transactions:
        mate = statements.pop(work.connection, None)
        if mate is not None:
            work = replace(work, started=min(work.started, mate.started), statement=mate.statement)
        works.append(work)
    return (*statements.values(), *works)


def _list_statements(session: MysqlOpenSession, *, mariadb: bool) -> tuple[list[OpenWork], set[str]]:
    """The running statements of others, and the numbers of our own connections."""
    age = "TIME_MS" if mariadb else "(TIME + 1) * 1000"
    # MySQL does not number its statements: a hash of the text tells them apart, and the start to the second.
    statement = "QUERY_ID" if mariadb else "COALESCE(MD5(INFO), '-')"
    found = session.rows(
        f"SELECT {COMMENT} ID, USER, HOST, {age}, STATE, LEFT(INFO, 200), UTC_TIMESTAMP(6),"
        f" INFO LIKE '%{COMMENT}%', ID = CONNECTION_ID(), {statement} FROM information_schema.PROCESSLIST"
        f" WHERE COMMAND NOT IN ({_IDLE}) AND USER NOT IN ('system user', 'event_scheduler')"
    )
    works, ours = [], set()
    for number, user, host, milliseconds, state, info, now, marked, itself, statement in found:
        if _is_true(marked) or _is_true(itself):
            ours.add(str(number))
            continue
        started = datetime.fromisoformat(now) - timedelta(milliseconds=float(milliseconds))
        who = f"connection {number} of {user}@{host} ({state or 'running'}{show_head(info)})"
        works.append(OpenWork(started, who, connection=str(number), statement=str(statement)))
    return works, ours


def _list_transactions(session: MysqlOpenSession, own: str, ours: set[str]) -> list[OpenWork]:
    """Open transactions by InnoDB's list, which the server renews only if nobody has read it for a while.

    So we open a transaction of our own and read the list until it shows our query: then the list is newer
    than our clock. The start of our transaction also shows the time zone of the list, which is the server's
    and not the session's.
    """
    ((second,),) = session.rows(f"SELECT {COMMENT} UTC_TIMESTAMP(0)")
    found, mine = _renew_list(session, own)
    shift = datetime.fromisoformat(second) - datetime.fromisoformat(mine[1])
    works = []
    for row in found:
        thread, only_reads = str(row[0]), row[4]
        # A read-only transaction need not be waited for; all our own sessions are read-only.
        if thread != own and thread not in ours and not _is_true(only_reads):
            works.append(_work(row, shift))
    return works


def _renew_list(session: MysqlOpenSession, own: str) -> tuple[list[tuple[Any, ...]], tuple[Any, ...]]:
    """InnoDB's list of transactions as of now, and our own row in it."""
    words = f"/* look {secrets.token_hex(8)} */"
    session.rows(f"START TRANSACTION {COMMENT} WITH CONSISTENT SNAPSHOT")
    try:
        for turn in range(_TRIES):
            found = session.rows(
                f"SELECT {COMMENT} {words} t.trx_mysql_thread_id, t.trx_started, t.trx_state,"
                f" LEFT(t.trx_query, 200), t.trx_is_read_only, t.trx_query LIKE '%{words}%',"
                " p.USER, p.HOST, p.COMMAND, t.trx_id FROM information_schema.INNODB_TRX t"
                " LEFT JOIN information_schema.PROCESSLIST p ON p.ID = t.trx_mysql_thread_id"
            )
            mine = next((row for row in found if str(row[0]) == own and _is_true(row[5])), None)
            if mine is not None:
                return found, mine
            # Others may wait for the list, too: wait longer each time, by chance, so as not to keep in step.
            pause = _PAUSE * (1 + turn / 4 * secrets.randbelow(1000) / 1000)
            session.rows(f"SELECT {COMMENT} {words} SLEEP({pause:.3f})")
        raise SourceUnreachable(
            "the server's list of transactions is read so often that it does not renew itself",
            hint="run again in a moment, with fewer runners at once",
        )
    finally:
        session.rows(f"ROLLBACK {COMMENT}")


def _work(row: tuple[Any, ...], shift: timedelta) -> OpenWork:
    thread, started, state, statement, _, _, user, host, command, number = row
    idle = "idle in transaction" if command == "Sleep" else str(state).lower()
    return OpenWork(
        # The list has whole seconds, and a transaction begins after the NOW() of its first statement.
        datetime.fromisoformat(started) + shift - _SECOND,
        f"connection {thread} of {user or '?'}@{host or '?'} ({idle}{show_head(statement)})",
        connection="" if int(thread) == 0 else str(thread),
        transaction=str(started),
        number=str(number) if 0 < int(number) < _READERS else "",
    )


def _is_true(value: Any) -> bool:
    return value is not None and int(value) == 1
