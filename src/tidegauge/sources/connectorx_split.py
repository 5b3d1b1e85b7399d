"""A stretch of a MySQL or PostgreSQL table, read by connectorx: the server's rows straight into Arrow."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote as percent
from urllib.parse import urlencode

from tidegauge.errors import RuntimeMissing, SourceError, SourceUnreachable
from tidegauge.model.arrow import schema_of
from tidegauge.model.secret import Secret, mask
from tidegauge.model.spec import Database, Engine
from tidegauge.model.table import SourceTable
from tidegauge.sources.dialect import MARK, READER
from tidegauge.sources.direct_types import BeforeYear1, ColumnWay, complaint, finished
from tidegauge.sources.mysql import sql as mysql_sql
from tidegauge.sources.postgresql import sql as postgresql_sql
from tidegauge.sources.split_process import is_task, read_in_process

if TYPE_CHECKING:
    import pyarrow as pa

SMALL = 100_000
"""Rows that are read in one piece, which lets other threads go on meanwhile. While a stream of connectorx
waits for the server, none of them can run Python."""
_PIECE = 65_536
"""Rows in one batch of a stream."""
_PORT = {Engine.MYSQL: mysql_sql.DEFAULT_PORT, Engine.POSTGRESQL: postgresql_sql.DEFAULT_PORT}
_SESSION = {
    Engine.MYSQL: (f"SET {MARK} {mysql_sql.SESSION}", f"SET {MARK} NAMES utf8mb4"),
    Engine.POSTGRESQL: tuple(part.strip() for part in postgresql_sql.SESSION.split(";")),
}
_POSTGRESQL_TLS = {"disable": "disable", "prefer": "prefer", "require": "require", "verify-ca": "require"}


@dataclass(frozen=True)
class ConnectorxSplit:
    """Implements `model.batch_data.Stretch`. Holds no connection; can be pickled, its password with it."""

    database: Database
    source_table: SourceTable
    ways: tuple[ColumnWay, ...]
    select: str
    inquiry: str | None
    """Finds one row that a guard would stop, where the guards are not part of `select`; asked only when the
    reading has failed."""
    rows: int | None
    """About how many, where that is known."""
    here: bool = False
    """Streamed by this very process, though it is no task of Spark's."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        reach(self.database)
        if self.rows is not None and self.rows <= SMALL:
            found = self._tell(
                lambda read: read(_url(self.database), self.select, return_type="arrow", **self._how)
            )
            for batch in found.combine_chunks().to_batches():
                yield self._held(batch)
            return
        if not self.here and not is_task():
            yield from read_in_process(replace(self, here=True))
            return
        complete = False
        stream = self._tell(
            lambda read: read(
                _url(self.database), self.select, return_type="arrow_stream", batch_size=_PIECE, **self._how
            )
        )
        while True:
            batch = self._tell(lambda _: next(stream, None))
            if batch is None:
                break
            complete = batch.num_rows < _PIECE
            if batch.num_rows:
                yield self._held(batch)
        # A stream always ends in a batch that is not full, if only an empty one, unless it breaks off.
        if not complete:
            raise self._lost("the rows broke off before the last one")

    @property
    def _how(self) -> Mapping[str, Any]:
        return {"protocol": "binary", "pre_execution_query": list(_SESSION[self.database.engine])}

    def _held(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        try:
            return self._finished(batch)
        except BeforeYear1:
            raise self._lost("a date before the year 1") from None

    def _finished(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        import pyarrow as pa
        import pyarrow.compute as pc

        layout = self.source_table.layout
        columns = [
            finished(
                batch.column(number), way.how, column, f"{self.source_table.table}, column {column.name}"
            )
            for number, (way, column) in enumerate(zip(self.ways, self.source_table.columns, strict=True))
        ]
        ready = pa.RecordBatch.from_arrays(columns, schema=schema_of(layout))
        if batch.num_columns > len(columns):
            guard = batch.column(len(columns))
            if guard.null_count < len(guard):
                first = pc.indices_nonzero(pc.is_valid(guard))[0].as_py()
                raise complaint(
                    self.source_table,
                    guard[first].as_py(),
                    ready.select(list(layout.key)).slice(first, 1).to_pylist()[0],
                )
        return ready

    def _tell(self, ask: Any) -> Any:
        """What connectorx answers. Its errors may hold the address, and some are made to end Python."""
        try:
            import connectorx
        except ImportError as error:
            raise RuntimeMissing(
                "connectorx is not installed, which reads a database without Spark's JDBC",
                hint="run: pip install connectorx",
            ) from error
        try:
            return ask(connectorx.read_sql)
        except BaseException as error:
            if isinstance(error, (KeyboardInterrupt, SystemExit, GeneratorExit)):
                raise
            raise self._lost(_reason(error)) from None

    def _lost(self, reason: str) -> SourceError:
        """Why the reading failed: a value that cannot be held, or else the server and the way to it."""
        name = self.database.name
        try:
            self._inquire()
            reach(self.database)
        except SourceError as error:
            return error
        return SourceUnreachable(
            f"{self.source_table.table}: the connection to {name} was lost while reading ({reason})",
            hint="run again: the same window is read once more",
        )

    def _inquire(self) -> None:
        """Raises the complaint about a value that stopped the reading; nothing where there is none."""
        if self.inquiry is None:
            return
        import connectorx

        try:
            found = connectorx.read_sql(_url(self.database), self.inquiry, return_type="arrow", **self._how)
        except BaseException as error:
            if isinstance(error, (KeyboardInterrupt, SystemExit, GeneratorExit)):
                raise
            return
        if not found.num_rows:
            return
        names = {part.name for part in self.source_table.key}
        row = {
            column.name: finished(found.column(number).combine_chunks(), way.how, column, column.name)[
                0
            ].as_py()
            for number, (way, column) in enumerate(zip(self.ways, self.source_table.columns, strict=True))
            if column.name in names
        }
        raise complaint(self.source_table, found.column("g")[0].as_py(), row)

    def __getstate__(self) -> dict[str, Any]:
        kept = {field.name: getattr(self, field.name) for field in fields(self)}
        password = self.database.password
        kept["database"] = replace(self.database, password=None)
        return {**kept, "password": password.reveal() if password else None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        password = state.pop("password")
        if password is not None:
            state["database"] = replace(state["database"], password=Secret(password))
        for name, value in state.items():
            object.__setattr__(self, name, value)


def reach(database: Database) -> None:
    """Raises SourceUnreachable at once where the driver would try for half a minute."""
    port = database.port or _PORT[database.engine]
    try:
        timeout = int(database.options.get("connect_timeout", "10"))
        socket.create_connection((database.host.strip("[]"), port), timeout).close()
    except OSError as error:
        raise SourceUnreachable(
            f"{database.name}: {database.host}:{port} cannot be reached: {mask(str(error))}",
            hint="check that the server runs, and the host and port in `connections:`",
        ) from error


def _url(database: Database) -> str:
    """With the password in it: for the driver's ears only."""
    options = database.options
    host = database.host.strip("[]")
    login = percent(database.user or "", safe="")
    if database.password is not None:
        login += f":{percent(database.password.reveal(), safe='')}"
    place = f"{f'[{host}]' if ':' in host else host}:{database.port or _PORT[database.engine]}"
    settings: dict[str, str] = {}
    timeout = int(options.get("connect_timeout", "10"))
    if database.engine is Engine.MYSQL:
        # Through a socket file the server would take us for another user.
        settings = {"prefer_socket": "false", "tcp_connect_timeout_ms": str(1000 * timeout)}
        name = database.database or ""
    else:
        settings = {"application_name": READER, "connect_timeout": str(timeout)}
        name = database.database or database.user or ""
        if mode := options.get("ssl"):
            settings["sslmode"] = _POSTGRESQL_TLS[mode]
        if authority := options.get("ssl_ca"):
            settings["sslrootcert"] = authority
    query = urlencode(settings, quote_via=percent)
    return f"{database.engine}://{login}@{place}/{percent(name, safe='')}?{query}"


def _reason(error: BaseException) -> str:
    """The driver's message as one line, without secrets and without Rust's notation of an error."""
    text = mask(str(error))
    _, _, inner = text.rpartition('message: "')
    if inner and inner != text:
        return inner.partition('"')[0]
    return " ".join(text.split())[:300]
