from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from tidegauge.errors import ConfigError, Place, TableMissing
from tidegauge.flows.selection.select import Selection, choose, expand
from tidegauge.model.delta_flow import DeltaFlow, DeltaInput, DeltaTable, Sql, TableRef
from tidegauge.model.protocols.source import Source
from tidegauge.model.spec import (
    Database,
    Engine,
    Lake,
    LakeTable,
    Project,
    SparkSettings,
    Stage,
    Sync,
    TableFlow,
    TableName,
    TableOptions,
    WarehouseTable,
)
from tidegauge.model.view_flow import ViewFlow, ViewName
from tidegauge.operations.status import spread
from tidegauge.sources.connections import SourceConnections

POSTGRES = Database("app", Engine.POSTGRESQL, database="shop", schema="sales")
OPTIONS = TableOptions(cursor="at")
CATALOGUE = [
    TableName("public", "orders"),
    TableName("sales", "orders"),
    TableName("sales", "tmp_x"),
    TableName("sales", "we.ird [name]"),
]


def sync(*tables: str, **changes: object) -> Sync:
    made = Sync(POSTGRES, None, Lake("lake", "/lake"), tables, (), OPTIONS, {})
    return replace(made, **changes)  # type: ignore[arg-type]


def folder_of(flow: TableFlow) -> str:
    assert isinstance(flow.output, LakeTable)
    return flow.output.folder


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
    flows = expand("p", sync("*.orders", per_table={"*": by_pattern, "sales.orders": by_name}), CATALOGUE)
    assert {flow.name: (flow.options.cursor, folder_of(flow)) for flow in flows} == {
        "public.orders": ("a", "public.orders"),
        "sales.orders": ("b", "archive_sales_orders"),
    }


def test_sqlite_has_no_schema() -> None:
    shop = Database("app", Engine.SQLITE, path=Path("/shop.db"))
    [flow] = expand("p", sync("ord*", source=shop), [TableName(None, "orders")])
    assert (flow.name, folder_of(flow), flow.input) == ("orders", "orders", "orders")


@pytest.mark.parametrize("name", ["../../etc", "/etc/passwd", "a/b", "..", "%2e%2e", "a\0b"])
def test_e4_a_hostile_name_stays_below_the_lake(name: str) -> None:
    shop = Database("app", Engine.SQLITE, path=Path("/shop.db"))
    [flow] = expand("p", sync(name, source=shop), [TableName(None, name)])
    assert "/" not in folder_of(flow)
    assert "\0" not in folder_of(flow)
    assert Path("/lake", folder_of(flow)).resolve().parent == Path("/lake")


WAREHOUSE = Database("wh", Engine.DUCKDB, path=Path("/wh.duckdb"))
LAKE = Lake("lake", "/lake")


HAVE_ALL = {"with_column": lambda _: frozenset(CATALOGUE), "with_key": lambda: frozenset(CATALOGUE)}
"""Every table has the cursor and a key."""


class Known(SourceConnections):
    def of(self, database: Database) -> Source:
        return cast("Source", SimpleNamespace(tables=lambda: tuple(CATALOGUE), **HAVE_ALL))


def project(one: Sync) -> Project:
    return Project("p", Path("/p/tidegauge.yml"), "", timedelta(seconds=60), SparkSettings(), {}, (one,))


def test_a_lake_on_the_way_makes_two_flows_of_a_table() -> None:
    extract, load = expand("p", sync("sales.orders", via=LAKE, to=WAREHOUSE), CATALOGUE)
    assert (extract.name, load.name) == ("sales.orders/extract", "sales.orders/load")
    assert extract.output == load.reads == LakeTable(LAKE, "sales.orders")
    assert load.output == WarehouseTable(WAREHOUSE, TableName("main", "orders"))
    assert (extract.stage, load.stage, load.upstream) == (Stage.EXTRACT, Stage.LOAD, extract.name)
    assert load.input == "sales.orders"


def test_without_a_lake_a_table_goes_straight_into_the_warehouse_under_its_new_name() -> None:
    renamed = TableOptions(cursor="at", rename="{table}_REPLICATION")
    [flow] = expand("p", sync("sales.orders", to=POSTGRES, options=renamed), CATALOGUE)
    assert flow.output == WarehouseTable(POSTGRES, TableName("sales", "orders_REPLICATION"))
    assert (flow.name, flow.reads, flow.stage) == ("sales.orders", None, None)


def test_a_table_is_never_written_over_itself() -> None:
    with pytest.raises(ConfigError, match="source and target are the same table"):
        expand("p", sync("sales.orders", to=POSTGRES), CATALOGUE)


@pytest.mark.parametrize(
    ("words", "stage", "found"),
    [
        ((), None, ["sales.orders/extract", "sales.orders/load"]),
        (("sales.orders",), None, ["sales.orders/extract", "sales.orders/load"]),
        (("orders",), Stage.LOAD, ["sales.orders/load"]),
        (("sales.orders/load",), None, ["sales.orders/load"]),
        (("sales.*/extract",), None, ["sales.orders/extract"]),
        (("+sales.orders/load",), None, ["sales.orders/extract", "sales.orders/load"]),
        (("sales.orders/extract+",), None, ["sales.orders/extract", "sales.orders/load"]),
        (("sales.orders/extract+",), Stage.LOAD, ["sales.orders/load"]),
    ],
)
def test_a_selection_means_both_stages_unless_it_names_one(
    words: tuple[str, ...], stage: Stage | None, found: list[str]
) -> None:
    two_stages = sync("orders", via=LAKE, to=WAREHOUSE)
    choice = choose(project(two_stages), words, Known(), stage=stage)
    assert [flow.name for flow in choice.flows] == found


def test_a_word_that_means_nothing_is_named_beside_words_that_do() -> None:
    with pytest.raises(ConfigError, match=r"nothing is selected by \+sales\.ordrs/load\n") as caught:
        choose(
            project(sync("orders", via=LAKE, to=WAREHOUSE)), ("sales.orders", "+sales.ordrs/load"), Known()
        )
    assert "sales.orders/load" in (caught.value.hint or "")


def test_a_sync_and_a_flow_that_write_one_table_are_refused_with_both_places() -> None:
    between = DeltaFlow(
        "p",
        "twin",
        (DeltaInput("t", TableRef(path="/t")),),
        DeltaTable(TableRef(path="/lake/sales.orders"), key=("id",), place=Place("tidegauge.yml", 9, 3)),
    )
    one = replace(
        project(sync("orders", place=Place("tidegauge.yml", 4, 3))), delta_flows=(between,), connections={}
    )
    with pytest.raises(
        ConfigError, match=r"sync:` at tidegauge\.yml:4:3 and 'twin' .* write one table"
    ) as caught:
        choose(one, (), Known())
    assert caught.value.place == Place("tidegauge.yml", 9, 3)


def test_words_are_written_out_where_only_the_ledger_is_asked() -> None:
    part = DeltaInput("t", TableRef(name="s.t"))
    flow = DeltaFlow("p", "f", (part,), DeltaTable(TableRef(name="g.f"), key=("id",)), tags=("top",))
    below = replace(flow, name="g", upstreams=("f",), tags=())
    one = replace(project(sync("sales.*", tags=("top",))), delta_flows=(flow, below))
    assert spread(one, ()) == []
    assert spread(one, ("f",)) == ["f"]
    assert spread(one, ("tag:top",)) == ["f", "sales.*"]
    assert spread(one, ("+g",)) == ["f", "g", "g"]
    assert spread(one, ("+sales.orders/load",)) == ["sales.orders/load"]
    assert spread(one, ("tag:nobody",)) == ["tag:nobody"]


def test_views_are_selected_for_commands_that_know_them_and_told_to_the_others() -> None:
    part = DeltaInput("t", TableRef(name="s.t"))
    view = ViewFlow("p", "v", (part,), ViewName(TableRef(name="g.v")), Sql("SELECT 1"), ("top",), ("f",))
    flow = DeltaFlow("p", "f", (part,), DeltaTable(TableRef(name="g.f"), key=("id",)), tags=("top",))
    one = replace(project(sync("orders")), syncs=(), delta_flows=(flow,), views=(view,))
    assert choose(one, ("f+",), Known(), views=True).views == (view,)
    assert choose(one, ("g.v",), Known(), views=True).all_flows == ()
    assert choose(one, ("tag:top",), Known()).views == ()
    assert choose(replace(one, delta_flows=()), (), Known()).all_flows == ()
    with pytest.raises(ConfigError, match="v: a view has no data and no watermark of its own"):
        choose(one, ("v",), Known())


def test_two_tables_that_would_land_in_one_are_refused() -> None:
    with pytest.raises(ConfigError, match="would be one flow, or write to one place"):
        choose(project(sync("*.orders", to=WAREHOUSE)), (), Known())


def choose_with(
    one: Sync, catalogue: list[TableName], known: dict[str, str | None], *words: str
) -> Selection:
    source = SimpleNamespace(
        tables=lambda: tuple(catalogue),
        left_out=lambda: (),
        identity=lambda: "postgresql:7/shop",
        with_column=lambda _: frozenset(catalogue),
        with_key=lambda: frozenset(catalogue),
    )

    class Shown(SourceConnections):
        def of(self, database: Database) -> Source:
            return cast("Source", source)

    return choose(project(one), words, Shown(), recorded=known)


OURS = "postgresql:7/shop#4711#f00d"


@pytest.mark.parametrize(
    ("one", "known", "gone"),
    [
        (sync("*"), {"sales.gone": OURS}, ["sales.gone"]),
        (sync("*"), {"sales.gone": None}, ["sales.gone"]),  # after a reset
        (sync("gone", "orders"), {"sales.gone": OURS}, ["sales.gone"]),
        (sync("*", via=LAKE, to=WAREHOUSE), {"sales.gone/extract": OURS}, ["sales.gone/extract"]),
        (sync("*"), {"sales.orders": OURS}, []),  # there it is
        (sync("*"), {"sales.gone": "postgresql:8/shop#4711#f00d"}, []),  # of another database
        (sync("*", exclude=("gone",)), {"sales.gone": OURS}, []),
        (sync("ord*"), {"sales.gone": OURS}, []),
        (sync("*"), {"sales.gone/extract": OURS, "sales.gone/load": None}, []),  # it had two stages then
        (sync("*", options=TableOptions(cursor=""), per_table={"orders": OPTIONS}), {"sales.gone": OURS}, []),
    ],
)
def test_a29_gone_is_what_the_file_still_means_and_the_database_shows_no_more(
    one: Sync, known: dict[str, str | None], gone: list[str]
) -> None:
    catalogue = [TableName("sales", "orders")]
    choice = choose_with(one, catalogue, known)
    assert list(choice.missing) == gone
    assert set(gone) <= {flow.name for flow in choice.flows}
    assert choice.faults == ()


def test_a29_a_table_that_only_changed_its_letters_is_gone_and_stops_nobody() -> None:
    choice = choose_with(sync("*", to=WAREHOUSE), [TableName("sales", "Orders")], {"sales.orders": OURS})
    assert [flow.name for flow in choice.flows] == ["sales.Orders", "sales.orders"]
    assert list(choice.missing) == ["sales.orders"]


def test_a29_a_name_that_means_no_table_is_a_fault_of_its_own_where_it_is_asked_for() -> None:
    one = sync("orders", "gone", "log_*")
    choice = choose_with(one, [TableName("sales", "orders")], {})
    assert [flow.name for flow in choice.flows] == ["sales.orders"]
    assert [name for name, _ in choice.faults] == ["app: gone", "app: log_*"]
    assert choose_with(one, [TableName("sales", "orders")], {}, "orders").faults == ()
    [(name, _)] = choose_with(one, [TableName("sales", "orders")], {}, "sales.gone").faults
    assert name == "app: gone"
