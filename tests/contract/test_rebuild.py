"""A ledger that is lost, or an older copy, comes back from what the outputs themselves keep."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.drafts import ME, OTHER, draft, position, receipt
from tests.support.project import Project, Ran, local, refused, sqlite_database
from tidegauge.errors import FlowHeld, OutputDisagrees, WrongState
from tidegauge.flows.recall import find_furthest
from tidegauge.ledger.open import open_ledger
from tidegauge.model.position import (
    FilesPosition,
    RowPosition,
    Value,
    ValueKind,
    VersionPosition,
    Window,
    to_body,
)
from tidegauge.model.protocols.ledger import LedgerWriter
from tidegauge.model.spec import Lake
from tidegauge.model.state import State
from tidegauge.model.watermark import Recalled, Watermark
from tidegauge.outputs.delta.recall import recall_delta

WHY = ("--reason", "the disk is gone", "--yes")
ROUTE = "via: lake, to: warehouse"
DUCKDB = "  warehouse: {type: duckdb, path: warehouse.duckdb}\n"
SQLITE = "  warehouse: {type: sqlite, path: warehouse.db}\n"
OPTIONS = "cursor: at, settle: 1s, batch_rows: 3, parallel: 1"


# --- the rule, on every store


@pytest.fixture
def ledger(store_address: str) -> Iterator[LedgerWriter]:
    with open_ledger(store_address, create=True) as opened:
        yield opened


def rebuilt(ledger: LedgerWriter, epoch: int, seq: int, number: int = 7) -> bool:
    marks = {
        "orders": Recalled("timestamp", position(number), "db/orders", "f00d", "2026-01-01"),
        "people": Recalled("version", VersionPosition(12)),
    }
    return ledger.rebuild("shop", "orders", marks, epoch, seq, owner=ME, reason="the disk is gone")


def test_b5_a_rebuilt_flow_goes_on_from_where_the_output_is(ledger: LedgerWriter) -> None:
    assert rebuilt(ledger, 2, 5)
    marks = {mark.input: mark for mark in ledger.watermarks("shop", ["orders"])}
    orders, people = marks["orders"], marks["people"]
    assert (orders.position, orders.epoch, orders.seq, orders.cursor) == (position(7), 2, 5, "timestamp")
    assert (orders.source_id, orders.fingerprint, orders.stamp) == ("db/orders", "f00d", "2026-01-01")
    assert (people.position, people.source_id, people.pending) == (VersionPosition(12), None, None)
    [status] = ledger.status("shop")
    assert (status.state, status.plan, status.undo) == (State.READY, None, None)
    said = {event.input: event for event in ledger.history("shop") if event.event == "rebuilt"}
    assert (said["orders"].actor, said["orders"].reason) == (ME.actor, "the disk is gone")
    assert (said["orders"].before, said["orders"].after) == (None, position(7))
    assert not rebuilt(ledger, 2, 5), "it stands there already"
    assert len(ledger.history("shop")) == 2

    plan = ledger.plan([draft(start=7, batches=1, inputs=("orders", "people"))], owner=ME, run_id="run")
    assert plan["orders"].tag(0).epoch == 2
    assert plan["orders"].tag(0).seq == 6
    with pytest.raises(FlowHeld, match="has a plan that is PLANNED"):
        rebuilt(ledger, 2, 6)


def test_b5_a_ledger_ahead_of_the_output_or_in_the_middle_of_something_is_left_alone(
    ledger: LedgerWriter,
) -> None:
    made = ledger.plan([draft(batches=3)], owner=ME, run_id="run")["orders"]
    claim = ledger.claim(made, owner=ME, run_id="run", lease=timedelta(minutes=1))
    with pytest.raises(FlowHeld, match="RUNNING by me@here"):
        rebuilt(ledger, 0, 9)
    for index in range(3):
        ledger.begin(claim, index)
        ledger.advance(claim, index, receipt(made, index))
    ledger.finish(claim, State.SUCCESS)
    with pytest.raises(
        WrongState, match="counts batch 3 of epoch 0, and the output ends with batch 2 of epoch 0"
    ):
        rebuilt(ledger, 0, 2)
    begun = ledger.begin_override("shop", "orders", "reset", {}, owner=OTHER, reason="anew")
    with pytest.raises(WrongState, match="has not ended"):
        rebuilt(ledger, 1, 4)
    ledger.end_override("shop", "orders", epoch=begun.epoch)
    assert rebuilt(ledger, 1, 4), "an older copy is brought up"
    assert {mark.seq for mark in ledger.watermarks("shop", ["orders"])} == {4}


# --- from real outputs


def shop(folder: Path, *, warehouse: str = DUCKDB) -> Project:
    made = local(folder, sqlite_database(folder / "app.db"))
    made.database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, total INTEGER, at TEXT NOT NULL)")
    made.database.insert("orders", [(n, n * 10, f"2025-01-0{n} 12:00:00") for n in range(1, 6)])
    return made.write(f"tables: [orders], {OPTIONS}", route=ROUTE, connections=warehouse)


def done(project: Project, *words: str, code: int = 0) -> Ran:
    ran = project.here(*words, "--json")
    assert ran.code == code, ran.said
    return ran


def shop_again(project: Project, ledger: str) -> None:
    project.write(f"tables: [orders], {OPTIONS}", ledger=ledger)


def stands(address: str) -> dict[str, tuple[object, ...]]:
    def facts(mark: Watermark) -> tuple[object, ...]:
        return mark.input, mark.cursor, mark.position, mark.epoch, mark.seq

    with open_ledger(address, create=False) as ledger:
        return {mark.flow: facts(mark) for mark in ledger.watermarks("test")}


def test_b4_a_deleted_ledger_is_rebuilt_on_any_store_and_nothing_comes_twice(tmp_path: Path) -> None:
    project, old = shop(tmp_path), f"sqlite:///{tmp_path / 'ledger.db'}"
    done(project, "run")
    before = stands(old)
    assert {mark[3:] for mark in before.values()} == {(0, 2)}
    (tmp_path / "ledger.db").unlink()
    lost = done(project, "run", code=1)
    assert "ledger rebuild" in lost.flow("orders/extract")["error"]["hint"]

    for address in (old, f"json:{tmp_path / 'json'}", f"delta:{tmp_path / 'delta'}"):
        shop_again(project, address)
        looked = done(project, "ledger", "rebuild", "--dry-run")
        assert {flow["state"] for flow in looked.json["flows"]} == {"to rebuild"}
        assert stands(address) == {}
        ran = done(project, "ledger", "rebuild", *WHY)
        assert {flow["state"] for flow in ran.json["flows"]} == {"rebuilt"}
        assert stands(address) == before
    assert done(project, "run").json["state"] == "SKIPPED"
    again = done(project, "ledger", "rebuild", *WHY)
    assert {flow["state"] for flow in again.json["flows"]} == {"nothing to do"}
    events = done(project, "history").json["events"]
    assert {event["reason"] for event in events if event["event"] == "rebuilt"} == {"the disk is gone"}


def test_b4_lives_opened_by_hand_and_rows_read_again_come_back_as_they_were(tmp_path: Path) -> None:
    project = shop(tmp_path, warehouse=SQLITE)
    address = f"sqlite:///{tmp_path / 'ledger.db'}"
    done(project, "run")
    done(project, "watermark", "reset", "-t", "orders", *WHY)
    done(project, "run")
    done(project, "backfill", "-t", "orders", "--from", "2025-01-02", "--to", "2025-01-03 23:00:00", *WHY)
    before = stands(address)
    assert {mark[3] for mark in before.values()} == {1}
    (tmp_path / "ledger.db").unlink()
    table = project.here("ledger", "rebuild", *WHY)
    assert table.code == 0, table.said
    assert "ledger has" in table.out
    assert stands(address) == before
    assert done(project, "run").json["state"] == "SKIPPED"

    done(project, "watermark", "reset", "-t", "orders", "--stage", "load", *WHY)
    before = stands(address)
    (tmp_path / "ledger.db").unlink()
    done(project, "ledger", "rebuild", *WHY)
    assert stands(address)["orders/load"][2:] == (None, 2, 0) == before["orders/load"][2:]


def test_b5_an_output_that_lost_batches_is_not_taken_for_the_truth(tmp_path: Path) -> None:
    project = shop(tmp_path)
    done(project, "run")
    (tmp_path / "lake" / "orders" / "_tidegauge" / "0" / "2.json").unlink()
    ran = project.here("ledger", "rebuild", "--select", "orders/extract", *WHY)
    refused(ran, "the ledger is ahead of the output", "batch 2 of epoch 0", "batch 1 of epoch 0")
    refused(project.here("ledger", "rebuild"), "needs a reason", code=2)


def test_a_load_that_cannot_say_which_life_of_the_lake_it_counted_along_loads_again(tmp_path: Path) -> None:
    project = shop(tmp_path)
    done(project, "run")
    done(project, "watermark", "reset", "-t", "orders", "--stage", "extract", *WHY)
    done(project, "run", "--stage", "extract")
    (tmp_path / "ledger.db").unlink()
    ran = done(project, "ledger", "rebuild", *WHY)
    assert "loaded again" in ran.flow("orders/load")["notes"][0]
    assert done(project, "run").flow("orders/load")["rows_written"] == 5


def rows(*windows: tuple[str | None, str], kind: ValueKind = ValueKind.INT) -> list[Window]:
    def at(text: str | None) -> RowPosition | None:
        return None if text is None else RowPosition(Value(kind, text))

    return [Window(at(after), at(upto)) for after, upto in windows]


def test_what_was_read_again_leaves_the_furthest_position_where_it_was() -> None:
    def number(found: object) -> str:
        assert isinstance(found, RowPosition)
        return found.cursor.text

    assert number(find_furthest(rows((None, "9"), ("9", "12"), ("3", "7")), moments=False)) == "12"
    words = rows((None, "b"), ("b", "a"), ("x", "c"), kind=ValueKind.TEXT)
    assert number(find_furthest(words, moments=False)) == "a", "only the database knows its order"
    assert find_furthest([], moments=False) is None
    files = [Window(None, FilesPosition(4)), Window(FilesPosition(4), FilesPosition(6))]
    assert find_furthest(files, moments=False) == FilesPosition(6)


# --- from the log of a Delta table


def words(**more: Any) -> dict[str, Any]:
    return {"tidegauge": 1, "pipeline": "shop", "flow": "silver", **more}


def batch(epoch: int, seq: int, upto: int) -> dict[str, Any]:
    window = {"input": "orders", "cursor": "version", "after": None, "way": "feed", "stamp": "s"}
    window |= {"upto": to_body(VersionPosition(upto)), "source_id": "t1", "fingerprint": "f1"}
    return words(epoch=epoch, seq=seq, run_id="r", windows=[window])


def opened(epoch: int, continues: tuple[int, int] | None) -> dict[str, Any]:
    shown = {"epoch": continues[0], "upto": continues[1]} if continues else None
    return words(
        kind="epoch", epoch=epoch, continues=shown, reason="by hand", empty=False, emptied=0, closed={}
    )


def table(folder: Path, *said: dict[str, Any] | None, first: int = 0) -> Lake:
    log = folder / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    for number, one in enumerate(said, start=first):
        info: dict[str, Any] = {"timestamp": 1, "operation": "WRITE"}
        lines: list[dict[str, Any]] = [{"commitInfo": info}]
        if one is not None:
            info["userMetadata"] = json.dumps(one)
            if "epoch" in one:
                app = f"tidegauge/{one['pipeline']}/{one['flow']}/"
                older = range(one["epoch"]) if "kind" in one else ()
                txns = {**dict.fromkeys(older, 2**63 - 1), one["epoch"]: one.get("seq", 0)}
                lines += [{"txn": {"appId": f"{app}{epoch}", "version": seq}} for epoch, seq in txns.items()]
        (log / f"{number:020}.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return Lake("", str(folder))


def test_b4_a_delta_table_knows_its_last_batch_and_the_windows_of_it(tmp_path: Path) -> None:
    other = {**batch(0, 9, 99), "flow": "gold"}
    lake = table(tmp_path, None, batch(0, 1, 4), batch(0, 2, 7), other, None, {"user": "words"})
    found = recall_delta(lake, "shop", "silver")
    assert found is not None
    assert (found.epoch, found.seq, found.opened) == (0, 2, None)
    assert found.marks == {"orders": Recalled("version", VersionPosition(7), "t1", "f1", "s")}
    assert recall_delta(lake, "shop", "bronze") is None
    assert recall_delta(Lake("", str(tmp_path / "nowhere")), "shop", "silver") is None


def test_b4_a_life_of_a_delta_table_without_a_batch_stands_where_it_continues(tmp_path: Path) -> None:
    first = table(tmp_path / "a", batch(0, 1, 4), batch(0, 2, 7), opened(1, (0, 1)), opened(2, (1, 0)))
    found = recall_delta(first, "shop", "silver")
    assert found is not None
    assert (found.epoch, found.seq, found.opened) == (2, 0, "by hand")
    assert found.marks["orders"].position == VersionPosition(4)
    reset = recall_delta(table(tmp_path / "b", batch(0, 1, 4), opened(1, None)), "shop", "silver")
    assert reset is not None
    assert (reset.epoch, reset.seq, reset.marks) == (1, 0, {})


def test_a_delta_log_that_is_too_short_is_not_guessed_from(tmp_path: Path) -> None:
    lake = table(tmp_path, batch(1, 3, 8), opened(2, (1, 3)), None)
    (tmp_path / "_delta_log" / f"{0:020}.json").write_text('{"commitInfo": {"timestamp": 1}}\n')
    with pytest.raises(OutputDisagrees, match="batch 3, epoch 1, is no longer in the log"):
        recall_delta(lake, "shop", "silver")
