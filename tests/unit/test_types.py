"""Spark's type names: decimals, which type holds another, quoting; one answer wherever it is asked."""

from __future__ import annotations

import pytest

from tidegauge.model.spec import Drift, TableName
from tidegauge.model.table import Field, Layout
from tidegauge.model.types import holds, parse_decimal, quote
from tidegauge.outputs.delta.types import fits
from tidegauge.outputs.warehouse.fit import FitVerdict, by_type
from tidegauge.plan.drift import decide

_IN_A_LOG = {"tinyint": "byte", "smallint": "short", "int": "integer", "bigint": "long"}


@pytest.mark.parametrize("written", ["decimal(10,2)", "DECIMAL(10, 2)", "decimal( 10 ,2 )"])
def test_a_decimal_is_read_in_any_letters_and_spaces(written: str) -> None:
    assert parse_decimal(written) == (10, 2)


@pytest.mark.parametrize("written", ["decimal", "decimal(10)", "decimal(1234,2)", "bigint", "decimal(١,٠)"])
def test_what_is_no_decimal_with_a_size_is_none(written: str) -> None:
    assert parse_decimal(written) is None


@pytest.mark.parametrize(
    ("held", "brought", "answer"),
    [
        ("bigint", "decimal(18,0)", True),
        ("bigint", "decimal(19,0)", False),
        ("bigint", "decimal(18,1)", False),
        ("int", "decimal(9,0)", True),
        ("int", "decimal(10,0)", False),
        ("decimal(19,0)", "bigint", True),
        ("decimal(18,0)", "bigint", False),
        ("decimal(12,4)", "decimal(10,2)", True),
        ("double", "float", True),
        ("string", "int", False),
    ],
)
def test_every_output_says_the_same_of_what_a_column_holds(held: str, brought: str, answer: bool) -> None:
    assert holds(held, brought) is answer
    there, come = Field("v", held, held), Field("v", brought, brought)
    assert (by_type(there, come, brought).verdict is FitVerdict.HOLDS) is answer
    assert fits(_IN_A_LOG.get(held, held), _IN_A_LOG.get(brought, brought)) is answer
    layout = Layout(TableName("shop", "orders"), (come,), (), "timestamp", None)
    if answer:
        assert decide(Drift.FAIL, (there,), layout, place="lake").changes == ()


def test_e1_a_name_cannot_leave_its_quotes() -> None:
    assert quote("a`b.c") == "`a``b.c`"
