"""What each kind of output declares that it can do, and which warehouses there are."""

from __future__ import annotations

from pathlib import Path

from tests.support.delta_output import delta_flow_of
from tidegauge.model.mode import Mode
from tidegauge.model.spec import (
    Database,
    Engine,
    Lake,
    TableFlow,
    TableName,
    TableOptions,
    WarehouseTable,
)
from tidegauge.outputs.delta.output import DeltaOutput
from tidegauge.outputs.lake.output import LakeOutput
from tidegauge.outputs.warehouse.open import WAREHOUSES, open_warehouse
from tidegauge.outputs.warehouse.output import WarehouseOutput


def test_a_lake_is_no_table_of_a_database(tmp_path: Path) -> None:
    found = LakeOutput(Lake("lake", str(tmp_path)), "t").capabilities
    assert found.table is None
    assert found.inside is None


def test_a_delta_table_of_a_flow_is_no_table_of_a_database(tmp_path: Path) -> None:
    flow = delta_flow_of(tmp_path / "t", Mode.MERGE, key=("id",))
    found = DeltaOutput(flow, locate=lambda: str(tmp_path / "t")).capabilities
    assert found.table is None


def test_a_warehouse_shows_its_table(tmp_path: Path) -> None:
    house = Database("dw", Engine.SQLITE, path=tmp_path / "dw.db")
    target = WarehouseTable(house, TableName(None, "t"))
    output = WarehouseOutput(
        TableFlow("p", "f", house, TableName(None, "t"), target, TableOptions(cursor="at"))
    )
    found = output.capabilities
    assert found.table is output
    assert found.inside is output
    assert found.table is not None
    assert not found.table.loose_keys
    assert found.table.count() == 0


def test_every_engine_that_can_be_written_is_registered(tmp_path: Path) -> None:
    assert {*WAREHOUSES} == {*Engine}
    for engine in (Engine.SQLITE, Engine.DUCKDB):
        made = open_warehouse(Database("dw", engine, path=tmp_path / "dw"))
        assert type(made).__name__ == WAREHOUSES[engine][1]
