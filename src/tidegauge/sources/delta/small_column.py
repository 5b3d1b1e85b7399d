"""The cursor column of a small Delta table, read from its files without Spark."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegauge.delta_log.data_files import FileColumns, NeedsSpark
from tidegauge.delta_log.snapshot import Log
from tidegauge.errors import TidegaugeError
from tidegauge.model.position import Value, ValueKind
from tidegauge.model.spec import Lake
from tidegauge.storage.store import open_store

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class SmallColumn:
    kind: ValueKind
    values: pa.ChunkedArray

    def find_highest(self, upto: datetime | None) -> tuple[Value | None, int]:
        """The highest value up to a moment (None: of all), and how many values are past the moment."""
        import pyarrow.compute as pc

        if upto is None:
            return self._make_value(pc.max(self.values)), 0
        bound = self._scalar(upto.date() if self.kind is ValueKind.DATE else upto)
        ready = pc.less_equal(self.values, bound)
        waiting = pc.sum(pc.invert(ready)).as_py() or 0
        return self._make_value(pc.max(self.values.filter(ready))), int(waiting)

    def count_between(self, after: Value | None, upto: Value) -> int:
        import pyarrow.compute as pc

        inside = pc.less_equal(self.values, self._parse(upto))
        if after is not None:
            inside = pc.and_(inside, pc.greater(self.values, self._parse(after)))
        return int(pc.sum(inside).as_py() or 0)

    def _parse(self, value: Value) -> pa.Scalar:
        match value.kind:
            case ValueKind.INT:
                return self._scalar(int(value.text))
            case ValueKind.DECIMAL:
                return self._scalar(Decimal(value.text))
            case ValueKind.DATE:
                return self._scalar(date.fromisoformat(value.text))
            case _:
                return self._scalar(datetime.fromisoformat(value.text))

    def _scalar(self, value: Any) -> pa.Scalar:
        import pyarrow as pa

        if isinstance(value, datetime) and self.values.type.tz:
            value = value.replace(tzinfo=UTC)
        try:
            return pa.scalar(value, self.values.type)
        except (pa.ArrowException, OverflowError, ValueError) as error:
            raise NeedsSpark(str(error)) from error

    def _make_value(self, found: pa.Scalar) -> Value | None:
        """The value with the text that Spark writes for it; None for NULL."""
        try:
            value = found.as_py()
        except (OverflowError, ValueError) as error:
            raise NeedsSpark(str(error)) from error
        match value:
            case None:
                return None
            case datetime():
                text = value.replace(tzinfo=None).isoformat(sep=" ", timespec="microseconds")
                return Value(self.kind, text.rstrip("0").rstrip("."))
            case Decimal():
                return Value(self.kind, format(value, "f"))
            case _:
                return Value(self.kind, str(value))


def read_small_column(lake: Lake, name: str, kind: ValueKind) -> SmallColumn | None:
    """Read one column of a Delta table; None if Spark has to read it."""
    try:
        look = Log(open_store(lake)).look()
        if look is None:
            return None
        columns = FileColumns.of(look.state)
        return SmallColumn(kind, columns.read_column(Path(lake.path), look.files(), name))
    except (NeedsSpark, TidegaugeError):
        return None
