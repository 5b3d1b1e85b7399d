"""Tables in memory that change version by version, and the windows of them that transforms read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidegauge.model.delta_flow import (
    CHANGE_TYPE,
    COMMIT_TIMESTAMP,
    COMMIT_VERSION,
    DeltaFlow,
    DeltaInput,
    DeltaTable,
    Evaluate,
    Function,
    Sql,
    TableRef,
)
from tidegauge.model.mode import Mode

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

Row = tuple[Any, ...]
FIRST = datetime(2026, 1, 1, tzinfo=UTC)


def quick(spark: SparkSession) -> SparkSession:
    """Make a sibling session for small tables: no code generation, one shuffle partition."""
    own = spark.newSession()
    for name, value in {
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.ansi.enabled": "true",
    }.items():
        own.conf.set(name, value)
    return own


def moment(version: int) -> datetime:
    return FIRST + timedelta(hours=version)


@dataclass
class Table:
    """A table with all its versions; `columns` maps names to pyarrow types."""

    session: SparkSession
    columns: dict[str, pa.DataType]
    versions: list[list[tuple[str, Row]]] = field(default_factory=lambda: [[]])

    @property
    def latest(self) -> int:
        return len(self.versions) - 1

    def commit(
        self,
        *,
        insert: Iterable[Row] = (),
        update: Iterable[tuple[Row, Row]] = (),
        delete: Iterable[Row] = (),
    ) -> int:
        changes = [("insert", row) for row in insert] + [("delete", row) for row in delete]
        for before, after in update:
            changes += [("update_preimage", before), ("update_postimage", after)]
        self.versions.append(changes)
        return self.latest

    def rows(self, version: int | None = None) -> list[Row]:
        """Return the rows as of a version; None means the latest."""
        net = self.net(-1, self.latest if version is None else version)
        return [row for row, many in net for _ in range(many)]

    def net(self, after: int, upto: int) -> list[tuple[Row, int]]:
        """Count how often each row was inserted (positive) or deleted (negative), in net."""
        count: dict[str, tuple[Row, int]] = {}
        for changes in self.versions[max(after + 1, 0) : upto + 1]:
            for kind, row in changes:
                many = 1 if kind in ("insert", "update_postimage") else -1
                count[repr(row)] = (row, count.get(repr(row), (row, 0))[1] + many)
        return list(count.values())

    def frame(self, rows: Sequence[Row], **besides: pa.DataType) -> DataFrame:
        types = {**self.columns, **besides}
        arrays = [pa.array([row[at] for row in rows], type=type_) for at, type_ in enumerate(types.values())]
        return self.session.createDataFrame(pa.table(arrays, names=list(types)))

    def window(self, after: int, upto: int, *, afresh: bool = False, raw: bool = False) -> Window:
        return Window(self, after, upto, afresh, raw)

    def pinned(self, version: int | None = None) -> Window:
        upto = self.latest if version is None else version
        return Window(self, upto, upto, False, False)


@dataclass(frozen=True)
class Window:
    """One input in one batch; implements `Moved`."""

    table: Table
    after: int
    upto: int
    afresh: bool
    raw: bool
    unique: tuple[str, ...] = ()

    @property
    def has_changes(self) -> bool:
        return self.afresh or any(self.table.versions[self.after + 1 : self.upto + 1])

    @property
    def held(self) -> bool:
        return False

    @property
    def grows(self) -> bool:
        """Whether the window only inserts rows, so that a plan would read it by its files."""
        changes = [kind for one in self.table.versions[self.after + 1 : self.upto + 1] for kind, _ in one]
        return bool(changes) and not (self.afresh or self.raw) and set(changes) == {"insert"}

    @property
    def version(self) -> int:
        return self.upto

    @property
    def moment(self) -> datetime:
        return moment(self.upto)

    def now(self) -> DataFrame:
        return self.table.frame(self.table.rows(self.upto))

    def came(self) -> DataFrame:
        if self.raw:
            return self.events()
        if self.afresh:
            return self.now()
        net = self.table.net(self.after, self.upto)
        return self.table.frame([row for row, many in net for _ in range(many)])

    def gone(self) -> DataFrame:
        net = [] if self.afresh else self.table.net(self.after, self.upto)
        return self.table.frame([row for row, many in net for _ in range(-many)])

    def sides(self, flag: str) -> DataFrame:
        came = self.came().selectExpr("*", f"true AS {flag}")
        return came.unionAll(self.gone().selectExpr("*", f"false AS {flag}"))

    def events(self) -> DataFrame:
        rows = [
            (*row, kind, version, moment(version))
            for version in range(self.after + 1, self.upto + 1)
            for kind, row in self.table.versions[version]
        ]
        feed = {
            CHANGE_TYPE: pa.string(),
            COMMIT_VERSION: pa.int64(),
            COMMIT_TIMESTAMP: pa.timestamp("us", tz="UTC"),
        }
        return self.table.frame(rows, **feed)


def delta_flow(
    transform: str | Callable[..., Any] | Sql | Function | None,
    *inputs: str | DeltaInput,
    key: Sequence[str] = ("id",),
    mode: Mode = Mode.MERGE,
    evaluate: Evaluate = Evaluate.AUTO,
    file: Path | None = None,
    **output: Any,
) -> DeltaFlow:
    """Make a flow; an input given by name moves, one given as `DeltaInput` is as that says."""
    made: Sql | Function | None
    match transform:
        case None | Sql() | Function():
            made = transform
        case str():
            made = Sql(transform, file)
        case _:
            made = Function(transform.__qualname__, call=transform)
    return DeltaFlow(
        pipeline="p",
        name="flow",
        inputs=tuple(DeltaInput(one, TableRef(name=one)) if isinstance(one, str) else one for one in inputs),
        output=DeltaTable(TableRef(name="out"), mode, tuple(key), **output),
        transform=made,
        evaluate=evaluate,
    )


def pinned(name: str) -> DeltaInput:
    return DeltaInput(name, TableRef(name=name), snapshot=True)


def raw(name: str) -> DeltaInput:
    return DeltaInput(name, TableRef(name=name), raw=True)


def collected(frame: DataFrame) -> list[dict[str, Any]]:
    """Return the rows as dictionaries, in no defined order."""
    return list(frame.toArrow().to_pylist())
