from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tidegauge.engine.select import expand
from tidegauge.errors import TableMissing
from tidegauge.model.spec import Database, Engine, Lake, Sync, TableName, TableOptions

pytestmark = pytest.mark.unit

POSTGRES = Database("app", Engine.POSTGRESQL, database="shop", schema="sales")
OPTIONS = TableOptions(cursor="at")
CATALOGUE = [
    TableName("public", "orders"),
    TableName("sales", "orders"),
    TableName("sales", "tmp_x"),
    TableName("sales", "we.ird [name]"),
]


def sync(*tables: str, **changes: object) -> Sync:
    made = Sync(POSTGRES, Lake("lake", "/lake"), tables, (), OPTIONS, {})
    return replace(made, **changes)  # type: ignore[arg-type]


def names(one: Sync) -> list[str]:
    return [flow.name for flow in expand("p", one, CATALOGUE)]


def test_patterns_go_over_the_catalogue_and_exclusions_take_away() -> None:
    assert names(sync("sales.*", exclude=("sales.tmp_*",))) == ["sales.orders", "sales.we.ird [name]"]


def test_a_name_without_a_schema_means_the_connections_own() -> None:
    assert names(sync("orders")) == ["sales.orders"]


def test_a_name_that_looks_like_a_pattern_is_found_as_it_is() -> None:
    assert names(sync("sales.we.ird [name]")) == ["sales.we.ird [name]"]


def test_a_table_matched_twice_is_one_flow() -> None:
    assert names(sync("sales.orders", "*.orders")) == ["sales.orders", "public.orders"]


def test_a_table_that_is_not_there_is_named_with_its_nearest() -> None:
    with pytest.raises(TableMissing, match=r"no table 'sales\.order'") as caught:
        names(sync("sales.order"))
    assert "sales.orders" in str(caught.value.hint)


def test_an_override_by_name_beats_one_by_pattern() -> None:
    by_pattern, by_name = (
        TableOptions(cursor="a"),
        TableOptions(cursor="b", rename="archive_{schema}_{table}"),
    )
    flows = expand("p", sync("*.orders", override={"*": by_pattern, "sales.orders": by_name}), CATALOGUE)
    assert {flow.name: (flow.options.cursor, flow.folder) for flow in flows} == {
        "public.orders": ("a", "public.orders"),
        "sales.orders": ("b", "archive_sales_orders"),
    }


def test_sqlite_has_no_schema() -> None:
    shop = Database("app", Engine.SQLITE, path=Path("/shop.db"))
    [flow] = expand("p", sync("ord*", source=shop), [TableName(None, "orders")])
    assert (flow.name, flow.folder, flow.input) == ("orders", "orders", "orders")


@pytest.mark.parametrize("name", ["../../etc", "/etc/passwd", "a/b", "..", "%2e%2e", "a\0b"])
def test_e4_a_hostile_name_stays_below_the_lake(name: str) -> None:
    shop = Database("app", Engine.SQLITE, path=Path("/shop.db"))
    [flow] = expand("p", sync(name, source=shop), [TableName(None, name)])
    assert "/" not in flow.folder
    assert "\0" not in flow.folder
    assert Path("/lake", flow.folder).resolve().parent == Path("/lake")
