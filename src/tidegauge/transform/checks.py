"""Checks on the rows of a batch: one Spark expression each, evaluated while the rows are computed.

NULL passes every check but `not_null`, as in SQL's own CHECK. Rows that the transform marks as deleted are
not checked: their `FAILED` is NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import TYPE_CHECKING

from tidegauge.errors import ExpectationFailed
from tidegauge.model.delta_flow import CHANGE_TYPE, COMMIT_TIMESTAMP, COMMIT_VERSION, DELETE, DeltaFlow
from tidegauge.model.expectation import (
    Accepted,
    Expectation,
    ForeignKey,
    Fresh,
    InRange,
    Matches,
    NotNull,
    Predicate,
    RowCount,
    Unique,
)
from tidegauge.model.marks import FAILED
from tidegauge.model.types import quote
from tidegauge.transform.difference import HERE
from tidegauge.transform.faults import first_sentence
from tidegauge.transform.predicates import find_column

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

_FOUND = "__tidegauge_found"
_TRIED: set[tuple[str, ...]] = set()
"""Patterns and typed values that were found valid, so that each costs a query once and not in each batch."""


class RowChecks:
    """The checks of a flow that are decided row by row."""

    def __init__(self, flow: DeltaFlow, look_up: Callable[[str], DataFrame]) -> None:
        """`look_up` gives the table that a foreign key refers to, by its input's name."""
        self.expectations = tuple(one for one in flow.expect if one.by_row)
        self._table = look_up

    def mark(self, frame: DataFrame) -> DataFrame:
        """The rows with `FAILED`. Raises ExpectationFailed for a check that does not fit them."""
        from pyspark.sql import functions as F  # noqa: N812

        columns = frame.columns
        failed: Column = F.lit(0).cast("bigint")
        joined, wrongs = self._look(frame)
        for at, wrong in enumerate(wrongs):
            failed = failed.bitwiseOR(F.when(wrong, F.lit(1 << at)).otherwise(F.lit(0)).cast("bigint"))
        if CHANGE_TYPE in columns:
            failed = F.when(~F.col(CHANGE_TYPE).eqNullSafe(DELETE), failed)
        return joined.select(*(F.col(quote(name)) for name in columns), failed.alias(FAILED))

    def _look(self, frame: DataFrame) -> tuple[DataFrame, list[Column]]:
        """The rows joined with what foreign keys look up, and for each check whether a row fails it."""
        joined, wrongs = frame, []
        for at, one in enumerate(self.expectations):
            if isinstance(one.rule, ForeignKey):
                joined = self._look_up(joined, one, one.rule, f"{_FOUND}{at}")
                wrongs.append(self._points_nowhere(frame, one, one.rule, f"{_FOUND}{at}"))
            else:
                wrongs.append(self._make_failure_condition(frame, one))
        return joined, wrongs

    def guard(self, frame: DataFrame, text: str) -> DataFrame:
        """The rows, which raise an error with this text as soon as one of them fails a check.

        Where rows have the column `HERE`, those where it is false are from before: they raise nothing, and
        only those that are not set aside stay.
        """
        from pyspark.sql import functions as F  # noqa: N812

        # Not deterministic for Spark, so that it neither moves the guard below a join or another filter,
        # where it would see rows that are not written, nor leaves it out.
        passed = F.spark_partition_id() >= 0
        if HERE in frame.columns:
            marked, wrong = self.mark(frame), F.col(HERE) & (F.col(FAILED) != 0)
            return marked.where(
                F.when(wrong, F.raise_error(F.lit(text))).otherwise(self.is_written() & passed)
            ).drop(FAILED)
        # The error does not say which check failed, so one condition over all of them is enough.
        joined, wrongs = self._look(frame)
        wrong = reduce(lambda one, other: one | other, wrongs, F.lit(False))
        if CHANGE_TYPE in frame.columns:
            wrong = ~F.col(CHANGE_TYPE).eqNullSafe(DELETE) & wrong
        checked = joined.where(F.when(wrong, F.raise_error(F.lit(text))).otherwise(passed))
        return checked.select(*(F.col(quote(name)) for name in frame.columns))

    def bits_of(self, *actions: str) -> int:
        """The bits of all checks with one of these actions."""
        return sum(1 << at for at, one in enumerate(self.expectations) if one.action in actions)

    def is_written(self) -> Column:
        """Whether a marked row is written."""
        from pyspark.sql import functions as F  # noqa: N812

        aside = self.bits_of("quarantine", "drop")
        return F.coalesce(F.col(FAILED).bitwiseAND(F.lit(aside).cast("bigint")) == 0, F.lit(True))

    def reasons(self) -> Column:
        """The names of the checks that a marked row fails."""
        from pyspark.sql import functions as F  # noqa: N812

        return F.array_compact(
            F.array(
                *(F.when(fails(at), F.lit(one.name)) for at, one in enumerate(self.expectations)),
            )
        )

    def _make_failure_condition(self, frame: DataFrame, one: Expectation) -> Column:
        from pyspark.sql import functions as F  # noqa: N812

        match one.rule:
            case Predicate(sql):
                self._try_predicate(frame, one, sql)
                return F.expr(f"NOT (\n{sql}\n)")
            case NotNull(name):
                return value_of(frame, one, name).isNull()
            case Accepted(name, values):
                column, type_ = value_of(frame, one, name), type_of(frame, one, name)
                return ~column.isin(*_literals(frame, one, values, type_))
            case InRange(name, least, greatest):
                column, type_ = value_of(frame, one, name), type_of(frame, one, name)
                ends = _literals(frame, one, [end for end in (least, greatest) if end is not None], type_)
                below = F.lit(False) if least is None else column < ends[0]
                return below if greatest is None else below | (column > ends[-1])
            case Matches(name, pattern):
                _try_pattern(frame, one, pattern)
                text = value_of(frame, one, name).cast("string")
                return ~text.rlike(rf"\A(?:{pattern})\z")
            case ForeignKey() | Unique() | RowCount() | Fresh():
                raise AssertionError(one)

    def _look_up(self, frame: DataFrame, one: Expectation, rule: ForeignKey, found: str) -> DataFrame:
        """Add a column named `found`, which is true where the other table has the row's values, else NULL."""
        from pyspark.sql import functions as F  # noqa: N812

        table = self._table(rule.input)
        there = table.select(
            *(value_of(table, one, name).alias(f"{found}_{at}") for at, name in enumerate(rule.to))
        ).distinct()
        same = (value_of(frame, one, name) == F.col(f"{found}_{at}") for at, name in enumerate(rule.columns))
        joined = frame.join(
            there.withColumn(found, F.lit(True)), reduce(lambda one, other: one & other, same), "left"
        )
        return joined.drop(*(f"{found}_{at}" for at in range(len(rule.to))))

    @staticmethod
    def _points_nowhere(frame: DataFrame, one: Expectation, rule: ForeignKey, found: str) -> Column:
        from pyspark.sql import functions as F  # noqa: N812

        given = (value_of(frame, one, name).isNotNull() for name in rule.columns)
        return reduce(lambda left, right: left & right, given) & F.col(found).isNull()

    def _try_predicate(self, frame: DataFrame, one: Expectation, sql: str) -> None:
        """Analyse the predicate alone, so that an error names the check and not the transform."""
        from pyspark.errors import PySparkException
        from pyspark.sql import functions as F  # noqa: N812

        try:
            type_ = frame.select(F.expr(f"(\n{sql}\n)").alias("it")).schema.fields[0].dataType
        except PySparkException as error:
            raise ExpectationFailed(
                f"`{one.name}` cannot be checked: {first_sentence(error)}",
                hint=f"the rows have {', '.join(_own(frame.columns))}",
                place=one.place,
                detail=str(error),
            ) from error
        if type_.simpleString() not in ("boolean", "void"):
            raise ExpectationFailed(
                f"`{one.name}` gives {type_.simpleString()}, and a predicate is true or false",
                hint="write a condition, such as `num_workers >= 0`",
                place=one.place,
            )


def fails(at: int) -> Column:
    """Whether a marked row fails the check with this index."""
    return any_of(1 << at)


def any_of(mask: int) -> Column:
    """Whether a marked row fails one of the checks whose bits are in the mask."""
    from pyspark.sql import functions as F  # noqa: N812

    return F.col(FAILED).bitwiseAND(F.lit(mask).cast("bigint")) != 0


def value_of(frame: DataFrame, one: Expectation, name: str) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    return F.col(".".join(quote(part) for part in find_column(one, name, _own(frame.columns))))


def type_of(frame: DataFrame, one: Expectation, name: str) -> DataType:
    parts = find_column(one, name, _own(frame.columns))
    if len(parts) == 1:
        # Without asking Spark, which would have to analyse a query for it.
        return next(field.dataType for field in frame.schema.fields if field.name == parts[0])
    return frame.select(value_of(frame, one, name).alias("it")).schema.fields[0].dataType


def _own(columns: Sequence[str]) -> list[str]:
    """The user's columns, without those of the feed and Tidegauge's own."""
    feed = {CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP}
    return [name for name in columns if name not in feed and not name.startswith("__tidegauge")]


def _literals(frame: DataFrame, one: Expectation, texts: Sequence[str], type_: DataType) -> list[Column]:
    """The texts as values of a column's type. Raises ExpectationFailed for one that is no such value."""
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as F  # noqa: N812

    values = [F.lit(text).try_cast(type_) for text in texts]
    if type_.simpleString() == "string" or (type_.simpleString(), *texts) in _TRIED:
        return values
    asked = [value.isNotNull().alias(f"it{at}") for at, value in enumerate(values)]
    try:
        known: Sequence[bool] = frame.sparkSession.sql("SELECT 1 AS it").select(*asked).collect()[0]
    except PySparkException:
        known = [False]
    for text, good in zip(texts, known, strict=False):
        if not good:
            raise ExpectationFailed(
                f"`{one.name}`: '{text}' is not a valid {type_.simpleString()}, the type of the column",
                hint="write it as the column has it",
                place=one.place,
            )
    _TRIED.add((type_.simpleString(), *texts))
    return values


def _try_pattern(frame: DataFrame, one: Expectation, pattern: str) -> None:
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as F  # noqa: N812

    if ("pattern", pattern) in _TRIED:
        return
    try:
        asked = frame.sparkSession.sql("SELECT '' AS it")
        asked.select(F.col("it").rlike(rf"\A(?:{pattern})\z")).collect()
    except PySparkException as error:
        raise ExpectationFailed(
            f"`{one.name}`: '{pattern}' is no regular expression that Java reads: {first_sentence(error)}",
            hint="mend the pattern; it has to match the whole value",
            place=one.place,
            detail=str(error),
        ) from error
    _TRIED.add(("pattern", pattern))
