"""Whether a MySQL or MariaDB server is a replica, and how far it has applied its primary's transactions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Protocol

from tidegauge.errors import SourceError, SourceUnreachable
from tidegauge.sources.dialect import COMMENT, ClockReading
from tidegauge.sources.mysql.open_work import PrivilegeMissing
from tidegauge.sources.replica import at_replica

_ROUNDING = timedelta(seconds=1)
"""The server counts how far it is behind in whole seconds."""
_MARIADB = ("SHOW ALL SLAVES STATUS",)
_MYSQL = ("SHOW REPLICA STATUS", "SHOW SLAVE STATUS")
"""The newer words first; each version knows one of them at least."""

_STOPPED = (
    "this server has been a replica, and its replication is stopped: rows wait for `settle` too, as it may go"
    " on; RESET SLAVE ALL says that it is a primary now"
)

Channel = Mapping[str, Any]


class MysqlReplicaSession(Protocol):
    def rows(self, sql: str) -> list[tuple[Any, ...]]: ...

    def records(self, sql: str) -> list[dict[str, Any]]:
        """The rows of a statement whose columns differ from version to version."""


def as_replica(
    session: MysqlReplicaSession, reading: ClockReading, name: str, *, mariadb: bool
) -> ClockReading:
    """The reading itself for a server that is no replica; else as of what it has applied. `name`: of the
    connection.

    Raises SourceUnreachable for a replica that does not replicate: nobody knows how far it is.
    """
    ((read_only, reads_files_only, appliers),) = session.rows(
        f"SELECT {COMMENT} @@global.read_only, @@global.innodb_read_only, (SELECT COUNT(*)"
        " FROM information_schema.PROCESSLIST WHERE USER = 'system user' AND COMMAND <> 'Daemon')"
    )
    writable = not _is_on(read_only)
    if _is_on(reads_files_only):
        return at_replica(reading, None, unknown="a server with innodb_read_only does not say")
    try:
        channels = _list_channels(session, mariadb=mariadb)
    except PrivilegeMissing:
        if writable and not int(appliers):
            return reading
        grant = "SLAVE MONITOR" if mariadb else "REPLICATION CLIENT"
        unknown = f"this login may not see: GRANT {grant} ON *.* to it shows that"
        return at_replica(reading, None, unknown=unknown, writable=writable)
    if not channels:
        if not int(appliers):
            return reading
        # Members of a cluster (MySQL's group replication, Galera) do not list how they follow each other.
        return at_replica(reading, None, unknown="a member of a cluster does not say", writable=writable)
    if writable and not any(map(_is_running, channels)):
        return replace(reading, blind=_STOPPED)
    seconds = [_find(channel, "Seconds_Behind") for channel in channels]
    if None in seconds:
        raise _stopped_error(name, channels[seconds.index(None)])
    behind = timedelta(seconds=max(int(one) for one in seconds)) + _ROUNDING
    return at_replica(reading, reading.clock - behind, writable=writable)


def _list_channels(session: MysqlReplicaSession, *, mariadb: bool) -> Sequence[Channel]:
    *newer, last = _MARIADB if mariadb else _MYSQL
    for words in newer:
        try:
            return session.records(words)
        except (PrivilegeMissing, SourceUnreachable):
            raise
        except SourceError:
            continue  # an older server does not know these words
    return session.records(last)


def _is_running(channel: Channel) -> bool:
    return "Yes" in (_find(channel, "_SQL_Running"), _find(channel, "_IO_Running"))


def _find(channel: Channel, part: str) -> Any:
    """The value of a column that MariaDB and MySQL's versions name differently around this part."""
    return next(value for name, value in channel.items() if part in name and "State" not in name)


def _is_on(value: Any) -> bool:
    return str(value).upper() in ("1", "ON")


def _stopped_error(name: str, channel: Channel) -> SourceUnreachable:
    said = _find(channel, "Last_IO_Error") or _find(channel, "Last_SQL_Error")
    why = f" ({said})" if said else ""
    return SourceUnreachable(
        f"{name}: the server is a replica that does not replicate now{why}: how far it is cannot be told",
        hint="mend its replication, or name its primary in `connections:`",
    )
