"""Targets that change with their source, and names and values that mean no harm."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from tests.support.warehouses import ORDERS, Yard, counts, layout_of, loader
from tidegauge.errors import OutputDisagrees, OutputError
from tidegauge.model.mode import Mode

HOSTILE = [
    'quote " double "" end',
    "it's",
    "a.b",
    "100%s %(x)s %",
    "back\\slash \\'",
    "select",
    "🌊 ñ",
    ":name $1 ?",
    "`tick`",
    "; DROP TABLE orders; --",
    "_tidegauge_stretch",
    "_tidegauge_stretch_",
    "t",
    "x" * 60,
]


def test_e1_hostile_names_are_only_names(warehouse: Yard) -> None:
    # MySQL has no names with characters beyond U+FFFF.
    wave = "ñ" if warehouse.name == "mariadb" else "🌊"
    # Snowflake's stand-in has no names with an apostrophe.
    mark = "`" if warehouse.name == "snowflake" else "'"
    names = [name.replace("🌊", wave).replace("'", mark) for name in HOSTILE]
    key = 'the "key" %s?'
    columns = ((name, "string", "varchar(20)") for name in names)
    layout = layout_of((key, "bigint"), *columns, ("at", "bigint"), key=(key,))
    for number, mode in enumerate((Mode.MERGE, Mode.OVERWRITE, Mode.SCD2, Mode.APPEND)):
        table = f'tab{mark}le "{number}" % ? {wave}'
        orders = loader(warehouse, table=table, name=f"flow {number} % ? '", mode=mode)
        orders.rows(layout, [(1, *("a" for _ in names), 1)], [(1, *("b" for _ in names), 2)])
        orders.rows(layout, [(1, *("c" for _ in names), 3)])
        rows = warehouse.contents(table, [field.name for field in layout.fields])
        assert (1, *("c" for _ in names), 3) in rows
    assert warehouse.staging_tables() == []


@pytest.mark.parametrize("name", ["_tidegauge_run_id", "_TIDEGAUGE_deleted_at"])
def test_names_of_our_own_are_refused(warehouse: Yard, name: str) -> None:
    with pytest.raises(OutputError, match="Tidegauge's own"):
        loader(warehouse).rows(layout_of(("id", "bigint"), (name, "string")), [(1, "x")])


def test_an_added_column_reaches_the_target_and_a_dropped_one_stays(warehouse: Yard) -> None:
    orders = loader(warehouse)
    orders.rows(layout_of(("id", "bigint"), ("a", "string")), [(1, "a1"), (2, "a2")])
    wider = layout_of(("id", "bigint"), ("a", "string"), ("b", "int"))
    assert counts(orders.rows(wider, [(1, "a1", None), (2, "a2", 7)])) == (2, 0, 1, 0)
    # The source has lost `a`: rows that come have none, and the others keep theirs.
    assert counts(orders.rows(layout_of(("id", "bigint"), ("b", "int")), [(2, 8), (3, 9)])) == (2, 1, 1, 0)
    assert warehouse.contents("orders", ["id", "a", "b"]) == [(1, "a1", None), (2, None, 8), (3, None, 9)]


WIDER: list[tuple[str, str, Any, Any]] = [
    ("tinyint", "bigint", -128, 2**62),
    ("int", "bigint", 2**31 - 1, -(2**63)),
    ("decimal(10,2)", "decimal(14,4)", Decimal("12345678.25"), Decimal("1234567890.0001")),
    ("decimal(18,0)", "bigint", Decimal(10**18 - 1), 2**63 - 1),
    ("float", "double", 0.5, 0.1),
]


@pytest.mark.parametrize(("old", "new", "first", "second"), WIDER)
@pytest.mark.parametrize("key", [False, True])
def test_a_wider_type_reaches_the_target(
    warehouse: Yard, old: str, new: str, first: Any, second: Any, key: bool
) -> None:
    if key and old == "float":
        pytest.skip("a float is no key")
    if warehouse.name == "snowflake" and (key or "decimal" in new):
        pytest.skip("Snowflake changes no scale, and its stand-in no column of a key")
    if warehouse.name == "sqlite" and old == "decimal(18,0)":
        pytest.skip("SQLite keeps so many digits as text, and changes no type")
    names = ("v",) if key else ("id",)
    orders = loader(warehouse)
    orders.rows(layout_of(("id", "bigint"), ("v", old), key=names), [(1, first)])
    for _ in range(2):
        orders.rows(layout_of(("id", "bigint"), ("v", new), key=names), [(1, first), (2, second)])
    found = warehouse.contents("orders", ["id", "v"], ["id"])
    assert [(one, Decimal(str(value))) for one, value in found] == [
        (1, Decimal(str(first))),
        (2, Decimal(str(second))),
    ]


def test_a_target_that_is_wider_already_stays_so(warehouse: Yard) -> None:
    warehouse.create("orders", layout_of(("id", "bigint"), ("v", "decimal(20,4)"), ("extra", "string")))
    orders = loader(warehouse)
    before = warehouse.output(orders.flow).layout()
    orders.rows(layout_of(("id", "int"), ("v", "decimal(10,2)")), [(1, Decimal("1.25"))])
    assert counts(orders.rows(layout_of(("id", "int"), ("v", "decimal(10,2)")), [(1, Decimal("1.25"))])) == (
        1,
        0,
        0,
        0,
    )
    assert warehouse.output(orders.flow).layout() == before


def test_a_whole_number_takes_a_decimal_that_it_holds_and_stays_what_it_is(warehouse: Yard) -> None:
    warehouse.create("orders", layout_of(("id", "bigint"), ("v", "bigint")))
    orders = loader(warehouse)
    before = warehouse.output(orders.flow).layout()
    rows = [(1, Decimal(10**18 - 1)), (2, Decimal(1 - 10**18))]
    for expected in ((2, 2, 0, 0), (2, 0, 0, 0)):
        assert counts(orders.rows(layout_of(("id", "bigint"), ("v", "decimal(18,0)")), rows)) == expected
    assert warehouse.contents("orders", ["id", "v"]) == [(1, 10**18 - 1), (2, 1 - 10**18)]
    assert warehouse.output(orders.flow).layout() == before


def test_a_column_of_another_kind_is_refused_before_anything_changes(warehouse: Yard) -> None:
    warehouse.create("orders", layout_of(("id", "bigint"), ("v", "binary", "varbinary(10)")))
    orders = loader(warehouse)
    before = warehouse.output(orders.flow).layout()
    with pytest.raises(
        OutputDisagrees, match=r"the column v of .*orders is .*, which cannot hold text \(string\)"
    ) as told:
        orders.rows(layout_of(("id", "bigint"), ("v", "string", "text"), ("w", "int")), [(1, "x", 1)])
    assert told.value.hint
    assert warehouse.output(orders.flow).layout() == before
    assert warehouse.staging_tables() == []


def test_a_target_without_the_key_is_refused(warehouse: Yard) -> None:
    warehouse.create("orders", layout_of(("name", "string")))
    with pytest.raises(OutputDisagrees, match="no column id"):
        loader(warehouse).rows(ORDERS, [(1, "a", None, 1)])


EVERY = layout_of(
    ("id", "bigint"),
    ("yes", "boolean"),
    ("tiny", "tinyint"),
    ("small", "smallint"),
    ("whole", "int"),
    ("real", "double"),
    ("exact", "decimal(38,10)"),
    ("word", "string", "varchar(100)"),
    ("bytes", "binary", "varbinary(100)"),
    ("day", "date"),
    ("moment", "timestamp"),
    ("wall", "timestamp_ntz"),
)


def test_values_at_their_limits_arrive_and_are_the_same_the_next_time(warehouse: Yard) -> None:
    digits = Decimal("1234567890123456789012345678.0123456789")
    rows = [
        (-(2**63), True, -128, -(2**15), -(2**31), 1e308, digits, "", b"", date(1000, 1, 1),
         datetime(1970, 1, 2, tzinfo=UTC), datetime(1000, 1, 1)),
        (2**63 - 1, False, 127, 2**15 - 1, 2**31 - 1, -0.1, -digits, "it's \\ % ? \n é🌊", bytes(range(100)),
         date(9999, 12, 31), datetime(2037, 1, 1, 0, 0, 0, 1, tzinfo=UTC),
         datetime(9999, 12, 31, 23, 59, 59, 999999)),
        (0, *[None] * 11),
    ]  # fmt: skip
    orders = loader(warehouse)
    assert counts(orders.rows(EVERY, rows)) == (3, 3, 0, 0)
    assert counts(orders.rows(EVERY, rows)) == (3, 0, 0, 0)
    held = warehouse.output(orders.flow).layout()
    assert held is not None
    assert [one.name for one in held] == [one.name for one in EVERY.fields]
    found = warehouse.contents("orders", ["id", "whole", "exact", "word"])
    assert [
        (one, whole, exact if exact is None else Decimal(str(exact)), word)
        for one, whole, exact, word in found
    ] == [
        (-(2**63), -(2**31), digits, ""),
        (0, None, None, None),
        (2**63 - 1, 2**31 - 1, -digits, "it's \\ % ? \n é🌊"),
    ]
