"""What is open in a PostgreSQL database, and since when.

Every open transaction counts, also one that has written nothing yet: its `now()` is its start, and what it
writes next is stamped with that.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Protocol

from tidegauge.sources.dialect import COMMENT, READER, ClockReading, OpenWork
from tidegauge.sources.replica import at_replica
from tidegauge.sources.statement import show_head

Offsets = tuple[timedelta, timedelta, str]
_STAMP = "'YYYY-MM-DD HH24:MI:SS.US'"


class PostgresqlOpenSession(Protocol):
    def rows(self, sql: str) -> list[tuple[Any, ...]]: ...


def read_offsets(session: PostgresqlOpenSession) -> Offsets:
    """The lowest and highest offset of the server's own zone from UTC within a year, and its name."""
    found = session.rows(
        f"SELECT {COMMENT} z.reset_val,"
        " extract(epoch FROM (t AT TIME ZONE z.reset_val) - (t AT TIME ZONE 'UTC'))::int"
        " FROM pg_settings z, generate_series(now() - interval '6 months', now() + interval '6 months',"
        " interval '15 days') AS t WHERE z.name = 'TimeZone'"
    )
    seconds = [int(offset) for _, offset in found] + [0]
    return timedelta(seconds=min(seconds)), timedelta(seconds=max(seconds)), str(found[0][0])


def look(session: PostgresqlOpenSession, zone: Offsets) -> ClockReading:
    ((clock, sees_all, standby, aurora),) = session.rows(
        f"SELECT {COMMENT} to_char(clock_timestamp(), {_STAMP}),"
        " r.rolsuper OR pg_has_role('pg_read_all_stats', 'USAGE'), pg_is_in_recovery(),"
        " to_regproc('aurora_version') IS NOT NULL"
        " FROM pg_roles r WHERE r.rolname = current_user"
    )
    lowest, highest, name = zone
    reading = ClockReading(
        datetime.fromisoformat(clock), lowest_offset=lowest, highest_offset=highest, zone=name
    )
    if standby and aurora:  # It replays no log, but reads the storage of its primary.
        return at_replica(reading, None, unknown="Aurora does not say")
    if standby:
        return at_replica(reading, _read_applied(session))
    blind = None
    if not sees_all:
        blind = (
            "this login may not see other sessions' transactions: only `settle` guards against late commits;"
            " GRANT pg_read_all_stats to it for an exact bound"
        )
    return replace(reading, open=_list_work(session), blind=blind)


def _read_applied(session: PostgresqlOpenSession) -> datetime:
    """The primary's time of the last transaction that this standby has applied; if it has applied none since
    its own start, of the checkpoint from which it started."""
    ((applied,),) = session.rows(
        f"SELECT {COMMENT} to_char(coalesce(pg_last_xact_replay_timestamp(), checkpoint_time), {_STAMP})"
        " FROM pg_control_checkpoint()"
    )
    return datetime.fromisoformat(applied)


def _list_work(session: PostgresqlOpenSession) -> tuple[OpenWork, ...]:
    found = session.rows(
        f"SELECT {COMMENT} pid, usename::text, coalesce(client_addr::text, 'local'), state, left(query, 200),"
        f" to_char(xact_start, {_STAMP}), coalesce(backend_xid::text, '') FROM pg_stat_activity"
        " WHERE datname = current_database()"
        " AND xact_start IS NOT NULL AND pid <> pg_backend_pid()"
        f" AND coalesce(application_name, '') <> '{READER}'"
        " AND coalesce(backend_type, '') NOT IN ('autovacuum worker', 'walsender')"
    )
    works = [
        OpenWork(
            datetime.fromisoformat(started),
            f"connection {pid} of {user}@{host} ({state or 'background'}{show_head(query)})",
            connection=str(pid),
            transaction=started,
            number=number,
        )
        for pid, user, host, state, query, started, number in found
    ]
    prepared = session.rows(
        f"SELECT {COMMENT} gid, owner::text, to_char(prepared, {_STAMP}), transaction::text"
        " FROM pg_prepared_xacts WHERE database = current_database()"
    )
    works += [
        OpenWork(
            datetime.fromisoformat(at),
            f"the prepared transaction '{gid}' of {owner}",
            prepared=True,
            transaction=at,
            number=number,
        )
        for gid, owner, at, number in prepared
    ]
    return tuple(works)
