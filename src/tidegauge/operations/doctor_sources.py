"""Checks that a run may read its sources, by their catalogues; suggests the GRANT that is missing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tidegauge.flows.names import is_pattern, means, table_named
from tidegauge.model.privileges import MissingPrivilege
from tidegauge.model.spec import Database, Sync, TableFlow, TableName
from tidegauge.operations.doctor_access import tell_clock
from tidegauge.sources.access import find_read_access
from tidegauge.sources.connections import SourceConnections

_MOST = 5


def check_database(database: Database, sources: SourceConnections) -> Iterator[str | MissingPrivilege]:
    """Check that the database answers, its clock, and whether other sessions' transactions are visible."""
    source = sources.of(database)
    yield f"{database.engine} answers; {len(source.tables())} tables visible"
    outlook = source.outlook()
    yield tell_clock(outlook.clock)
    if outlook.blind is None:
        yield "open transactions are visible, so windows wait for them"
        return
    access = None if outlook.replica else find_read_access(database, ())
    yield access.sight if access else outlook.blind


@dataclass(frozen=True)
class Rights:
    """What the login of one sync lacks to read its tables."""

    lacks: Mapping[TableName, MissingPrivilege] = field(default_factory=dict)
    left_out: MissingPrivilege | None = None
    """A note about tables that a pattern matches but the login may not read."""

    def fix(self, table: TableName) -> str | None:
        return self.lacks[table].fix if table in self.lacks else None


def find_rights(sync: Sync, flows: Sequence[TableFlow]) -> Rights:
    """Find what the sync's login lacks; `flows` are the sync's. Raises SourceUnreachable."""
    named = [table_named(sync.source, name) for name in sync.tables if not is_pattern(name)]
    access = find_read_access(sync.source, [*(flow.table for flow in flows), *named])
    if access is None:
        return Rights()
    hidden = {table: lack for table, lack in access.hidden.items() if means(sync, table)}
    if not hidden:
        return Rights(access.lacks)
    shown = ", ".join(str(table) for table in list(hidden)[:_MOST])
    more = f" and {len(hidden) - _MOST:,} more" if len(hidden) > _MOST else ""
    first = next(iter(hidden.values()))
    left_out = MissingPrivilege(
        f"patterns leave out what this login may not read: {shown}{more}", first.fix, later=True
    )
    return Rights(access.lacks, left_out)
