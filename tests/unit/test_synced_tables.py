"""Delta tables that syncs fill, and the flows that read them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tidegauge.errors import ConfigError
from tidegauge.flows.selection.select import expand
from tidegauge.flows.selection.select_words import select_flows
from tidegauge.flows.selection.synced_tables import link_optimizes, link_to_syncs
from tidegauge.model.delta_flow import DataFlow, DeltaFlow, DeltaInput, DeltaTable, TableRef
from tidegauge.model.optimize_flow import OptimizeFlow
from tidegauge.model.spec import Database, Engine, Lake, Sync, TableFlow, TableName, TableOptions

APP = Database("app", Engine.POSTGRESQL, database="shop", schema="public")
BRONZE = Lake("bronze", "/lake/bronze", delta=True)
SYNC = Sync(APP, None, BRONZE, ("*",), (), TableOptions(cursor="at"), {})
CATALOGUE = [TableName("public", "orders"), TableName("public", "customers")]


def delta_flow(name: str, output: str, *inputs: str) -> DeltaFlow:
    parts = tuple(DeltaInput(f"i{at}", TableRef(path=path)) for at, path in enumerate(inputs))
    return DeltaFlow("p", name, parts, DeltaTable(TableRef(path=output)))


def flows(sync: Sync = SYNC) -> list[TableFlow]:
    return expand("p", sync, CATALOGUE)


def names_of(every: list[DataFlow], word: str) -> set[str]:
    return {flow.name for flow in select_flows(every, [word])[0]}


def test_a_table_lies_below_the_connection_and_its_load_comes_last() -> None:
    assert [(flow.name, str(flow.output)) for flow in flows()] == [
        ("public.orders", "/lake/bronze/public.orders"),
        ("public.customers", "/lake/bronze/public.customers"),
    ]
    options = replace(SYNC.options, rename="{table}")
    both = flows(replace(SYNC, via=Lake("lake", "/lake/raw"), options=options))[:2]
    assert [(flow.name, str(flow.output)) for flow in both] == [
        ("public.orders/extract", "/lake/raw/orders"),
        ("public.orders/load", "/lake/bronze/orders"),
    ]


def test_flows_come_after_the_tables_they_read_and_are_selected_with_them() -> None:
    silver = delta_flow("silver", "/lake/silver", "/lake/bronze/public.orders", "/elsewhere")
    gold = replace(delta_flow("gold", "/lake/gold", "/lake/silver"), upstreams=("silver",))
    linked = link_to_syncs([silver, gold], flows())
    assert [one.upstreams for one in linked] == [("public.orders",), ("silver",)]
    every: list[DataFlow] = [*flows(), *linked]
    assert names_of(every, "+gold") == {"gold", "silver", "public.orders"}
    assert names_of(every, "public.orders+") == {"gold", "silver", "public.orders"}
    assert names_of(every, "public.customers+") == {"public.customers"}


def test_optimize_flows_look_after_tables_that_syncs_fill_and_come_after_their_readers() -> None:
    tagged = flows(replace(SYNC, tags=("bronze",)))
    silver = delta_flow("silver", "/lake/silver", "/lake/bronze/public.orders")
    linked = link_to_syncs([silver], tagged)
    by_tag, by_name = OptimizeFlow("p", "t", ("tag:bronze",)), OptimizeFlow("p", "n", ("orders", "silver"))
    [one] = link_optimizes([by_tag], linked, tagged)
    assert (one.upstreams, one.readers) == (("public.orders", "public.customers"), ("silver",))
    assert str(one.looks_after[0].output.table) == "/lake/bronze/public.orders"
    [one] = link_optimizes([by_name], linked, tagged)
    assert (one.upstreams, one.readers) == (("public.orders", "silver"), ())
    [one] = link_optimizes([OptimizeFlow("p", "all", ())], linked, tagged)
    assert set(one.upstreams) == {"public.orders", "public.customers", "silver"}
    with pytest.raises(ConfigError, match="means no flow that writes a Delta table: order"):
        link_optimizes([OptimizeFlow("p", "n", ("order",))], linked, tagged)
    with pytest.raises(ConfigError, match=r"both optimize the table of `public\.orders`"):
        link_optimizes([by_tag, by_name], linked, tagged)


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ("/lake/bronze/public.orders", "write one table"),
        ("/lake/bronze/../bronze/public.orders", "write one table"),
        ("/lake/bronze/public.orders/sums", "inside each other"),
        ("/lake", "inside each other"),
    ],
)
def test_a_flow_must_not_write_where_a_sync_does(output: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        link_to_syncs([delta_flow("silver", output, "/elsewhere")], flows())
