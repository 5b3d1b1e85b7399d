"""The table of types: what the documentation says is what the code does."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegauge.errors import TypeNotHeld
from tidegauge.model.spec import TableName
from tidegauge.sources.mysql.types import RULES as MYSQL
from tidegauge.sources.postgresql.types import RULES as POSTGRESQL
from tidegauge.sources.texts import spark_text
from tidegauge.sources.types import CatalogueColumn, arrive, decimal_size
from tidegauge.sources.types_page import markdown

TABLE = TableName("shop", "orders")
PAGE = Path(__file__).parents[2] / "docs" / "types.md"


def test_the_page_of_types_is_made_from_the_rules() -> None:
    assert PAGE.read_text() == markdown(), "run: python -m tidegauge.sources.types_page > docs/types.md"


def test_no_type_has_two_rules_without_a_condition() -> None:
    for rules in (MYSQL, POSTGRESQL):
        for rule in rules.rules:
            for name in rule.types:
                same = [other for other in rules.rules if name in other.types]
                assert len(same) == 1 or all(other.condition for other in same)


@pytest.mark.parametrize(
    ("precision", "scale", "size"), [(10, 2, (10, 2)), (5, -2, (7, 0)), (3, 5, (5, 5)), (38, 38, (38, 38))]
)
def test_any_scale_of_postgresql_is_a_decimal_of_spark(
    precision: int, scale: int, size: tuple[int, int]
) -> None:
    assert decimal_size(CatalogueColumn("n", "numeric", "numeric", precision=precision, scale=scale)) == size


@pytest.mark.parametrize(
    "native",
    [
        CatalogueColumn("v", "decimal", "decimal(39,0)", precision=39, scale=0),
        CatalogueColumn("v", "geometry", "geometry"),
        CatalogueColumn("v", "vector", "vector(3)"),
    ],
)
def test_what_cannot_be_held_names_column_type_and_override(native: CatalogueColumn) -> None:
    with pytest.raises(TypeNotHeld) as caught:
        arrive(MYSQL, TABLE, native, "`v`", override=None, zero_dates="fail")
    assert "shop.orders" in caught.value.message
    assert native.full in caught.value.message
    assert "types: {v: string}" in str(caught.value.hint)
    assert arrive(MYSQL, TABLE, native, "`v`", override="string", zero_dates="fail").arrives == "string"


@pytest.mark.parametrize("override", ["decimal(39,0)", "decimal(2,3)", "date", "int", "whatever"])
def test_an_override_that_has_no_exact_way_is_refused(override: str) -> None:
    with pytest.raises(TypeNotHeld):
        arrive(
            MYSQL,
            TABLE,
            CatalogueColumn("v", "bigint", "bigint"),
            "`v`",
            override=override,
            zero_dates="fail",
        )


def test_an_override_that_says_what_is_so_anyway_is_fine() -> None:
    column = arrive(
        MYSQL, TABLE, CatalogueColumn("v", "int", "int"), "`v`", override="INT", zero_dates="fail"
    )
    assert column.arrives == "int"


def test_a_name_with_braces_is_not_taken_for_a_place() -> None:
    column = arrive(
        MYSQL, TABLE, CatalogueColumn("{p}", "date", "date"), "`{p}`", override=None, zero_dates="fail"
    )
    assert "`{p}`" in column.select


def test_zero_dates_as_null_lift_only_their_own_guard() -> None:
    native = CatalogueColumn("v", "datetime", "datetime")
    assert arrive(MYSQL, TABLE, native, "`v`", override=None, zero_dates="fail").guard
    assert arrive(MYSQL, TABLE, native, "`v`", override=None, zero_dates="null").guard is None
    number = CatalogueColumn("v", "numeric", "numeric(3,2)", precision=3, scale=2)
    assert arrive(POSTGRESQL, TABLE, number, '"v"', override=None, zero_dates="null").guard


def test_a_text_of_spark_holds_any_character() -> None:
    assert spark_text("'\\") == "DECODE(UNHEX('275c'), 'UTF-8')"
