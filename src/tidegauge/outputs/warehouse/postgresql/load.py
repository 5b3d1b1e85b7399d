"""Load rows into a staging table of PostgreSQL by binary COPY."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psycopg

from tidegauge.outputs.warehouse.postgresql import copy_binary
from tidegauge.outputs.warehouse.postgresql.session import PLACEHOLDER, PostgresqlLogin, PostgresqlSession
from tidegauge.outputs.warehouse.tasks import Parts
from tidegauge.outputs.warehouse.warehouse import ValueRejected

if TYPE_CHECKING:
    import pyarrow as pa

_SHOWN = 60
"""Characters of a value that a message shows."""


@dataclass(frozen=True)
class CopySink:
    """`tasks.Sink`."""

    login: PostgresqlLogin
    copy: str
    """The whole COPY statement: the ordinal first, then the fields."""
    marks: str
    """The quoted name of the table of marks."""
    key: tuple[str, ...]

    def take(self, task: int, parts: Parts) -> int:
        with closing(self.login.connect()) as session:
            # An unlogged table is empty after a server crash anyway: no commit need wait for the disk.
            session.run("SET LOCAL synchronous_commit = off")
            rows = copy_in(session, self.copy, parts, self.key)
            mark = (
                f"INSERT INTO {self.marks} (task, rows) VALUES ({PLACEHOLDER}, {PLACEHOLDER})"
                " ON CONFLICT DO NOTHING"
            )
            if session.run(mark, (task, rows)):
                session.commit()
                return rows
            session.rollback()
            ((theirs,),) = session.rows(f"SELECT rows FROM {self.marks} WHERE task = {PLACEHOLDER}", (task,))
            return int(theirs)


def copy_in(session: PostgresqlSession, statement: str, parts: Parts, key: tuple[str, ...]) -> int:
    """Load rows; returns how many the server counted. Does not commit."""
    try:
        with session.connection.cursor() as cursor:
            with cursor.copy(statement.encode()) as copy:
                copy.write(copy_binary.HEADER)
                for ordinal, batches in parts:
                    for batch in batches:
                        _refuse_nul(batch, key)
                        for block in copy_binary.blocks(batch, ordinal):
                            copy.write(block)
                copy.write(copy_binary.TRAILER)
            return int(cursor.rowcount)
    except psycopg.Error as error:
        raise session.translate(error, statement) from error


def _refuse_nul(batch: pa.RecordBatch, key: tuple[str, ...]) -> None:
    """Raises ValueRejected for a text with a NUL character, the only one that PostgreSQL cannot hold: the
    server would name neither row nor value."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if not pa.types.is_string(column.type) or not len(column):
            continue
        _, ends, text = column.buffers()
        offsets = np.frombuffer(ends, np.int32)
        first, last = offsets[column.offset], offsets[column.offset + len(column)]
        if last == first or np.frombuffer(text, np.uint8)[first:last].all():
            continue
        row = pc.index(pc.fill_null(pc.match_substring(column, "\0"), False), True).as_py()
        if row < 0:
            continue  # The character is in the bytes under a NULL.
        which = ", ".join(f"{part} = {batch.column(part)[row].as_py()}" for part in key)
        value = column[row].as_py()
        raise ValueRejected(
            f"column {name} of the row with {which or 'no key'} holds a NUL character, which"
            f" PostgreSQL's text never does: {value[:_SHOWN]!r}",
            hint="mend the row at the source, or read the column as `binary` there",
        )
