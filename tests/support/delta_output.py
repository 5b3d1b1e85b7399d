"""Delta outputs for tests: a table at a path, and batches whose change the test gives as SQL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegauge.model.batch_data import DeltaBatch, DeltaChange
from tidegauge.model.delta_flow import DeltaFlow, DeltaInput, DeltaTable, TableRef
from tidegauge.model.mode import Mode
from tidegauge.model.plan import Batch, ReadWay, Receipt, Tag
from tidegauge.model.position import VersionPosition, Window
from tidegauge.model.spec import Drift, TableName
from tidegauge.model.staged import Staged
from tidegauge.model.table import Layout
from tidegauge.outputs.delta.output import DeltaOutput
from tidegauge.spark.session import sibling

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LAYOUT = Layout(TableName(None, "flow"), (), (), "version", None)
MakeRows = Callable[["SparkSession"], "DataFrame"]


def delta_flow_of(
    table: Path | TableRef, mode: Mode, *, drift: Drift = Drift.EVOLVE, **facts: Any
) -> DeltaFlow:
    ref = table if isinstance(table, TableRef) else TableRef(path=str(table))
    source = DeltaInput("orders", TableRef(name="bronze.orders"))
    return DeltaFlow("shop", "silver/orders", (source,), DeltaTable(ref, mode, **facts), drift=drift)


def batch_of(seq: int) -> Batch:
    window = Window(VersionPosition(seq - 1) if seq > 1 else None, VersionPosition(seq))
    return Batch((window,), ways=(ReadWay.FEED,))


def tag_of(seq: int, epoch: int = 0) -> Tag:
    return Tag("shop", "silver/orders", epoch, seq)


def read_batch(change: Callable[[SparkSession], DeltaChange], *, little: bool = False) -> DeltaBatch:
    return DeltaBatch(LAYOUT, change=lambda session, _: change(session), reads_little=little)


@dataclass
class Writer:
    """One runner's output, with a Spark session of its own."""

    spark: SparkSession
    delta_flow: DeltaFlow
    locate: Callable[[], str | None] | None = None
    little: bool = False
    """Whether the tables that the batches read are small."""
    output: DeltaOutput = field(init=False)
    own: SparkSession = field(init=False)
    notes: tuple[str, ...] = field(init=False, default=())
    """The notes of the last staged batch."""

    def __post_init__(self) -> None:
        self.own = sibling(self.spark)
        path = self.delta_flow.output.table.path
        self.output = DeltaOutput(self.delta_flow, locate=self.locate or (lambda: path))

    def stage(
        self, rows: str | MakeRows, *, touched: str | None = None, refused: str | None = None
    ) -> Staged:
        def change(session: SparkSession) -> DeltaChange:
            return DeltaChange(
                session.sql(rows) if isinstance(rows, str) else rows(session),
                touched=session.sql(touched) if touched else None,
                refused=session.sql(refused) if refused else None,
            )

        staged = self.output.stage(read_batch(change, little=self.little), lambda: self.own)
        self.notes = staged.notes
        return staged

    def publish(self, staged: Staged, seq: int, *, epoch: int = 0) -> Receipt:
        return self.output.commit(
            tag_of(seq, epoch), batch_of(seq), staged, layout=LAYOUT, run_id=f"run {seq}"
        )

    def put(
        self,
        seq: int,
        rows: str | MakeRows,
        *,
        epoch: int = 0,
        touched: str | None = None,
        refused: str | None = None,
    ) -> Receipt:
        """Stage and publish one batch."""
        staged = self.stage(rows, touched=touched, refused=refused)
        try:
            return self.publish(staged, seq, epoch=epoch)
        finally:
            self.output.discard(staged)

    def open(self, epoch: int, continues: tuple[int, int] | None = None, *, empty: bool = False) -> None:
        self.output.open_epoch("shop", "silver/orders", epoch, continues, "again", empty=empty)

    def rows(self, columns: str = "*") -> list[tuple[Any, ...]]:
        table = self.delta_flow.output.table
        name = table.name or f"delta.`{table.path}`"
        found = [tuple(row) for row in self.spark.sql(f"SELECT {columns} FROM {name}").collect()]
        return sorted(found, key=lambda row: [*map(str, row)])


def values(rows: Sequence[tuple[Any, ...]], columns: str) -> str:
    """Make a SELECT of these rows; None becomes NULL, and text is quoted."""

    def one(value: Any) -> str:
        if value is None:
            return "NULL"
        return "'" + value.replace("'", "\\'") + "'" if isinstance(value, str) else str(value)

    told = ", ".join(f"({', '.join(map(one, row))})" for row in rows)
    return f"SELECT * FROM VALUES {told} AS v({columns})"
