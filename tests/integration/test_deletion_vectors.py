"""`deletion_vectors: false`: tables that other readers can read, whoever commits and whoever alters them."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable

from tests.support.project import here
from tidegauge.model.delta_flow import DeltaTable as Output
from tidegauge.model.delta_flow import TableRef
from tidegauge.model.spec import Drift
from tidegauge.outputs.delta.target import VECTORS, DeltaTarget, plan_alterations, properties_for

PROJECT = """\
pipeline: shop
connections: {{app: {{type: sqlite, path: shop.db}}, bronze: {{type: delta, path: bronze}}}}
sync: [{{from: app, to: bronze, tables: [orders], cursor: at, settle: 0s{sync}}}]
flows:
  silver:
    inputs: {{o: {{path: bronze/orders}}}}
    transform: s.sql
    output: {{path: silver, key: id{flow}}}
"""
TABLES = ("bronze/orders", "silver")
OFF = ", deletion_vectors: false"


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    (tmp_path / "s.sql").write_text("SELECT id, who FROM o")
    with sqlite3.connect(tmp_path / "shop.db") as shop:
        shop.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, at TEXT, who TEXT)")
        rows = [(number, "2026-01-01 00:00:00", "old") for number in range(100)]
        shop.executemany("INSERT INTO orders VALUES (?, ?, ?)", rows)
    return tmp_path


def run(shop: Path, vectors: str) -> list[str]:
    """All notes of a run."""
    (shop / "tidegauge.yml").write_text(PROJECT.format(sync=vectors, flow=vectors))
    ran = here("run", "--json", "--project", shop)
    assert ran.code == 0, ran.said
    return [note for flow in ran.json["flows"] for note in flow["notes"]]


def change(shop: Path, number: int) -> str:
    who = f"new {number}"
    with sqlite3.connect(shop / "shop.db") as database:
        database.execute(
            "UPDATE orders SET who = ?, at = ? WHERE id < 10", (who, f"2026-02-{number:02} 00:00:00")
        )
    return who


def count_by_arrow(shop: Path, table: str, who: str) -> tuple[int, int]:
    """By a reader that knows no deletion vectors."""
    found = DeltaTable(shop / table).to_pyarrow_table()
    return found.num_rows, found.filter(pc.equal(found["who"], who)).num_rows


def test_every_commit_leaves_a_table_that_other_readers_read(
    shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(shop, OFF)
    for number, small in ((1, "on"), (2, "off")):
        monkeypatch.setenv("TIDEGAUGE_SMALL_BATCHES", small)
        who = change(shop, number)
        run(shop, OFF)
        assert [count_by_arrow(shop, table, who) for table in TABLES] == [(100, 10)] * 2
    for table in TABLES:
        features = DeltaTable(shop / table).protocol().reader_features
        assert "deletionVectors" not in (features or [])


@pytest.mark.long
def test_a_table_that_has_them_loses_them_and_gets_them_back(
    shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_on(table: str) -> str | None:
        return DeltaTable(shop / table).metadata().configuration.get(VECTORS)

    monkeypatch.setenv("TIDEGAUGE_SMALL_BATCHES", "off")
    run(shop, "")
    assert [is_on(table) for table in TABLES] == ["true", "true"]
    change(shop, 1)
    told = [note for note in run(shop, OFF) if "deletion vectors" in note]
    assert [note.partition(";")[0].rpartition(" were ")[2] for note in told] == [
        "on, and are off from here"
    ] * 2
    assert [is_on(table) for table in TABLES] == ["false", "false"]
    # Somebody else's hand.
    DeltaTable(shop / "silver").alter.set_table_properties({VECTORS: "true"})
    change(shop, 2)
    assert len([note for note in run(shop, OFF) if "deletion vectors" in note]) == 1
    assert is_on("silver") == "false"
    change(shop, 3)
    assert not [note for note in run(shop, "") if "deletion vectors" in note]
    assert is_on("silver") == "false"
    change(shop, 4)
    assert len([note for note in run(shop, ", deletion_vectors: true") if "are on from here" in note]) == 2
    verified = here("verify", "--project", shop)
    assert verified.code == 0, verified.said


@pytest.mark.parametrize(
    ("wanted", "held", "set_to"), [(None, "true", None), (False, None, None), (True, None, "true")]
)
def test_only_what_differs_is_set(wanted: bool | None, held: str | None, set_to: str | None) -> None:
    output = Output(TableRef(path="t"), key=("id",), deletion_vectors=wanted)
    properties = {"delta.enableChangeDataFeed": "true", **({VECTORS: held} if held else {})}
    room = plan_alterations((), DeltaTarget("x", (), (), properties), output, Drift.EVOLVE)
    assert room.statements == ((f"SET TBLPROPERTIES ('{VECTORS}' = '{set_to}')",) if set_to else ())
    assert properties_for((), output)[VECTORS] == ("false" if wanted is False else "true")
