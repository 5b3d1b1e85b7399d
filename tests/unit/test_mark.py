"""Rows marked with the checks that they fail: every rule, NULL, every type, and what is refused at plan."""

from __future__ import annotations

import json
import pickle
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from tidegauge.errors import ExpectationFailed, Place
from tidegauge.model.arrow import schema_of
from tidegauge.model.batch_data import BatchRows, KeysToDelete, LakeFile
from tidegauge.model.expectation import (
    Accepted,
    Action,
    Expectation,
    Fresh,
    InRange,
    Matches,
    NotNull,
    Predicate,
    RowCount,
    Rule,
    Unique,
)
from tidegauge.model.marks import FAILED, ROW, FailedCheckBits, refuse
from tidegauge.model.row_text import read_rows, write_rows
from tidegauge.model.spec import Lake, TableName
from tidegauge.model.table import Field, Layout
from tidegauge.transform.mark import MarkedSplit, Marker, check_marks, mark_rows

FAIL, QUARANTINE, DROP, WARN = Action
PLACE = Place("tidegauge.yml", 7, 9)


def expect(rule: Rule, action: Action = QUARANTINE, name: str = "it") -> Expectation:
    return Expectation(name, rule, action, place=PLACE)


def layout_of(**types: str) -> Layout:
    fields = tuple(Field(name, kind, kind) for name, kind in types.items())
    return Layout(TableName("shop", "t"), fields, ("id",), "value", None)


def failing(kind: str, rule: Rule, *values: Any) -> list[int]:
    """Which of the values of a column `x` fail."""
    layout = layout_of(x=kind)
    batch = pa.RecordBatch.from_arrays(
        [pa.array(values, schema_of(layout)[0].type)], schema=schema_of(layout)
    )
    marker = Marker(layout, FailedCheckBits.of([expect(rule)]))
    return [at for at, mask in enumerate(marker.find_failed(batch).to_pylist()) if mask]


DEEP = "9" * 28 + "." + "0" * 9
MOMENT = datetime(2025, 3, 30, 2, 30, 0, 1)


@pytest.mark.parametrize(
    ("kind", "rule", "values", "fails"),
    [
        ("int", NotNull("x"), (1, None), [1]),
        ("string", Accepted("X", ("a", "it's")), ("a", "it's", "A", "a ", None), [2, 3]),
        ("boolean", Accepted("x", ("true",)), (True, False, None), [1]),
        ("int", InRange("x", "0", "9"), (-1, 0, 9, 10, None), [0, 3]),
        ("int", InRange("x", None, "9"), (-1, 10, None), [1]),
        ("double", InRange("x", "0", None), (-0.1, 0.0, float("inf"), None), [0]),
        ("double", InRange("x", None, "9"), (float("nan"), 1.0), [0]),
        (
            "decimal(38,10)",
            InRange("x", None, f"{DEEP}1"),
            (Decimal(f"{DEEP}1"), Decimal(f"{DEEP}2"), None),
            [1],
        ),
        # An unsigned bigint of MySQL's arrives so.
        ("decimal(20,0)", InRange("x", None, str(2**63)), (Decimal(2**63), Decimal(2**64 - 1)), [1]),
        (
            "timestamp_ntz",
            InRange("x", "2025-03-30 02:30:00.000001", None),
            (MOMENT, datetime(2025, 3, 30, 2, 30)),
            [1],
        ),
        (
            "timestamp",
            InRange("x", None, "2025-03-30 02:30:00.000001+00"),
            (MOMENT.replace(tzinfo=UTC), MOMENT.replace(microsecond=2, tzinfo=UTC)),
            [1],
        ),
        ("date", Accepted("x", ("2025-01-01",)), (date(2025, 1, 1), date(2025, 1, 2), None), [1]),
        ("binary", Accepted("x", (r"\x00\xFF",)), (b"\x00\xff", b"\x00", None), [1]),
        ("string", Matches("x", "[a-z]+|é"), ("abc", "abc1", "é", "", None), [1, 3]),
        ("int", Matches("x", "[0-9]{2}"), (12, 1, 123, None), [1, 2]),
        ("int", Predicate("x > 0 -- why\n"), (1, 0, None), [1]),
        ("int", Predicate("NULL"), (1,), []),
        ("int", Predicate("x IS NOT NULL AND x > 0"), (1, 0, None), [1, 2]),
    ],
)
def test_each_rule_passes_what_is_as_expected_and_null(
    kind: str, rule: Rule, values: tuple[Any, ...], fails: list[int]
) -> None:
    assert failing(kind, rule, *values) == fails


def test_a_row_has_one_bit_for_each_check_and_its_size_tells_what_becomes_of_it() -> None:
    checks = [
        expect(Predicate("n <> 1"), QUARANTINE, "one"),
        expect(Predicate("n <> 2"), WARN, "two"),
        expect(RowCount(least=1), FAIL, "row_count"),
        expect(Predicate("n <> 3"), DROP, "three"),
        expect(Predicate("n <> 4"), FAIL, "four"),
        expect(Predicate("n < 10"), QUARANTINE, "ten"),
    ]
    marks = FailedCheckBits.of(checks)
    assert [one.name for one in marks.checks] == ["two", "four", "three", "one", "ten"]
    layout = layout_of(id="bigint", n="int")
    rows = pa.RecordBatch.from_pydict({"id": range(6), "n": [1, 2, 3, 4, 5, 10]}, schema=schema_of(layout))
    marked = Marker(layout, marks).mark(rows)
    failed = marked.column(FAILED).to_pylist()
    assert failed == [8, 1, 4, 2, 0, 16]
    assert [value >= marks.dropped_from for value in failed] == [True, False, True, False, False, True]
    assert [value >= marks.quarantined_from for value in failed] == [True] + [False] * 4 + [True]
    assert [text is not None for text in marked.column(ROW).to_pylist()] == [
        True,
        False,
        False,
        True,
        False,
        True,
    ]
    assert marks.reasons(24) == ["one", "ten"]
    with pytest.raises(ExpectationFailed, match="1 of 6 rows is not as expected, `four`, such as row 2"):
        marks.judge("t", dict.fromkeys(failed, 1), lambda bit: f"row {bit}")
    with pytest.raises(ExpectationFailed, match="t: 1 row is not as expected, `four`"):
        refuse("t", checks[4], 1, None, lambda: None)
    found = FailedCheckBits.of(checks[:2]).judge("t", {0: 5, 1: 2, 3: 1, 2: 3}, lambda _: None)
    assert (found.checked, found.quarantined, found.dropped) == (11, 4, 0)
    assert [one.failed for one in found.counts] == [3, 4]


EVERY = layout_of(
    id="bigint",
    b="boolean",
    d="decimal(38,10)",
    f="double",
    s="string",
    y="binary",
    day="date",
    at="timestamp",
    local="timestamp_ntz",
)
ROWS: list[tuple[Any, ...]] = [
    (
        2**63 - 1,
        True,
        Decimal(f"-{DEEP}1"),
        0.1,
        'a "quote"\n\x00é😀',
        b"\x00\xff",
        date(1, 1, 1),
        MOMENT.replace(tzinfo=UTC),
        MOMENT,
    ),
    (
        -1,
        False,
        Decimal("0E-10"),
        -0.0,
        "",
        b"",
        date(9999, 12, 31),
        datetime(1969, 12, 31, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, 999999),
    ),
    (0, *[None] * 8),
]


def test_the_json_of_a_row_has_all_that_it_has_and_gives_it_back() -> None:
    schema = schema_of(EVERY)
    arrays = [
        pa.array(column, field.type) for column, field in zip(zip(*ROWS, strict=True), schema, strict=True)
    ]
    batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
    texts = list(write_rows(batch))
    assert read_rows(texts, schema).equals(batch)
    assert json.loads(texts[0])["at"] == "2025-03-30T02:30:00.000001Z"
    assert f'"d":-{DEEP}1,' in texts[0]
    assert json.loads(texts[2]) == {"id": 0, **dict.fromkeys(schema.names[1:])}
    odd = pa.RecordBatch.from_pydict({"x": [float("nan"), float("-inf")]})
    assert [json.loads(text)["x"] for text in write_rows(odd)] == ["NaN", "-Infinity"]
    # A column that came since is NULL; what is no value of its column is refused.
    assert read_rows(['{"id": 1}'], schema).to_pylist()[0]["s"] is None
    for wrong in ('{"day": "x"}', '{"id": "x"}', '{"d": "x"}', '{"id": 1e40}'):
        with pytest.raises(ValueError, match=r"\w"):
            read_rows([wrong], schema)


class Rows:
    def __init__(self, batch: pa.RecordBatch) -> None:
        self.batch = batch

    def batches(self) -> Any:
        yield self.batch
        yield self.batch.slice(0, 0)


def test_marking_leaves_values_and_order_alone_can_be_pickled_and_passes_over_keys() -> None:
    layout = layout_of(id="bigint", s="string")
    batch = pa.RecordBatch.from_pydict(
        {"id": list(range(5000)), "s": [f"é{n}" for n in range(5000)]}, schema=schema_of(layout)
    )
    file = LakeFile(Lake("lake", "/lake"), "f", 5000, 1)
    checks = (expect(Predicate("id % 7 <> 0")),)
    made = mark_rows(BatchRows(layout, 5000, files=(file,), splits=(Rows(batch),)), checks)
    assert isinstance(made, BatchRows)
    assert made.checked is not None
    assert (made.files, made.checked.rows.files) == ((file,), ())
    assert [field.name for field in made.checked.rows.layout.fields] == ["id", "s", FAILED, ROW]
    split = pickle.loads(pickle.dumps(made.checked.rows.splits[0]))
    assert isinstance(split, MarkedSplit)
    marked = pa.Table.from_batches(split.batches())
    assert marked.select(["id", "s"]).equals(pa.Table.from_batches([batch]))
    assert [n for n, mask in enumerate(marked.column(FAILED).to_pylist()) if mask] == list(range(0, 5000, 7))
    keys = KeysToDelete(layout, splits=(Rows(batch),))
    assert mark_rows(keys, checks) is keys
    assert mark_rows(made, ()) is made


def test_a_predicate_that_breaks_at_a_row_fails_the_batch_and_is_named() -> None:
    layout = layout_of(id="bigint", s="string")
    rows = pa.RecordBatch.from_pydict({"id": [1], "s": ["x"]}, schema=schema_of(layout))
    marker = Marker(
        layout, FailedCheckBits.of([expect(Predicate("CAST(s AS INT) > 0"), QUARANTINE, "number")])
    )
    with pytest.raises(
        ExpectationFailed, match=r"`number` cannot be evaluated for a row: Conversion Error"
    ) as found:
        marker.find_failed(rows)
    assert found.value.place == PLACE
    assert "TRY_CAST" in str(found.value.hint)


REFUSED: list[tuple[Rule, str]] = [
    (NotNull("y"), "the rows have no column y"),
    (Unique(("id", "y")), "the rows have no column y"),
    (Fresh("n", timedelta(1)), "n is int, which is no time"),
    (Accepted("n", ("1", "x")), "'x' is not a valid INTEGER"),
    (InRange("n", "1.5x"), "'1.5x' is not a valid INTEGER"),
    (Matches("s", "("), "'\\(' is no regular expression"),
    (Predicate("n >"), "cannot be read as a predicate"),
    (Predicate("n; DROP TABLE t"), "cannot be read as a predicate"),
    (Predicate("y > 1"), "cannot be checked: Binder Error"),
    (Predicate("n + 1"), "gives INTEGER"),
    (Predicate("n IN (SELECT 1)"), "reads another table"),
    (Predicate("sum(n) > 1"), "looks at several rows"),
    (Predicate("row_number() OVER () > 1"), "looks at several rows"),
    (Predicate("random() > n"), r"gives another value in each run: random\(\)"),
    (Predicate("day < current_date"), "reads the clock: current_date"),
    (Predicate("day < now()"), r"reads the clock: now\(\)"),
    (Predicate("age(day) > INTERVAL 1 DAY"), r"reads the clock: age\(\)"),
    (Predicate("read_text('/etc/passwd') IS NULL"), "cannot be checked|reads another table"),
]


@pytest.mark.parametrize(("rule", "message"), REFUSED)
def test_what_cannot_be_told_by_one_row_is_refused_at_plan_with_its_place(rule: Rule, message: str) -> None:
    layout = layout_of(id="bigint", n="int", s="string", day="timestamp_ntz")
    with pytest.raises(ExpectationFailed, match=message) as found:
        check_marks([expect(rule)], layout)
    assert found.value.place == PLACE


def test_columns_that_cannot_be_told_apart_are_refused() -> None:
    with pytest.raises(ExpectationFailed, match="differs from another only in case"):
        check_marks([expect(NotNull("id"))], layout_of(id="int", ID="int"))
    with pytest.raises(ExpectationFailed, match="has a name of Tidegauge's own"):
        check_marks([expect(NotNull("id"))], layout_of(id="int", __tidegauge_row="int"))
    check_marks([expect(Predicate('"current_date" > 1'))], layout_of(id="int", current_date="int"))
