"""Marks each row of a database table with the checks that it fails, while the rows are read.

Each record batch goes through one query of DuckDB, in this process or in a Spark task. The query returns only
the marks, so a row's own values never change. NULL passes every check but `not_null`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tidegauge.errors import ExpectationFailed
from tidegauge.model.arrow import schema_of
from tidegauge.model.batch_data import BatchData, BatchRows, CheckedRows, KeysToDelete, Split
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
from tidegauge.model.marks import FAILED, ROW, FailedCheckBits
from tidegauge.model.row_text import write_rows
from tidegauge.model.table import Field, Layout
from tidegauge.transform.row_predicates import find_fault

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa
    from pyspark.sql import DataFrame

MARK_FIELDS = (Field(FAILED, "bigint", "bigint"), Field(ROW, "string", "longtext"))
_ROWS = "rows_"
_TIMES = ("timestamp", "timestamp_ntz", "date")


def check_marks(expect: Sequence[Expectation], layout: Layout) -> None:
    """Raises ExpectationFailed, with the place, for a check that does not fit rows of this layout."""
    if not expect:
        return
    for one in expect:
        _check_columns(one, layout)
    _check_names(expect[0], layout)
    with closing(_connect()) as connection:
        _write_query(connection, FailedCheckBits.of(expect), schema_of(layout))


def _check_columns(one: Expectation, layout: Layout) -> None:
    types = {field.name: field.type for field in layout.fields}
    found = [_find(one, name, list(types)) for name in one.columns]
    if isinstance(one.rule, Fresh) and types[found[0]] not in _TIMES:
        raise ExpectationFailed(
            f"`{one.name}`: {found[0]} is {types[found[0]]}, which is no time",
            hint="name a column of dates or timestamps",
            place=one.place,
        )


def _check_names(first: Expectation, layout: Layout) -> None:
    """Refuse column names that differ only in case, which DuckDB takes for one, and Tidegauge's own names."""
    seen: set[str] = set()
    for field in layout.fields:
        folded = field.name.casefold()
        why = "differs from another only in case" if folded in seen else None
        why = "has a name of Tidegauge's own" if folded in (FAILED, ROW) else why
        if why is not None:
            raise ExpectationFailed(
                f"the column {field.name} of {layout.table} {why}, so its rows cannot be checked",
                hint="rename it at the source, or read through a view",
                place=first.place,
            )
        seen.add(folded)


def mark_rows(batch_data: BatchData, expect: Sequence[Expectation]) -> BatchData:
    """The batch with its marked rows in `checked`; keys to delete are not checked."""
    if not expect or not isinstance(batch_data, BatchRows) or isinstance(batch_data, KeysToDelete):
        return batch_data
    layout, marks = batch_data.layout, FailedCheckBits.of(expect)
    frame = batch_data.frame
    marked = replace(
        batch_data,
        layout=replace(layout, fields=(*layout.fields, *MARK_FIELDS)),
        files=(),
        splits=tuple(MarkedSplit(split, layout, marks) for split in batch_data.splits),
        frame=None if frame is None else lambda session: _mark_frame(frame(session), layout, marks),
    )
    return replace(batch_data, checked=CheckedRows(tuple(expect), marked))


@dataclass(frozen=True)
class MarkedSplit:
    """Another split (`model.batch_data.Split`), whose rows also have the columns FAILED and ROW."""

    split: Split
    layout: Layout
    marks: FailedCheckBits

    def batches(self) -> Iterator[pa.RecordBatch]:
        with closing(Marker(self.layout, self.marks)) as marker:
            for batch in self.split.batches():
                yield marker.mark(batch)


class Marker:
    """Marks record batches of one layout."""

    def __init__(self, layout: Layout, marks: FailedCheckBits) -> None:
        import pyarrow as pa

        self._marks = marks
        self._connection = _connect()
        own = schema_of(layout)
        self._query = _write_query(self._connection, marks, own)
        self._schema = pa.schema([*own, *schema_of(replace(layout, fields=MARK_FIELDS))])

    def close(self) -> None:
        self._connection.close()

    def mark(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows with the columns FAILED and ROW added."""
        import pyarrow as pa
        import pyarrow.compute as pc

        failed = self.find_failed(batch)
        texts = pa.nulls(batch.num_rows, pa.string())
        if self._marks.looks_up:
            texts = pa.array(write_rows(batch), pa.string())
        else:
            wanted = pc.not_equal(pc.bit_wise_and(failed, self._marks.needs_text), 0)
            if pc.any(wanted).as_py():
                written = pa.array(write_rows(batch.filter(wanted)), pa.string())
                texts = pc.replace_with_mask(texts, wanted, written)
        columns = [*batch.columns, failed, texts]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def find_failed(self, batch: pa.RecordBatch) -> pa.Array:
        """The column FAILED: for each row the bits of the checks that it fails."""
        import duckdb
        import pyarrow as pa

        table = pa.Table.from_batches([batch])
        self._connection.register(_ROWS, table)
        try:
            found: pa.ChunkedArray = self._connection.sql(self._query).to_arrow_table().column(0)
        except duckdb.Error as error:
            raise self._explain(error) from error
        finally:
            self._connection.unregister(_ROWS)
        assert len(found) == batch.num_rows
        return found.combine_chunks().cast(pa.int64())

    def _explain(self, error: duckdb.Error) -> ExpectationFailed:
        """The error where DuckDB cannot evaluate a predicate; it names the predicates that it may be."""
        said = str(error).splitlines()[0]
        named = [one for one in self._marks.checks if isinstance(one.rule, Predicate)]
        which = named[0].name if len(named) == 1 else ", ".join(one.name for one in named)
        return ExpectationFailed(
            f"`{which}` cannot be evaluated for a row: {said}",
            hint="let the predicate be true or false for any value: TRY_CAST instead of CAST",
            place=named[0].place if named else None,
        )


def _mark_frame(frame: DataFrame, layout: Layout, marks: FailedCheckBits) -> DataFrame:
    schema = schema_of(layout)
    added = [f"CAST(NULL AS {field.type}) AS {field.name}" for field in MARK_FIELDS]

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        with closing(Marker(layout, marks)) as marker:
            for batch in batches:
                fitted = [column.cast(one.type) for column, one in zip(batch.columns, schema, strict=True)]
                yield marker.mark(pa.RecordBatch.from_arrays(fitted, schema=schema))

    return frame.mapInArrow(work, frame.selectExpr("*", *added).schema)


def _connect() -> duckdb.DuckDBPyConnection:
    import duckdb

    connection = duckdb.connect(config={"threads": 1, "enable_external_access": "false"})
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def _write_query(connection: duckdb.DuckDBPyConnection, marks: FailedCheckBits, schema: pa.Schema) -> str:
    """The query that computes FAILED. Raises ExpectationFailed for a check that does not fit the columns."""
    connection.register(_ROWS, schema.empty_table())
    described = connection.execute(f"DESCRIBE {_ROWS}").fetchall()
    types = {str(name): str(kind) for name, kind, *_ in described}
    parts = []
    for at, one in enumerate(marks.checks):
        wrong = _make_failure_condition(connection, one, types)
        if wrong is not None:
            parts.append(f"CASE WHEN {wrong} THEN {1 << at} ELSE 0 END")
    connection.unregister(_ROWS)
    return f"SELECT CAST({' + '.join(parts) or '0'} AS BIGINT) FROM {_ROWS}"


def _make_failure_condition(
    connection: duckdb.DuckDBPyConnection, one: Expectation, types: dict[str, str]
) -> str | None:
    """SQL that is true for a row that fails the check; None for a check that needs more than the row."""

    def column(name: str) -> tuple[str, str]:
        found = _find(one, name, list(types))
        return _quote(found), types[found]

    match one.rule:
        case Predicate(sql):
            fault = find_fault(connection, one, sql, list(types))
            if fault is not None:
                raise fault
            _try_predicate(connection, one, sql)
            return f"NOT (\n{sql}\n)"
        case NotNull(name):
            return f"{column(name)[0]} IS NULL"
        case Accepted(name, values):
            quoted, kind = column(name)
            return f"{quoted} NOT IN ({', '.join(_literals(connection, one, values, kind))})"
        case InRange(name, least, greatest):
            quoted, kind = column(name)
            ends = ((sign, end) for sign, end in (("<", least), (">", greatest)) if end is not None)
            return " OR ".join(
                f"{quoted} {sign} {_literals(connection, one, [end], kind)[0]}" for sign, end in ends
            )
        case Matches(name, pattern):
            _try_pattern(connection, one, pattern)
            return f"NOT regexp_full_match(CAST({column(name)[0]} AS VARCHAR), {_quote_text(pattern)})"
        case ForeignKey() | Unique() | RowCount() | Fresh():
            return None


def _try_predicate(connection: duckdb.DuckDBPyConnection, one: Expectation, sql: str) -> None:
    import duckdb

    try:
        described = connection.execute(f"DESCRIBE SELECT (\n{sql}\n) AS it FROM {_ROWS}").fetchall()
    except duckdb.Error as error:
        raise ExpectationFailed(
            f"`{one.name}` cannot be checked: {str(error).splitlines()[0]}",
            hint="write a condition on the columns of one row, in DuckDB's SQL",
            place=one.place,
            detail=str(error),
        ) from error
    kind = str(described[0][1])
    if kind not in ("BOOLEAN", '"NULL"'):
        raise ExpectationFailed(
            f"`{one.name}` gives {kind}, and a predicate is true or false",
            hint="write a condition, such as `num_workers >= 0`",
            place=one.place,
        )


def _try_pattern(connection: duckdb.DuckDBPyConnection, one: Expectation, pattern: str) -> None:
    import duckdb

    try:
        connection.execute(f"SELECT regexp_full_match('', {_quote_text(pattern)})").fetchall()
    except duckdb.Error as error:
        raise ExpectationFailed(
            f"`{one.name}`: '{pattern}' is no regular expression that DuckDB reads:"
            f" {str(error).splitlines()[0]}",
            hint="mend the pattern (RE2's syntax); it has to match the whole value",
            place=one.place,
        ) from error


def _literals(
    connection: duckdb.DuckDBPyConnection, one: Expectation, texts: Sequence[str], kind: str
) -> list[str]:
    """The texts as SQL values of a column's type. Raises ExpectationFailed for one that is no such value."""
    for text in texts:
        ((known,),) = connection.execute(
            f"SELECT TRY_CAST({_quote_text(text)} AS {kind}) IS NOT NULL"
        ).fetchall()
        if not known:
            raise ExpectationFailed(
                f"`{one.name}`: '{text}' is not a valid {kind}, the type of the column",
                hint="write it as the column has it",
                place=one.place,
            )
    return [f"CAST({_quote_text(text)} AS {kind})" for text in texts]


def _find(one: Expectation, name: str, columns: Sequence[str]) -> str:
    """The column's name as the rows spell it. Raises ExpectationFailed where they have no such column."""
    found = {column.casefold(): column for column in columns}.get(name.casefold())
    if found is None:
        raise ExpectationFailed(
            f"`{one.name}` is expected, and the rows have no column {name}",
            hint=f"they have {', '.join(sorted(columns))}",
            place=one.place,
        )
    return found


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _quote_text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
