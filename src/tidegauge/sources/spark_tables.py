"""Any table that Spark can read, by a column that orders its rows or as a whole, without the table's log."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegauge.delta_log.data_files import NeedsSpark
from tidegauge.delta_log.location import lake_of
from tidegauge.errors import ColumnMissing, CursorUnsuitable, SourceError, TableMissing
from tidegauge.model.delta_flow import DeltaInput, ReadByColumn
from tidegauge.model.lazy import lazy
from tidegauge.model.position import MOMENTS, RowPosition, Value, ValueKind, Window
from tidegauge.model.secret import mask
from tidegauge.model.spark_causes import with_causes
from tidegauge.model.types import parse_decimal, quote
from tidegauge.sources.delta.added_files import find_files, read_added_rows
from tidegauge.sources.delta.small_column import SmallColumn, read_small_column
from tidegauge.spark.comparable import make_comparable

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_KINDS = {
    "tinyint": ValueKind.INT,
    "smallint": ValueKind.INT,
    "int": ValueKind.INT,
    "bigint": ValueKind.INT,
    "date": ValueKind.DATE,
    "timestamp": ValueKind.TIMESTAMPTZ,
    "timestamp_ntz": ValueKind.TIMESTAMP,
}
_ABSENT = re.compile(r"TABLE_OR_VIEW_NOT_FOUND|PATH_NOT_FOUND|DELTA_(?:TABLE_NOT_FOUND|PATH_DOES_NOT_EXIST)")
_UNKNOWN = re.compile(r"DATA_SOURCE_NOT_FOUND|Failed to find the data source")
_RANK, _ROW = "__tidegauge_rank", "__tidegauge_row"


@dataclass(frozen=True)
class CursorColumn:
    """The column that orders a table."""

    name: str
    type: str
    """The Spark type of the column."""
    kind: ValueKind

    @property
    def scale(self) -> int:
        """Digits after the point of a decimal; for any other type 6, those after a timestamp's seconds."""
        size = parse_decimal(self.type)
        return size.scale if size else 6


@dataclass(frozen=True)
class ColumnSurvey:
    """What one look at a table found."""

    highest: Value | None
    """The highest cursor of all rows; None if no row has a cursor."""
    upto: Value | None
    """The highest cursor that is old enough to be read."""
    rows_null: int
    rows_waiting: int
    """Rows past `upto`."""


class SparkTable:
    """An input table as it is now. `session` is the flow's own Spark session."""

    def __init__(self, session: SparkSession, part: DeltaInput, *, small: bool = False) -> None:
        """`small`: the table is known to be small and on a local disk."""
        assert part.by_column is not None
        self._session, self._small = session, small
        self._part = part
        self._by: ReadByColumn = part.by_column
        session.conf.set("spark.sql.session.timeZone", "UTC")
        session.conf.set("spark.sql.files.ignoreMissingFiles", "false")
        session.conf.set("spark.sql.files.ignoreCorruptFiles", "false")

    @lazy
    def frame(self) -> DataFrame:
        """All rows of the table. Raises TableMissing or SourceError."""
        table = self._part.table
        with self._explain_errors():
            if table.path is None:
                frame = self._session.read.table(str(table.name))
            elif self._small and (held := find_files(table, table.path, None)) is not None:
                frame = read_added_rows(self._session, held, stamps=False).coalesce(1)
            else:
                frame = self._session.read.format(self._by.format or "delta").load(table.path)
            _ = frame.schema
            return frame

    @property
    def fingerprint(self) -> str:
        """Changes with the table's columns and their types."""
        return hashlib.sha256(self.frame.schema.json().encode()).hexdigest()[:16]

    @lazy
    def cursor(self) -> CursorColumn:
        """The column that orders the table. Raises ColumnMissing or CursorUnsuitable."""
        assert self._by.column is not None
        name = self._named(self._by.column, "cursor")
        type_ = self.frame.schema[name].dataType.simpleString()
        kind = ValueKind.DECIMAL if parse_decimal(type_) else _KINDS.get(type_)
        if kind is None:
            raise CursorUnsuitable(
                f"{self._part.table}: the column {name} is {type_}, which cannot be the cursor",
                hint="name a column of dates, timestamps or whole or decimal numbers that grows",
                place=self._part.place,
            )
        return CursorColumn(name, type_, kind)

    def check_key(self, key: tuple[str, ...]) -> None:
        for name in key:
            self._named(name, "key")

    def survey(self) -> ColumnSurvey:
        """One pass over the column."""
        from pyspark.sql import functions as F  # noqa: N812

        if (column := self._small_column) is not None:
            with suppress(NeedsSpark):
                highest, _ = column.find_highest(None)
                upto, waiting = column.find_highest(self._latest)
                return ColumnSurvey(highest, upto, column.values.null_count, waiting)
        value = F.col(quote(self.cursor.name))
        ready = self._is_ready(value)
        with self._explain_errors():
            [found] = self.frame.agg(
                F.max(value).cast("string").alias("highest"),
                F.max(F.when(ready, value)).cast("string").alias("upto"),
                F.count_if(value.isNull()).alias("nulls"),
                F.count_if(value.isNotNull() & ~ready).alias("waiting"),
            ).collect()
        return ColumnSurvey(
            self._value(found["highest"]), self._value(found["upto"]), found["nulls"], found["waiting"]
        )

    def count(self, after: Value | None, upto: Value, next_after: Value) -> tuple[int, int, int]:
        """In one pass: rows past `after` up to `upto`, rows up to `after`, and rows up to `next_after`."""
        from pyspark.sql import functions as F  # noqa: N812

        if (column := self._small_column) is not None:
            with suppress(NeedsSpark):
                older = 0 if after is None else column.count_between(None, after)
                return column.count_between(after, upto), older, column.count_between(None, next_after)
        value = F.col(quote(self.cursor.name))
        below = F.lit(False) if after is None else value <= self._literal(after)
        asked = (self._inside(after, upto), below, value <= self._literal(next_after))
        with self._explain_errors():
            [found] = self.frame.agg(*map(F.count_if, asked)).collect()
        return int(found[0]), int(found[1]), int(found[2])

    def rows(self, window: Window, *, last_of: tuple[str, ...] = ()) -> DataFrame:
        """The rows of a window, lazily. `last_of`: of each key only the row with the highest cursor. If
        several rows have it, equal ones come once, and the others all come."""
        from pyspark.sql import Window as Over
        from pyspark.sql import functions as F  # noqa: N812

        if self._by.column is None:
            return self.frame
        after, upto = window.after, window.upto
        assert isinstance(after, RowPosition | None)
        assert isinstance(upto, RowPosition)
        rows = self.frame.where(self._inside(after.cursor if after else None, upto.cursor))
        if not last_of:
            return rows
        keys = [F.col(quote(name)) for name in last_of]
        newest = Over.partitionBy(*keys).orderBy(F.col(quote(self.cursor.name)).desc())
        row = F.struct(*(make_comparable(F.col(quote(f.name)), f.dataType) for f in rows.schema.fields))
        kept = rows.withColumns({_RANK: F.rank().over(newest), _ROW: row}).where(f"{_RANK} = 1")
        return kept.dropDuplicates([_ROW]).drop(_RANK, _ROW)

    def _inside(self, after: Value | None, upto: Value) -> Column:
        from pyspark.sql import functions as F  # noqa: N812

        value = F.col(quote(self.cursor.name))
        inside = value <= self._literal(upto)
        return inside if after is None else inside & (value > self._literal(after))

    def _is_ready(self, value: Column) -> Column:
        """True for every number, and for a date or timestamp that is `settle` old by this machine's clock."""
        from pyspark.sql import functions as F  # noqa: N812

        moment = self._latest
        if moment is None:
            return value.isNotNull()
        day = self.cursor.kind is ValueKind.DATE
        text = moment.date().isoformat() if day else moment.isoformat(sep=" ")
        return F.coalesce(value <= F.lit(text).cast(self.cursor.type), F.lit(False))

    @property
    def _latest(self) -> datetime | None:
        """The latest date or timestamp to read, by this machine's clock; None if the cursor is a number."""
        if self.cursor.kind not in MOMENTS:
            return None
        return datetime.now(UTC).replace(tzinfo=None) - self._by.settle

    @lazy
    def _small_column(self) -> SmallColumn | None:
        if not self._small:
            return None
        lake = lake_of(str(self._part.table.path), self._part.table.storage)
        return read_small_column(lake, self.cursor.name, self.cursor.kind)

    def _literal(self, value: Value) -> Column:
        from pyspark.sql import functions as F  # noqa: N812

        if value.kind is not self.cursor.kind:
            raise CursorUnsuitable(
                f"{self._part.table}: the column {self.cursor.name} is {self.cursor.type} now, and its"
                f" watermark is a {value.kind.value}",
                hint="bring the type back, or begin again with `tidegauge watermark reset`",
                place=self._part.place,
            )
        return F.lit(value.text).cast(self.cursor.type)

    def _value(self, text: Any) -> Value | None:
        return None if text is None else Value(self.cursor.kind, str(text))

    def _named(self, wanted: str, what: str) -> str:
        """The table's own spelling of a column. Raises ColumnMissing."""
        names = {name.casefold(): name for name in self.frame.columns}
        if wanted.casefold() not in names:
            raise ColumnMissing(
                f"{self._part.table} has no column {wanted}, which `{what}` of '{self._part.name}' names",
                hint=f"it has: {', '.join(list(names.values())[:20])}",
                place=self._part.place,
            )
        return names[wanted.casefold()]

    @contextmanager
    def _explain_errors(self) -> Iterator[None]:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        try:
            yield
        except (PySparkException, Py4JError) as error:
            text = mask(with_causes(error))
            line = next((one for one in text.splitlines() if one.strip()), "unknown error")
            if _ABSENT.search(text):
                raise TableMissing(
                    f"there is no table {self._part.table} for the input '{self._part.name}'",
                    hint="check its name or path; a catalogue has to be known to Spark (`spark: conf:`)",
                    place=self._part.place,
                    detail=text,
                ) from error
            if _UNKNOWN.search(text):
                raise SourceError(
                    f"Spark does not know the format '{self._by.format}' of the input '{self._part.name}'",
                    hint="correct `format`, or give Spark its jar (`spark: conf: spark.jars.packages`)",
                    place=self._part.place,
                    detail=text,
                ) from error
            raise SourceError(
                f"{self._part.table} cannot be read: {line}",
                hint="run again with --debug for all that Spark says",
                detail=text,
            ) from error


def digest_folder(folder: str) -> str | None:
    """A digest that changes with the files of a local folder; None if there is no such folder."""
    found = hashlib.sha256()
    top = Path(folder)
    if not top.exists():
        return None
    for place, _, names in sorted(os.walk(top)) if top.is_dir() else [(str(top.parent), [], [top.name])]:
        for name in sorted(names):
            facts = Path(place, name).stat()
            found.update(f"{place}/{name} {facts.st_size} {facts.st_mtime_ns} {facts.st_ino}\n".encode())
    return found.hexdigest()[:32]


@dataclass(frozen=True)
class ColumnInput:
    """Implements `ChangedInput`: the transform sees only the rows of a window, all of them as new."""

    table: SparkTable
    window: Window
    last_of: tuple[str, ...] = ()
    has_changes: bool = True
    afresh: bool = True
    grows: bool = False
    unique: tuple[str, ...] = ()
    held: bool = False
    version: int = 0

    @property
    def moment(self) -> datetime:
        return datetime.now(UTC)

    def now(self) -> DataFrame:
        return self.table.rows(self.window, last_of=self.last_of)

    def came(self) -> DataFrame:
        return self.now()

    def gone(self) -> DataFrame:
        return self.now().limit(0)

    def sides(self, flag: str) -> DataFrame:
        from pyspark.sql import functions as F  # noqa: N812

        return self.now().withColumn(flag, F.lit(True))

    def events(self) -> DataFrame:
        raise NotImplementedError("a table without versions has no events")
