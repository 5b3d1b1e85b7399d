"""Load rows into a staging table of MySQL: LOAD DATA from our own stream, or INSERTs of many rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pymysql

from tidegauge.errors import OutputError
from tidegauge.model.secret import mask
from tidegauge.outputs.warehouse.mysql import load_data
from tidegauge.outputs.warehouse.mysql.session import DISABLED, PLACEHOLDER, MysqlLogin, MysqlSession
from tidegauge.outputs.warehouse.tasks import Parts
from tidegauge.outputs.warehouse.warehouse import ValueRejected

if TYPE_CHECKING:
    import pyarrow as pa

_INSERT_BYTES = 1 << 20
_OVERHEAD = 1 << 12


@dataclass(frozen=True)
class LoadStatements:
    """How rows get into one staging table."""

    table: str
    """The quoted name of the staging table."""
    ordinal: str
    columns: tuple[str, ...]
    """The quoted names of the columns, in the order of the batches."""
    hexed: tuple[bool, ...]
    """Whether each of the columns travels in hexadecimal."""
    key: tuple[str, ...]
    local: bool
    """Whether the server takes LOAD DATA from its clients."""

    @property
    def load(self) -> tuple[str, str]:
        """The LOAD DATA statement before and after the word that names the stream."""
        named = [f"@b{place}" if hexed else name for place, (name, hexed) in self._places()]
        sets = [f"{name} = UNHEX(@b{place})" for place, (name, hexed) in self._places() if hexed]
        listed = ", ".join((self.ordinal, *named))
        after = f"INTO TABLE {self.table} {load_data.FORMAT} ({listed})"
        return "LOAD DATA LOCAL INFILE", after + (f" SET {', '.join(sets)}" if sets else "")

    @property
    def insert(self) -> str:
        return f"INSERT INTO {self.table} ({', '.join((self.ordinal, *self.columns))}) VALUES "

    def _places(self) -> list[tuple[int, tuple[str, bool]]]:
        return list(enumerate(zip(self.columns, self.hexed, strict=True)))


@dataclass(frozen=True)
class LoadSink:
    """`tasks.Sink`."""

    login: MysqlLogin
    rows: LoadStatements
    marks: str
    """The quoted name of the table of marks."""

    def take(self, task: int, parts: Parts) -> int:
        with closing(self.login.connect()) as session:
            rows = bring_in(session, self.rows, parts)
            try:
                session.run(
                    f"INSERT INTO {self.marks} (`task`, `rows`) VALUES ({PLACEHOLDER}, {PLACEHOLDER})",
                    (task, rows),
                )
            except ValueRejected:
                session.rollback()
                ((theirs,),) = session.rows(
                    f"SELECT `rows` FROM {self.marks} WHERE `task` = {PLACEHOLDER}", (task,)
                )
                return int(theirs)
            session.commit()
            return rows


def takes_local(session: MysqlSession) -> bool:
    ((allowed,),) = session.rows("SELECT @@GLOBAL.local_infile")
    return bool(int(allowed))


def bring_in(session: MysqlSession, rows: LoadStatements, parts: Parts) -> int:
    """Load rows; returns how many the server counted. Does not commit."""
    return _load(session, rows, parts) if rows.local else _insert(session, rows, parts)


def _load(session: MysqlSession, rows: LoadStatements, parts: Parts) -> int:
    sent = 0

    def stream() -> Iterator[memoryview]:
        nonlocal sent
        for ordinal, batches in parts:
            for batch in batches:
                sent += batch.num_rows
                yield from load_data.blocks(batch, ordinal, rows.key)

    try:
        count, warnings = session.connection.load(*rows.load, stream())
    except (pymysql.Error, OSError) as error:
        if error.args and error.args[0] in DISABLED:
            raise OutputError(
                f"{session.login.name}: the server takes no LOAD DATA any more: {mask(str(error))}",
                retryable=True,
            ) from error
        raise session.translate(error) from error
    if warnings:
        # With LOCAL a value that does not fit is only a warning, and another value is stored in its place.
        shown = session.rows("SHOW WARNINGS LIMIT 1")
        raise ValueRejected(
            f"{session.login.name}: {mask(str(shown[0][2])) if shown else 'a value does not fit'}"
        )
    if count != sent:
        raise OutputError(
            f"{session.login.name}: {sent} rows were sent and the server took {count}",
            hint="this is a bug: report it; nothing was loaded",
        )
    return count


def _insert(session: MysqlSession, rows: LoadStatements, parts: Parts) -> int:
    ((packet,),) = session.rows("SELECT @@max_allowed_packet")
    limit = min(_INSERT_BYTES, int(packet) - _OVERHEAD)
    count = 0
    for statement in _statements(rows, parts, limit):
        try:
            count += int(session.connection.query(statement))
        except (pymysql.Error, OSError) as error:
            raise session.translate(error) from error
    return count


def _statements(rows: LoadStatements, parts: Parts, limit: int) -> Iterator[bytes]:
    head = rows.insert.encode()
    block: list[bytes] = []
    size = 0
    for ordinal, batches in parts:
        for batch in batches:
            for row in load_data.tuples(batch, ordinal, rows.key):
                if block and size + len(row) > limit:
                    yield head + b",".join(block)
                    block, size = [], 0
                block.append(row)
                size += len(row) + 1
    if block:
        yield head + b",".join(block)


def choose_hexed(schema: pa.Schema) -> tuple[bool, ...]:
    return tuple(load_data.is_hex(field.type) for field in schema)
