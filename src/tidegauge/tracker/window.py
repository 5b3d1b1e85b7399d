"""A run's frozen window, as a pair, as a Spark predicate, and as SQL with bound values."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, overload

from tidegauge.errors import ConfigError
from tidegauge.tracker.moment import to_utc

if TYPE_CHECKING:
    from pyspark.sql import Column

ParamStyle = Literal["named", "qmark", "format"]


class TimeWindow(NamedTuple):
    """`(start, end]`: later than `start`, not later than `end`. Without a start, everything up to `end`."""

    start: datetime | None
    end: datetime

    @overload
    def predicate(self, column: str | Sequence[str]) -> str: ...
    @overload
    def predicate(self, column: Column) -> Column: ...
    def predicate(self, column: str | Sequence[str] | Column) -> str | Column:
        """For `DataFrame.where`: true for the rows of the window. The bounds are instants, whatever the
        session's zone.

        A name is one column, whatever letters it has; `("t", "updated_at")` is a column of `t`, or a field of
        a struct. A Column gives a Column. A row whose column is NULL is in no window.
        """
        upper, lower = _instant(self.end), self.start and _instant(self.start)
        if isinstance(column, str | list | tuple):
            name = _quote(column, "`")
            return f"({name} > {lower} AND {name} <= {upper})" if lower else f"({name} <= {upper})"
        from pyspark.sql.functions import expr

        assert not isinstance(column, Sequence)
        below = column <= expr(upper)
        return (column > expr(lower)) & below if lower else below

    def sql(
        self, column: str | Sequence[str], *, paramstyle: ParamStyle = "named", quote: str = '"'
    ) -> tuple[str, Any]:
        """A condition for a database, and the values to bind: a dict for `named`, otherwise a tuple.

        `quote` is the database's own mark around names: `"`, or a backtick for MySQL and Spark.
        """
        name = _quote(column, quote)
        match paramstyle:
            case "named":
                start, end = ":start", ":end"
            case "qmark":
                start = end = "?"
            case "format":
                start = end = "%s"
                name = name.replace("%", "%%")
            case _:
                raise ConfigError(
                    f"'{paramstyle}' is not a way to bind values", hint="one of: named, qmark, format"
                )
        if self.start is None:
            return f"({name} <= {end})", {"end": self.end} if paramstyle == "named" else (self.end,)
        text = f"({name} > {start} AND {name} <= {end})"
        values = (self.start, self.end)
        return text, dict(zip(("start", "end"), values, strict=True)) if paramstyle == "named" else values


def _instant(moment: datetime) -> str:
    return f"TIMESTAMP '{to_utc(moment).replace(tzinfo=None).isoformat(sep=' ')}Z'"


def _quote(column: str | Sequence[str], mark: str) -> str:
    if mark not in ('"', "`"):
        raise ConfigError(f"{mark!r} does not quote names", hint='one of: " and `')
    parts = [column] if isinstance(column, str) else list(column)
    for part in parts:
        if not part or "\0" in part:
            raise ConfigError(
                f"{part!r} is not the name of a column", hint="a name has letters, and none of them is NUL"
            )
    if not parts:
        raise ConfigError("no column is named", hint="name the column that the window is about")
    return ".".join(f"{mark}{part.replace(mark, mark * 2)}{mark}" for part in parts)
