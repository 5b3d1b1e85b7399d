"""What a ledger shows, whatever it was given to keep."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, select, text

from tests.support.drafts import ME, draft, nothing_new, receipt
from tests.support.ledgers import everything
from tidegauge.ledger.document_ledger import DocumentLedger
from tidegauge.ledger.open import Ledger, open_ledger
from tidegauge.ledger.sql_bulk import insert_rows, moment
from tidegauge.ledger.sql_ledger import SqlLedger
from tidegauge.ledger.sql_tables import runs
from tidegauge.model.claim import Owner
from tidegauge.model.plan import Batch, Draft, InputPlan
from tidegauge.model.position import FilesPosition, RowPosition, Value, ValueKind, VersionPosition, Window
from tidegauge.model.secret import Secret
from tidegauge.model.state import State

MINUTE = timedelta(minutes=1)


@pytest.fixture
def ledger(ledger_address: str) -> Iterator[Ledger]:
    with open_ledger(ledger_address, create=True) as opened:
        yield opened


def test_an_empty_ledger_has_heard_of_nothing(ledger: Ledger) -> None:
    assert not [*ledger.status("shop"), *ledger.watermarks("shop"), *ledger.history("shop")]
    assert ledger.status("shop", ["orders"]) == ledger.status("shop", []) == []


def test_now_is_utc_without_a_zone(ledger: Ledger) -> None:
    now = ledger.now()
    assert now.tzinfo is None
    # The servers of these tests run on this machine.
    assert abs(datetime.now(UTC).replace(tzinfo=None) - now) < timedelta(minutes=1)
    assert ledger.now() >= now


def test_pipelines_and_flows_are_kept_apart(ledger: Ledger) -> None:
    ledger.plan([draft("b"), draft("a"), draft("a", pipeline="other")], owner=ME, run_id="run")
    assert [one.flow for one in ledger.status("shop")] == ["a", "b"]
    assert [one.flow for one in ledger.status("other")] == ["a"]
    assert [one.flow for one in ledger.status("shop", ["b", "never heard of"])] == ["b"]
    assert [one.flow for one in ledger.watermarks("shop", ["b"])] == ["b"]
    assert [one.flow for one in ledger.history("other")] == ["a"]


AWKWARD = [
    "x" * 500,
    "x" * 499 + "y",
    "orders",
    "Orders",
    "orders ",
    "órders",
    "o\u0301rders",
    "straße",
    "strasse",
    "表 🌊",
    "a'b\"c`d%s?:x\\;--",
    "../up",
]


def test_e1_names_of_any_length_and_alphabet_stay_different_names(ledger: Ledger) -> None:
    drafts = [draft(name, inputs=(name,)) for name in AWKWARD]
    answer = ledger.plan(drafts, owner=ME, run_id="run")
    assert [answer[name].draft.flow for name in AWKWARD] == AWKWARD
    assert [one.flow for one in ledger.status("shop")] == sorted(AWKWARD)
    for name in AWKWARD:
        claim = ledger.claim(answer[name], owner=ME, run_id="run", lease=timedelta(minutes=1))
        ledger.begin(claim, 0)
        ledger.advance(claim, 0, receipt(claim.plan, 0))
        [mark] = ledger.watermarks("shop", [name])
        assert (mark.flow, mark.input, mark.seq) == (name, name, 1)
        assert [event.event for event in ledger.history("shop", flow=name)] == [
            "advanced",
            "claimed",
            "planned",
        ]


POSITIONS = [
    RowPosition(Value(ValueKind.INT, str(2**64 - 1))),
    RowPosition(Value(ValueKind.DECIMAL, "-12345678901234567890.0000000001000")),
    RowPosition(Value(ValueKind.DATE, "9999-12-31")),
    RowPosition(
        Value(ValueKind.TIMESTAMP, "2025-08-14 15:30:22.123456789"), (Value(ValueKind.BYTES, "00ff"),)
    ),
    RowPosition(
        Value(ValueKind.TIMESTAMPTZ, "0001-01-01 00:00:00"), (Value(ValueKind.TEXT, 'NUL\0 "🌊" \\ é\n'),)
    ),
    VersionPosition(2**53),
    FilesPosition(0),
]


@pytest.mark.parametrize("end", POSITIONS, ids=repr)
def test_a13_every_kind_of_position_comes_back_exactly(
    ledger: Ledger, end: RowPosition | VersionPosition | FilesPosition
) -> None:
    window = Window(None, end)
    one = Draft("shop", "f", (InputPlan("f", "value", window, "s", "p"),), (Batch((window,), (end,)),))
    plan = ledger.plan([one], owner=ME, run_id="run")["f"]
    [found] = ledger.status("shop")
    assert found.plan == plan
    claim = ledger.claim(plan, owner=ME, run_id="run", lease=timedelta(minutes=1))
    ledger.begin(claim, 0)
    ledger.advance(claim, 0, receipt(plan, 0))
    [mark] = ledger.watermarks("shop")
    assert mark.position == mark.checked == end
    assert ledger.history("shop", limit=1)[0].after == end


def test_a_plan_of_thousands_of_batches_fits(ledger: Ledger) -> None:
    many = draft(batches=5000)
    plan = ledger.plan([many], owner=ME, run_id="run")["orders"]
    [found] = ledger.status("shop")
    assert found.plan == plan
    assert plan.draft.batches == many.batches


def test_an_error_text_of_any_length_and_content_fits(ledger: Ledger) -> None:
    message = "🌊 \0 \ud800 'quoted' " + "x" * 1_000_000
    odd = Owner("j\udcf6rg\0@host", "h", 1, "1")
    ledger.refuse("shop", "orders", {"type": "SparkFailed", "message": message}, owner=odd, run_id="run")
    [event] = ledger.history("shop")
    assert event.error is not None
    assert event.error.startswith("SparkFailed: 🌊 � ? 'quoted' xxx")
    assert len(event.error) > 1_000_000
    [found] = ledger.status("shop")
    assert found.last_run is not None
    assert found.last_run.error == {"type": "SparkFailed", "message": message}


def test_e3_no_secret_reaches_a_row(ledger: Ledger) -> None:
    canary = Secret('cana"ry\\🐤-1')
    error = {
        "type": "SourceUnreachable",
        "message": f"login failed for app:{canary.reveal()}@db",
        "hint": canary.reveal(),
        "more": [{"url": f"jdbc:x?password={canary.reveal()}"}],
    }
    ledger.refuse("shop", "refused", error, owner=ME, run_id="run")
    noted = draft("noted")
    noted = Draft(
        noted.pipeline, noted.flow, noted.inputs, noted.batches, notes=(f"held by {canary.reveal()}",)
    )
    plan = ledger.plan([noted], owner=ME, run_id="run")["noted"]
    claim = ledger.claim(plan, owner=ME, run_id="run", lease=timedelta(minutes=1))
    ledger.finish(claim, State.FAILED, error)
    dump = str(everything(ledger))
    assert "cana" not in dump
    assert "***" in dump


def test_history_is_newest_first_and_limited(ledger: Ledger) -> None:
    for number in range(5):
        ledger.plan([nothing_new(f"flow {number}")], owner=ME, run_id=f"run {number}")
    ledger.refuse("shop", "flow 2", {"message": "first"}, owner=ME, run_id="run")
    ledger.refuse("shop", "flow 3", {"message": "second"}, owner=ME, run_id="run")
    assert [event.run_id for event in ledger.history("shop", limit=4)] == ["run", "run", "run 4", "run 3"]
    assert [event.error for event in ledger.history("shop", failed=True)] == ["second", "first"]
    assert [event.error for event in ledger.history("shop", failed=True, limit=1)] == ["second"]
    assert [event.event for event in ledger.history("shop", flow="flow 2")] == ["refused", "skipped"]
    assert [event.error for event in ledger.history("shop", flow="flow 2", failed=True)] == ["first"]
    assert ledger.history("shop", limit=0) == []


def test_history_is_asked_for_kinds(ledger: Ledger) -> None:
    for number in range(3):
        ledger.plan([nothing_new(f"flow {number}")], owner=ME, run_id=f"run {number}")
    ledger.refuse("shop", "flow 1", {"message": "no"}, owner=ME, run_id="run")
    ledger.note("shop", "flow 2", "verified", owner=ME, reason="equal")
    found = ledger.history("shop", events=["verified", "refused"])
    assert [(one.flow, one.event) for one in found] == [("flow 2", "verified"), ("flow 1", "refused")]
    assert [one.flow for one in ledger.history("shop", events=["skipped"], limit=1)] == ["flow 2"]
    assert [one.event for one in ledger.history("shop", flow="flow 1", events=["skipped"])] == ["skipped"]
    assert ledger.history("shop", events=["verified"], failed=True) == []
    assert ledger.history("shop", events=[]) == []


def test_the_runs_that_started_last_are_shown_whenever_they_ended(ledger: Ledger) -> None:
    names = ["a", "b", "c", "d"]
    plans = ledger.plan([draft(name) for name in names], owner=ME, run_id="run")
    claims = [ledger.claim(plans[name], owner=ME, run_id="run", lease=MINUTE) for name in names]
    for claim in reversed(claims):
        ledger.finish(claim, State.FAILED, {"message": "no"})
    for count in range(5):
        assert [one.flow for one in ledger.runs("shop", limit=count)] == names[::-1][:count]


def test_a_page_of_runs_is_one_read_of_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_ledger(f"json:{tmp_path}", create=True) as ledger:
        assert isinstance(ledger, DocumentLedger)
        for number in range(6):
            plans = ledger.plan([draft("a")], owner=ME, run_id=f"run {number}")
            claim = ledger.claim(plans["a"], owner=ME, run_id=f"run {number}", lease=MINUTE)
            ledger.finish(claim, State.FAILED, {"message": "no"})
            ledger.begin_override("shop", "a", "reset", {}, owner=ME, reason="again")
            ledger.end_override("shop", "a", epoch=number + 1)
        documents, limits = ledger._documents, []
        read = documents.read

        def count(log: str, *given: Any, **options: Any) -> Any:
            limits.append(options["limit"])
            return read(log, *given, **options)

        monkeypatch.setattr(documents, "read", count)
        assert [one.run_id for one in ledger.runs("shop", limit=2)] == ["run 5", "run 4"]
        assert limits == [4]


def test_runs_are_asked_for_a_flow_and_for_a_run(ledger: Ledger) -> None:
    for number in range(3):
        ledger.plan([nothing_new("a"), nothing_new("b")], owner=ME, run_id=f"run {number}")
    plan = ledger.plan([draft("c")], owner=ME, run_id="run 3")["c"]
    ledger.claim(plan, owner=ME, run_id="run 3", lease=timedelta(minutes=1))
    assert [one.run_id for one in ledger.runs("shop", flow="a")] == ["run 2", "run 1", "run 0"]
    assert [one.run_id for one in ledger.runs("shop", flow="a", limit=2)] == ["run 2", "run 1"]
    assert sorted(one.flow for one in ledger.runs("shop", run_id="run 1")) == ["a", "b"]
    assert [one.flow for one in ledger.runs("shop", run_id="run 3")] == ["c"]
    assert [one.flow for one in ledger.runs("shop", limit=1)] == ["c"]
    assert len(ledger.runs("shop")) == 7
    assert ledger.runs("shop", run_id="never") == ledger.runs("other", run_id="run 1") == []


def test_history_only_grows(ledger: Ledger) -> None:
    seen: list[object] = []
    plan = ledger.plan([draft(batches=1)], owner=ME, run_id="run")["orders"]
    for step in ("fail", "release", "finish"):
        claim = ledger.claim(plan, owner=ME, run_id="run", lease=timedelta(minutes=1))
        match step:
            case "fail":
                ledger.finish(claim, State.FAILED, {"message": "no"})
            case "release":
                ledger.finish(claim, State.PLANNED)
            case _:
                ledger.begin(claim, 0)
                ledger.advance(claim, 0, receipt(plan, 0))
                ledger.finish(claim, State.SUCCESS)
        now = list(reversed(ledger.history("shop", limit=100)))
        assert now[: len(seen)] == seen
        assert len(now) > len(seen)
        seen = list(now)
    assert [event.event for event in reversed(ledger.history("shop", limit=100))] == [
        *("planned", "claimed", "failed", "claimed", "released"),
        *("claimed", "advanced", "finished"),
    ]


def test_history_walks_indexes_however_much_has_happened(tmp_path: Path) -> None:
    queries = [
        "SELECT max(id) FROM runs WHERE flow_key = 'k'",
        "SELECT * FROM history WHERE pipeline_key = 'k' ORDER BY id DESC LIMIT 20",
        "SELECT * FROM history WHERE flow_key = 'k' ORDER BY id DESC LIMIT 20",
        "SELECT * FROM history WHERE pipeline_key = 'k' AND event = 'failed' ORDER BY id DESC LIMIT 20",
    ]
    ledger = open_ledger(f"sqlite:///{tmp_path}/ledger.db", create=True)
    assert isinstance(ledger, SqlLedger)
    with ledger, ledger._engine.connect() as connection:
        for query in queries:
            steps = [str(row) for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {query}")]
            assert not [step for step in steps if "SCAN" in step or "TEMP B-TREE" in step], query


def test_status_does_not_grow_with_the_past(sql_ledger_address: str) -> None:
    ledger = open_ledger(sql_ledger_address, create=True)
    assert isinstance(ledger, SqlLedger)
    ledger.plan([nothing_new(f"flow {number}") for number in range(100)], owner=ME, run_id="run")
    fresh = min(_seconds(ledger) for _ in range(5))
    with ledger._writer.begin() as connection:
        past = [dict(row) for row in connection.execute(select(runs)).mappings()]
        for row in past:
            del row["id"]
        insert_rows(connection, runs, [_plain(connection, row) for row in past] * 300)
    with ledger._writer.begin() as connection:
        # What a server does by itself a minute later.
        connection.execute(text("ANALYZE TABLE runs" if connection.dialect.name == "mysql" else "ANALYZE"))
    assert len(ledger.status("shop")) == 100
    assert min(_seconds(ledger) for _ in range(5)) < fresh * 5 + 0.1


def _seconds(ledger: Ledger) -> float:
    began = time.perf_counter()
    ledger.status("shop")
    return time.perf_counter() - began


def _plain(connection: Connection, row: dict[str, Any]) -> dict[str, Any]:
    times = {name: moment(connection, row[name]) for name in ("started_at", "ended_at")}
    return row | times


def test_what_a_person_did_is_kept_with_the_reason(ledger: Ledger) -> None:
    ledger.plan([draft()], owner=ME, run_id="run")
    before = ledger.status("shop")
    ledger.note("shop", "orders", "files_cleaned", owner=ME, reason="disk is small")
    [event] = ledger.history("shop", limit=1)
    assert (event.event, event.reason, event.actor) == ("files_cleaned", "disk is small", ME.actor)
    assert ledger.status("shop") == before
