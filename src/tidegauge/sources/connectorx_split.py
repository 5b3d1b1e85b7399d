"""A split of a table on a server, read by connectorx: the server's rows straight into Arrow."""

from __future__ import annotations

import importlib.util
import socket
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote as percent
from urllib.parse import urlencode

from tidegauge.errors import RuntimeMissing, SourceError, SourceUnreachable
from tidegauge.model.engines import FACTS
from tidegauge.model.secret import Secret, mask
from tidegauge.model.spec import Database
from tidegauge.model.table import SourceTable
from tidegauge.sources.direct_types import (
    BeforeYear1,
    ColumnWay,
    finish_array,
    finish_batch,
    value_not_held,
)
from tidegauge.sources.split_process import is_task, read_in_process

if TYPE_CHECKING:
    import pyarrow as pa

SMALL = 100_000
"""Up to this many rows are read in one piece, while other threads go on. While a stream of connectorx waits
for the server, no other thread can run Python."""
_PIECE = 65_536
"""Rows in one batch of a stream."""


def why_not_installed() -> str | None:
    if importlib.util.find_spec("connectorx") is None:
        return "connectorx is not installed (pip install connectorx)"
    return None


@dataclass(frozen=True)
class ConnectorxAddress:
    """What connectorx needs beside host, port and login; each engine's `make_split` gives it."""

    database: str
    settings: Mapping[str, str]
    """The query part of the address."""
    session: tuple[str, ...]
    """Statements that run before the SELECT."""


@dataclass(frozen=True)
class ConnectorxSplit:
    """Implements `model.batch_data.Split`. Holds no connection; can be pickled, and then has the password."""

    database: Database
    source_table: SourceTable
    ways: tuple[ColumnWay, ...]
    select: str
    guard_query: str | None
    """A query for one row that a guard stops, run only after reading has failed; None if `select` itself asks
    for the guards."""
    rows: int | None
    """The approximate number of rows, None if it is not known."""
    address: ConnectorxAddress
    here: bool = False
    """Stream the rows in this process, even if it is not there for tasks alone (`is_task`)."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        check_reachable(self.database)
        if self.rows is not None and self.rows <= SMALL:
            found = self._call(
                lambda read: read(self._url(), self.select, return_type="arrow", **self._options)
            )
            for batch in found.combine_chunks().to_batches():
                yield self._finish(batch)
            return
        if not self.here and not is_task():
            yield from read_in_process(replace(self, here=True))
            return
        complete = False
        stream = self._call(
            lambda read: read(
                self._url(), self.select, return_type="arrow_stream", batch_size=_PIECE, **self._options
            )
        )
        while True:
            batch = self._call(lambda _: next(stream, None))
            if batch is None:
                break
            complete = batch.num_rows < _PIECE
            if batch.num_rows:
                yield self._finish(batch)
        # A complete stream always ends in a batch that is not full, even if that is empty.
        if not complete:
            raise self._explain("the rows broke off before the last one")

    @property
    def _options(self) -> Mapping[str, Any]:
        return {"protocol": "binary", "pre_execution_query": list(self.address.session)}

    def _finish(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Convert a batch of connectorx. Raises for a value that cannot be held exactly."""
        try:
            return finish_batch(batch, self.source_table, self.ways)
        except BeforeYear1:
            raise self._explain("a date before the year 1") from None

    def _call(self, ask: Callable[[Any], Any]) -> Any:
        """Call connectorx. Every error is replaced, because it may hold the address with the password; some
        are no `Exception`."""
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
            raise self._explain(_reason(error)) from None

    def _explain(self, reason: str) -> SourceError:
        """Find why reading failed: a value that cannot be held exactly, or else the server or the network."""
        name = self.database.name
        try:
            self._ask_guards()
            check_reachable(self.database)
        except SourceError as error:
            return error
        return SourceUnreachable(
            f"{self.source_table.table}: the connection to {name} was lost while reading ({reason})",
            hint="run again: the same window is read once more",
        )

    def _ask_guards(self) -> None:
        """Raises TypeNotHeld for a value that stopped the reading; does nothing if there is none."""
        if self.guard_query is None:
            return
        import connectorx

        try:
            found = connectorx.read_sql(self._url(), self.guard_query, return_type="arrow", **self._options)
        except BaseException as error:
            if isinstance(error, (KeyboardInterrupt, SystemExit, GeneratorExit)):
                raise
            return
        if not found.num_rows:
            return
        names = {part.name for part in self.source_table.key}
        row = {
            column.name: finish_array(found.column(number).combine_chunks(), way.how, column, column.name)[
                0
            ].as_py()
            for number, (way, column) in enumerate(zip(self.ways, self.source_table.columns, strict=True))
            if column.name in names
        }
        raise value_not_held(self.source_table, found.column("g")[0].as_py(), row)

    def _url(self) -> str:
        """The address for the driver, with the password in it: never show it."""
        database, host = self.database, self.database.host.strip("[]")
        login = percent(database.user or "", safe="")
        if database.password is not None:
            login += f":{percent(database.password.reveal(), safe='')}"
        port = database.port or FACTS[database.engine].port
        place = f"{f'[{host}]' if ':' in host else host}:{port}"
        query = urlencode(self.address.settings, quote_via=percent)
        return f"{database.engine}://{login}@{place}/{percent(self.address.database, safe='')}?{query}"

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


def check_reachable(database: Database) -> None:
    """Raises SourceUnreachable if the server cannot be reached; the driver would try for half a minute."""
    port = database.port or FACTS[database.engine].port
    try:
        timeout = int(database.options.get("connect_timeout", "10"))
        socket.create_connection((database.host.strip("[]"), port), timeout).close()
    except OSError as error:
        raise SourceUnreachable(
            f"{database.name}: {database.host}:{port} cannot be reached: {mask(str(error))}",
            hint="check that the server runs, and the host and port in `connections:`",
        ) from error


def _reason(error: BaseException) -> str:
    """The driver's message as one line, without secrets and without Rust's notation of an error."""
    text = mask(str(error))
    _, _, inner = text.rpartition('message: "')
    if inner and inner != text:
        return inner.partition('"')[0]
    return " ".join(text.split())[:300]
