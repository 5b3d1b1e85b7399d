"""A ledger of an earlier version goes on where it stood."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, MetaData, Table, insert, select, text

import tidegauge.ledger.migrate
from tests.support.drafts import ME, draft, position, receipt
from tidegauge.ledger import sql_tables as tables
from tidegauge.ledger.address import parse
from tidegauge.ledger.keys import flow_key, input_key, pipeline_key
from tidegauge.ledger.migrate import migrate, prepare_place
from tidegauge.ledger.open import open_ledger
from tidegauge.ledger.sql_connect import WRITE, connect
from tidegauge.ledger.sql_ledger import SqlLedger
from tidegauge.ledger.sql_tables import VERSIONS
from tidegauge.model.plan import Batch, Draft, InputPlan, draft_to_body, draft_to_json
from tidegauge.model.position import Position, RowPosition, Value, ValueKind, VersionPosition, Window, encode
from tidegauge.model.state import State

AT = datetime(2025, 8, 14, 12, 0, 0, 123456)
MINUTE = timedelta(minutes=1)


def make_first(address: str, version: str = "0001", fill: Callable[[Connection], None] | None = None) -> None:
    """As the first version left it: a plan of three batches that failed after one, in the third epoch."""
    parsed = parse(address)
    prepare_place(parsed)
    engine = connect(parsed, create=True)
    config = Config()
    folder = Path(tidegauge.ledger.migrate.__file__).parent / "migrations"
    config.set_main_option("script_location", str(folder))
    with engine.connect().execution_options(**WRITE) as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, version)
        (fill or _fill)(connection)
        connection.commit()
    engine.dispose()


def _fill(connection: Connection) -> None:
    key, name = flow_key("shop", "orders"), {"pipeline": "shop", "flow": "orders"}
    body = draft_to_body(draft(start=4))
    for part in body["inputs"]:
        del part["stamp"]

    def put(table: str, **values: Any) -> None:
        connection.execute(insert(Table(table, MetaData(), autoload_with=connection)).values(**values))

    put(
        "flows",
        flow_key=key,
        pipeline_key=pipeline_key("shop"),
        **name,
        idle_state="SUCCESS",
        fence=7,
        updated_at=AT,
    )
    put(
        "watermarks",
        flow_key=key,
        input_key=input_key("orders"),
        pipeline_key=pipeline_key("shop"),
        **name,
        input="orders",
        cursor_kind="timestamp",
        position=encode(position(5)),
        checked=encode(position(5)),
        epoch=2,
        seq=9,
        source_id="db/orders",
        updated_at=AT,
    )
    put(
        "plans",
        plan_id="old",
        flow_key=key,
        active=1,
        **name,
        state="FAILED",
        epoch=2,
        first_seq=9,
        batches=3,
        done=1,
        begun=0,
        body=json.dumps(body),
        fence=7,
        attempt=1,
        created_at=AT,
        updated_at=AT,
    )
    put(
        "runs",
        run_id="run",
        flow_key=key,
        **name,
        plan_id="old",
        attempt=1,
        state="FAILED",
        started_at=AT,
        ended_at=AT,
        batches=1,
        rows_read=10,
        rows_written=10,
    )
    put(
        "history",
        at=AT,
        pipeline_key=pipeline_key("shop"),
        flow_key=key,
        **name,
        run_id="run",
        plan_id="old",
        event="failed",
        actor="me@here",
        error="no disk",
    )


def _fill_without_times(connection: Connection) -> None:
    """Two flows as version 0003 left them: no time of a version, nor of a timestamp that is text."""

    def put(table: str, **values: Any) -> None:
        connection.execute(insert(Table(table, MetaData(), autoload_with=connection)).values(**values))

    ends: dict[str, tuple[str, list[Position]]] = {
        "delta": ("version", [VersionPosition(3), VersionPosition(9)]),
        "text": (
            "timestamp",
            [
                RowPosition(Value(ValueKind.TEXT, f"2026-01-01 {clock}:00.5"), (Value(ValueKind.TEXT, "\0"),))
                for clock in ("10:00", "12:00")
            ],
        ),
    }
    stamps = ["2026-01-01T10:00:00.500000+00:00", "2026-01-01T12:00:00.500000+00:00"]
    for flow, (cursor, (first, second)) in ends.items():
        key, name = flow_key("shop", flow), {"pipeline": "shop", "flow": flow}
        keys = {"flow_key": key, "pipeline_key": pipeline_key("shop"), **name}
        put("flows", **keys, idle_state="SUCCESS", fence=2, epoch=0, seq=2, updated_at=AT)
        put(
            "watermarks",
            **keys,
            input_key=input_key("in"),
            input="in",
            cursor_kind=cursor,
            position=encode(second),
            checked=encode(second),
            epoch=0,
            seq=2,
            stamp=stamps[1] if cursor == "version" else None,
            position_version=9 if cursor == "version" else None,
            updated_at=AT,
        )
        for number, window in enumerate((Window(None, first), Window(first, second))):
            part = InputPlan(
                "in", cursor, window, "db", "f", stamp=stamps[number] if cursor == "version" else None
            )
            body = draft_to_json(Draft("shop", flow, (part,), (Batch((window,)),)))
            made = AT + timedelta(minutes=number)
            state = {"state": "SUCCESS", "plan_id": f"{flow} {number}", "attempt": 1}
            counts = {"epoch": 0, "first_seq": number + 1, "batches": 1, "done": 1, "fence": 1}
            moments = {"created_at": made, "updated_at": made}
            put("plans", flow_key=key, **name, **state, **counts, **moments, body=body)
            done = {"started_at": made, "ended_at": made, "batches": 1, "rows_read": 1, "rows_written": 1}
            put("runs", run_id="run", flow_key=key, **name, **state, **done)


def test_f3_times_and_texts_are_filled_in_where_an_earlier_version_left_them_out(
    sql_ledger_address: str,
) -> None:
    make_first(sql_ledger_address, "0003", _fill_without_times)
    assert migrate(sql_ledger_address).before == "0003"
    ten, twelve = datetime(2026, 1, 1, 10, 0, 0, 500000), datetime(2026, 1, 1, 12, 0, 0, 500000)
    with open_ledger(sql_ledger_address, create=False) as ledger:
        assert isinstance(ledger, SqlLedger)
        with ledger._engine.connect() as connection:
            runs = connection.execute(select(tables.runs).order_by(tables.runs.c.id)).all()
            marks = connection.execute(select(tables.watermarks)).all()
            shown = connection.execute(
                text("SELECT start_version, end_version FROM pipeline_watermark_plans")
            )
            assert set(map(tuple, shown)) == {(0, 3), (4, 9), (None, None)}
        assert [(row.position_ts, row.checked_ts) for row in marks] == [(twelve, twelve)] * 2
        assert {row.position_version for row in marks} == {9, 1767268800500}
        assert [(row.after_ts, row.upto_ts) for row in runs] == [(None, ten), (ten, twelve)] * 2
        assert [(row.after_text, row.upto_text) for row in runs] == [
            (None, "version 3"),
            ("version 3", "version 9"),
            (None, "2026-01-01 10:00:00.5 · �"),
            ("2026-01-01 10:00:00.5 · �", "2026-01-01 12:00:00.5 · �"),
        ]
        assert {mark.position for mark in ledger.watermarks("shop")} == {
            VersionPosition(9),
            RowPosition(Value(ValueKind.TEXT, "2026-01-01 12:00:00.5"), (Value(ValueKind.TEXT, "\0"),)),
        }


def test_a_ledger_that_lacks_only_views_is_worked_with_and_gets_them_when_asked(
    sql_ledger_address: str,
) -> None:
    make_first(sql_ledger_address, "0005", lambda _: None)
    with open_ledger(sql_ledger_address, create=True) as ledger:
        ledger.plan([draft()], owner=ME, run_id="job")
    assert migrate(sql_ledger_address).before == "0005"
    with open_ledger(sql_ledger_address, create=False) as ledger:
        assert isinstance(ledger, SqlLedger)
        with ledger._engine.connect() as connection:
            shown = connection.execute(text("SELECT table_name, status FROM pipeline_watermark_plans"))
            assert [tuple(row) for row in shown] == [("orders", "PLANNED")]


def test_a_plan_that_failed_under_the_first_version_is_ended_under_this_one(sql_ledger_address: str) -> None:
    make_first(sql_ledger_address)
    done = migrate(sql_ledger_address)
    assert (done.before, done.after) == ("0001", VERSIONS[-1])
    with open_ledger(sql_ledger_address, create=True) as ledger:
        [status] = ledger.status("shop")
        assert (status.state, status.fence, status.override, status.undo) == (State.FAILED, 7, None, None)
        assert status.plan is not None
        assert (status.plan.epoch, status.plan.first_seq, status.plan.done) == (2, 9, 1)
        assert [event.error for event in ledger.history("shop")] == ["no disk"]
        claim = ledger.claim(status.plan, owner=ME, run_id="again", lease=MINUTE)
        for index in (1, 2):
            ledger.begin(claim, index)
            ledger.advance(claim, index, receipt(claim.plan, index))
        ledger.finish(claim, State.SUCCESS)
        [mark] = ledger.watermarks("shop")
        assert (mark.position, mark.epoch, mark.seq) == (position(7), 2, 11)
        tally = ledger.tallies("shop", ["orders"])["orders"]
        # One batch of ten rows under the first version, two under this one.
        assert (tally.rows, tally.batches, tally.files, tally.created_at) == (30, 3, None, AT)
        plan = ledger.plan([draft(start=7)], owner=ME, run_id="next")["orders"]
        assert (plan.epoch, plan.first_seq) == (2, 12)
