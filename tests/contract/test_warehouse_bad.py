"""Bad input at the door of a warehouse: a clear error, nothing visible, nothing left behind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from tests.support.warehouses import (
    ORDERS,
    Yard,
    batch_to,
    counts,
    files_of,
    flow_of,
    layout_of,
    loader,
    no_spark,
    read_batch,
    tag_of,
)
from tidegauge.errors import KeyUnsuitable, OutputDisagrees, OutputError, OutputUnreachable, SourceError
from tidegauge.model.batch_data import BatchRows
from tidegauge.model.mode import Mode
from tidegauge.outputs.warehouse import staging

ROWS = [(1, "a", Decimal("1.00"), 1), (2, "b", Decimal("2.00"), 1)]


@pytest.mark.parametrize("mode", [Mode.MERGE, Mode.OVERWRITE, Mode.SCD2])
def test_d2_a_key_that_is_null_or_repeated_in_one_stretch_stops_the_batch(
    warehouse: Yard, mode: Mode
) -> None:
    orders = loader(warehouse, mode=mode)
    for _ in range(2):  # into a new table, and into one with rows
        with pytest.raises(KeyUnsuitable, match="1 rows have no id"):
            orders.rows(ORDERS, [*ROWS, (None, "c", None, 2)])
        orders.seq -= 1
        with pytest.raises(KeyUnsuitable, match="id = 2 is there more than once"):
            orders.rows(ORDERS, [*ROWS, (2, "c", None, 2)])
        orders.seq -= 1
        assert warehouse.contents("orders", ["id"]) in ([], [(1,)])
        orders.rows(ORDERS, [ROWS[0]])


def test_a_key_of_several_columns_is_told_whole(warehouse: Yard) -> None:
    layout = layout_of(("a", "bigint"), ("b", "string", "varchar(9)"), ("at", "bigint"), key=("a", "b"))
    orders = loader(warehouse)
    with pytest.raises(KeyUnsuitable, match="a = 1, b = 'x' is there more than once"):
        orders.rows(layout, [(1, "x", 1), (1, "y", 1), (1, "x", 2)])
    orders.seq = 0
    assert counts(orders.rows(layout, [(1, "x", 1), (1, "y", 1)], [(1, "x", 2)])) == (3, 2, 0, 0)


def test_a_table_without_a_key_can_only_be_appended_to(warehouse: Yard) -> None:
    layout = layout_of(("a", "bigint"), key=())
    with pytest.raises(KeyUnsuitable, match="needs one"):
        loader(warehouse).rows(layout, [(1,)])
    assert counts(loader(warehouse, mode=Mode.APPEND).rows(layout, [(1,)], [(1,)])) == (2, 2, 0, 0)


def test_a_value_that_the_target_cannot_hold_is_told_with_its_row(warehouse: Yard) -> None:
    """Neither column can hold all of the other: what does not fit is looked for, and nothing is rounded."""
    warehouse.create("orders", layout_of(("id", "bigint"), ("v", "decimal(18,1)")))
    if warehouse.name == "sqlite":
        pytest.skip("SQLite's columns hold any number")
    orders = loader(warehouse)
    layout = layout_of(("id", "bigint"), ("v", "decimal(12,4)"))
    assert counts(orders.rows(layout, [(1, Decimal("1.5"))])) == (1, 1, 0, 0)
    with pytest.raises(
        OutputError, match=r"column v is .*cannot hold Decimal\('2\.2500'\) of the row with id = 2"
    ):
        orders.rows(layout, [(1, Decimal("9.5")), (2, Decimal("2.25"))])
    assert [(one, Decimal(str(v))) for one, v in warehouse.contents("orders", ["id", "v"])] == [
        (1, Decimal("1.5"))
    ]
    assert warehouse.staging_tables() == []


def test_a_locked_target_is_waited_for_and_named(warehouse: Yard) -> None:
    if warehouse.name == "snowflake":
        pytest.skip("its stand-in knows no locks")
    orders = loader(warehouse)
    orders.rows(ORDERS, ROWS)
    with warehouse.hold(warehouse, warehouse.table("orders")):
        output = warehouse.output(orders.flow, patience=1)

        def load() -> None:
            staged = output.stage(read_batch(ORDERS, [(1, "z", None, 2)]), no_spark)
            output.commit(tag_of(orders.flow, 2), batch_to(2), staged, layout=ORDERS, run_id="r")

        with pytest.raises(OutputUnreachable) as told:
            load()
        assert told.value.retryable
        assert "orders" in str(told.value) or str(warehouse.database.path) in str(told.value)
    assert counts(orders.rows(ORDERS, [(1, "z", None, 2)])) == (1, 0, 1, 0)


def gone(batch_data: BatchRows) -> None:
    path(batch_data).unlink()


def cut(batch_data: BatchRows) -> None:
    path(batch_data).write_bytes(path(batch_data).read_bytes()[:-1])


def path(batch_data: BatchRows) -> Path:
    file = batch_data.files[1]
    return Path(file.lake.path) / file.path


@pytest.mark.parametrize(("harm", "told"), [(gone, "is not there"), (cut, "bytes and should have")])
def test_d4_a_file_that_is_gone_or_changed_is_named(
    warehouse: Yard, tmp_path: Path, harm: Callable[[BatchRows], None], told: str
) -> None:
    if warehouse.name == "redshift":
        pytest.skip("it reads from S3 alone; its own suite has this")
    batch_data = files_of(tmp_path / "lake", ORDERS, ROWS, [(3, "c", None, 1)])
    harm(batch_data)
    with pytest.raises(OutputDisagrees, match=rf"part-1\.parquet.*{told}"):
        loader(warehouse).load(batch_data)
    assert warehouse.contents("orders", ["id"]) == []
    assert warehouse.staging_tables() == []


def test_other_rows_than_the_lake_counted_stop_the_batch(warehouse: Yard) -> None:
    batch_data = replace(warehouse.land(read_batch(ORDERS, ROWS)), rows=3, paths=("lake/file",))
    with pytest.raises(OutputDisagrees):
        loader(warehouse).load(batch_data)
    assert warehouse.staging_tables() == []


def test_a5_rows_that_left_the_window_since_they_were_counted_stop_nothing(warehouse: Yard) -> None:
    if warehouse.name == "redshift":
        pytest.skip("it reads files alone, which do not change")
    assert loader(warehouse).load(replace(read_batch(ORDERS, ROWS), rows=3)).rows == len(ROWS)


def test_an_error_of_the_source_passes_as_it_is(warehouse: Yard) -> None:
    if warehouse.name == "redshift":
        pytest.skip("it reads files alone")

    class Broken:
        def batches(self) -> None:
            raise SourceError("tidegauge: the source broke")

    with pytest.raises(SourceError, match="the source broke"):
        warehouse.output(flow_of(warehouse)).stage(BatchRows(ORDERS, splits=(Broken(),)), no_spark)  # type: ignore[arg-type]
    assert warehouse.staging_tables() == []


def test_leftovers_of_killed_attempts_go_after_a_day_and_those_of_living_ones_stay(
    warehouse: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = flow_of(warehouse)
    staged = warehouse.output(flow).stage(read_batch(ORDERS, ROWS), no_spark)
    warehouse.output(flow).prepare()
    assert warehouse.staging_tables() == [staged.table]
    house = warehouse.house()
    session = house.connect()
    today = staging._clock(house, session)
    session.close()
    monkeypatch.setattr(staging, "_clock", lambda *_: today + 25 * 3600)
    warehouse.output(flow).prepare()
    assert warehouse.staging_tables() == []


def test_a_view_is_no_target(warehouse: Yard) -> None:
    warehouse.create("base", ORDERS)
    warehouse.run(f"CREATE VIEW {warehouse.at('orders')} AS SELECT * FROM {warehouse.at('base')}")
    with pytest.raises(OutputError, match="view"):
        loader(warehouse).rows(ORDERS, ROWS)


def test_the_table_of_commits_says_whom_it_belongs_to(warehouse: Yard) -> None:
    orders = loader(warehouse)
    orders.rows(ORDERS, ROWS)
    names = ["pipeline", "flow", "epoch", "seq", "kind", "last_seq", "rows", "inserted", "run_id"]
    assert warehouse.contents("tidegauge_commits", names, ["seq"]) == [
        ("shop", "shop.orders/load", 0, 0, "head", 1, None, None, None),
        ("shop", "shop.orders/load", 0, 1, "batch", None, 2, 2, "run1"),
    ]
