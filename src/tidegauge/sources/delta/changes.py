"""The Spark side of a Delta input: one window of it, as lazy frames of the flow's own session.

Versions are pinned, and a missing file is an error: every attempt reads the same rows of a window.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import reduce
from typing import TYPE_CHECKING, Final

from tidegauge.delta_log.data_files import NeedsSpark
from tidegauge.errors import PositionError, SourceError, TidegaugeError
from tidegauge.model.delta_flow import CHANGE_TYPE, COMMIT_TIMESTAMP, COMMIT_VERSION, DELETE, TableRef
from tidegauge.model.lazy import lazy
from tidegauge.model.plan import ReadWay
from tidegauge.model.position import VersionPosition, Window
from tidegauge.model.protocols.source import ChangedInput
from tidegauge.sources.delta.added_files import (
    DeltaFileSet,
    commit_time,
    describe_columns,
    find_additions,
    find_files,
    read_added_rows,
    stamp_columns,
    types_of,
)
from tidegauge.sources.delta.columns import fit_columns
from tidegauge.sources.delta.errors import translate_read_error
from tidegauge.sources.delta.net_changes import AFTER, INSERT, count_net, net_by_version, repeat_rows
from tidegauge.sources.delta.small_feed import SmallFeed, read_small_feed, read_small_table
from tidegauge.spark.few_rows import frame_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructField

FEED_COLUMNS: Final = (CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP)
_TYPES = {CHANGE_TYPE: "string", COMMIT_VERSION: "bigint", COMMIT_TIMESTAMP: "timestamp"}
_SETTINGS = {
    # A missing file would mean lost rows, so it has to be an error.
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.files.ignoreCorruptFiles": "false",
    # If columns may be renamed: with their names at the window's end, and not the latest ones.
    "spark.databricks.delta.changeDataFeed.defaultSchemaModeForColumnMappingTable": "endVersion",
}
_WIDENED = {
    # Else Delta refuses a feed from before a type was widened, though it reads the right values.
    "spark.databricks.delta.changeDataFeed.unsafeBatchReadOnIncompatibleSchemaChanges.enabled": "true"
}


def open_changed_input(
    session: SparkSession,
    table: TableRef,
    location: str,
    window: Window,
    way: ReadWay,
    *,
    raw: bool = False,
    unique: tuple[str, ...] = (),
    small: bool = False,
) -> ChangedInput:
    """One input in one batch. `session` is the flow's own: this sets in it what the reads need.

    `small`: the table is known to be small and on a local disk. `raw`: every frame has the feed's columns,
    too, `came` is the feed as it is, and nothing is `gone`.
    """
    for name, value in _SETTINGS.items():
        session.conf.set(name, value)
    after, upto = window.after, window.upto
    if not isinstance(upto, VersionPosition) or not isinstance(after, VersionPosition | None):
        raise PositionError(f"the window of {table} has no versions of a Delta table: {window}")
    first = None if after is None else after.version
    return DeltaChangedInput(
        session, table, location, first, upto.version, way, raw=raw, unique=unique, small=small
    )


class DeltaChangedInput:
    """Implements `ChangedInput`."""

    def __init__(
        self,
        session: SparkSession,
        table: TableRef,
        location: str,
        after: int | None,
        upto: int,
        way: ReadWay,
        *,
        raw: bool,
        unique: tuple[str, ...] = (),
        small: bool = False,
    ) -> None:
        self._session = session
        self._table = table
        self._location = location
        self._after = after
        self._upto = upto
        self._way = (
            ReadWay.NOTHING if way in (ReadWay.FEED, ReadWay.FILES, ReadWay.DIFF) and after == upto else way
        )
        self._raw = raw
        self._unique = unique
        self._small = small

    @property
    def has_changes(self) -> bool:
        return self._way not in (ReadWay.PINNED, ReadWay.NOTHING)

    @property
    def afresh(self) -> bool:
        return self._way is ReadWay.SNAPSHOT

    @property
    def grows(self) -> bool:
        return self._way is ReadWay.FILES

    @property
    def unique(self) -> tuple[str, ...]:
        return self._unique

    @property
    def version(self) -> int:
        return self._upto

    @lazy
    def moment(self) -> datetime:
        return commit_time(self._table, self._location, self._upto)

    def now(self) -> DataFrame:
        with self._translate_errors():
            return self._as_inserts() if self._raw else self._whole

    def came(self) -> DataFrame:
        with self._translate_errors():
            if self._raw:
                return self._changes
            if self._way is ReadWay.SNAPSHOT:
                return self._whole
            if self.grows:
                self._check_names()
                return self._read_added(stamps=False)
            if (net := self._small_net) is not None:
                return net[0]
            return (
                repeat_rows(self._net, self._fields, gone=False) if self.has_changes else self._make_empty()
            )

    def gone(self) -> DataFrame:
        with self._translate_errors():
            if self._raw:
                return self._changes.where("false")
            if (net := self._small_net) is not None:
                return net[1]
            if self._way in (ReadWay.FEED, ReadWay.DIFF):
                return repeat_rows(self._net, self._fields, gone=True)
            return self._make_empty()

    def sides(self, flag: str) -> DataFrame:
        from pyspark.sql import functions as F  # noqa: N812

        first = -1 if self._after is None else self._after
        if self._way is ReadWay.FEED and self._upto - first == 1 and not self._raw:
            with self._translate_errors():
                kind = F.col(CHANGE_TYPE).isin(INSERT, AFTER)
                return self._changes.withColumn(flag, kind).drop(*FEED_COLUMNS)
        came, gone = self.came().withColumn(flag, F.lit(True)), self.gone().withColumn(flag, F.lit(False))
        return came.unionAll(gone)

    def events(self) -> DataFrame:
        with self._translate_errors():
            return net_by_version(self._changes, self._fields) if self._way is ReadWay.FEED else self._changes

    @property
    def held(self) -> bool:
        return self._small_net is not None

    @lazy
    def _small_feed(self) -> SmallFeed | None:
        """The feed of a small table, read without Spark; None if Delta has to read it."""
        if not self._small or self._way is not ReadWay.FEED:
            return None
        first = 0 if self._after is None else self._after + 1
        try:
            return read_small_feed(self._table, self._location, first, self._upto)
        except NeedsSpark:
            return None

    @lazy
    def _small_net(self) -> tuple[DataFrame, DataFrame] | None:
        """The rows that came and those that are gone, in memory; None if Spark has to compute them."""
        from pyspark.sql.types import StructType

        if self._small_feed is None or self._raw:
            return None
        self._check_names()
        try:
            both = self._small_feed.came, self._small_feed.gone
        except NeedsSpark:
            return None
        schema = StructType(self._fields)
        return frame_of(self._session, both[0], schema), frame_of(self._session, both[1], schema)

    @lazy
    def _net(self) -> DataFrame:
        return count_net(self._changes, self._fields)

    @lazy
    def _whole(self) -> DataFrame:
        return self._at(self._upto)

    @lazy
    def _fields(self) -> list[StructField]:
        if self.grows:
            return self._additions.types
        return self._described[0] if self._way is ReadWay.FEED else self._whole.schema.fields

    @lazy
    def _described(self) -> tuple[list[StructField], bool]:
        return describe_columns(self._table, self._location, self._upto)

    @lazy
    def _additions(self) -> DeltaFileSet:
        return find_additions(self._table, self._location, self._after, self._upto)

    @lazy
    def _changes(self) -> DataFrame:
        """Every row that a version of the window changed, with the feed's columns."""
        from pyspark.sql.types import StructType

        self._check_names()
        match self._way:
            case ReadWay.FEED if self._small_feed is not None:
                stamps = self._make_empty(*FEED_COLUMNS).schema.fields[-len(FEED_COLUMNS) :]
                schema = StructType([*self._fields, *stamps])
                return frame_of(self._session, self._small_feed.rows, schema)
            case ReadWay.FEED:
                return self._feed()
            case ReadWay.FILES:
                return self._read_added(stamps=True)
            case ReadWay.DIFF:
                return self._steps([(self._after, self._upto)])
            case ReadWay.SNAPSHOT:
                return self._as_inserts()
            case ReadWay.PINNED | ReadWay.NOTHING | ReadWay.COLUMN:
                return self._make_empty(*FEED_COLUMNS)

    def _read_added(self, *, stamps: bool) -> DataFrame:
        if not self._additions.files:
            return self._make_empty(*FEED_COLUMNS if stamps else ())
        rows = read_added_rows(self._session, self._additions, stamps=stamps)
        return rows.coalesce(1) if self._small else rows

    def _at(self, version: int) -> DataFrame:
        if self._small and (few := self._read_few(version)) is not None:
            return few
        if self._small and (held := find_files(self._table, self._location, version)) is not None:
            return read_added_rows(self._session, held, stamps=False).coalesce(1)
        return self._session.read.format("delta").option("versionAsOf", version).load(self._location)

    def _read_few(self, version: int) -> DataFrame | None:
        """The table at a version, in memory; None if Spark has to read it."""
        from pyspark.sql.types import StructType

        try:
            state, rows = read_small_table(self._table, self._location, version)
        except NeedsSpark:
            return None
        return frame_of(self._session, rows, StructType(types_of(state)))

    def _feed(self) -> DataFrame:
        first = 0 if self._after is None else self._after + 1
        if self._described[1]:
            for name, value in _WIDENED.items():
                self._session.conf.set(name, value)
        reader = self._session.read.format("delta").option("readChangeFeed", "true")
        reader = reader.option("startingVersion", first).option("endingVersion", self._upto)
        feed = reader.load(self._location)
        # Delta gives the feed in the latest columns of the table.
        columns = fit_columns(feed, self._fields, later=True)
        if columns is not None:
            return feed.select(*columns, *FEED_COLUMNS)
        # Columns were replaced since, and the feed does not give the old ones. The versions themselves do.
        versions = range(first, self._upto + 1)
        return self._steps([(version - 1 if version else None, version) for version in versions])

    def _steps(self, steps: Sequence[tuple[int | None, int]]) -> DataFrame:
        """The difference between the versions of each step, as deletes and inserts of the second."""
        from pyspark.sql import functions as F  # noqa: N812

        images = []
        for before, at in steps:
            stamp = self._stamp(at)
            after = self._at(at) if at != self._upto else self._whole
            images.append(self._fit(after).select("*", *stamp))
            if before is not None:
                deleted = self._fit(self._at(before)).select("*", *stamp)
                images.append(deleted.withColumn(CHANGE_TYPE, F.lit(DELETE)))
        return net_by_version(reduce(lambda one, other: one.unionAll(other), images), self._fields)

    def _fit(self, frame: DataFrame) -> DataFrame:
        columns = fit_columns(frame, self._fields, later=False)
        if columns is None:
            raise SourceError(
                f"the columns of {self._table} changed on the way to version {self._upto} so that its rows"
                " cannot be compared",
                hint="begin anew with `tidegauge watermark reset`",
            )
        return frame.select(*columns)

    def _as_inserts(self) -> DataFrame:
        return self._whole.select("*", *self._stamp(self._upto))

    def _stamp(self, version: int) -> tuple[Column, ...]:
        last = version == self._upto
        return stamp_columns(
            version, self.moment if last else commit_time(self._table, self._location, version)
        )

    def _make_empty(self, *besides: str) -> DataFrame:
        from pyspark.sql import functions as F  # noqa: N812

        feed = (F.lit(None).cast(_TYPES[name]).alias(name) for name in besides)
        return self._whole.where(F.lit(False)).select("*", *feed)

    def _check_names(self) -> None:
        for field in self._fields:
            if field.name.lower() in FEED_COLUMNS:
                raise SourceError(
                    f"{self._table} has a column {field.name}, which is what a change feed calls its own",
                    hint="rename the column",
                )

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except TidegaugeError:
            raise
        except Exception as error:
            translated = translate_read_error(error, {str(self._table): self._location})
            if translated is None:
                raise
            raise translated from error
