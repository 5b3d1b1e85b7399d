"""Whole numbers as times: in plans, in what people write, in the project file and on the screen (A28)."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.test_draft import flow_with, shape_of
from tidegauge.config.load import load_project
from tidegauge.errors import ConfigError
from tidegauge.flows.override.position import from_text, from_timestamp
from tidegauge.model.position import RowPosition, Value, ValueKind, to_moment
from tidegauge.model.spec import FutureGuard
from tidegauge.model.table import SourceTable
from tidegauge.model.unix_times import UnixUnit, moment_of, number_of, unit_of
from tidegauge.plan.draft import find_window_start
from tidegauge.sources.bound import latest_now, timestamp_bound
from tidegauge.sources.dialect import ClockReading

NOON = datetime(2025, 6, 1, 12, 0, 0, 500_000)
SECONDS = 1_748_779_200


def source_table(epoch: UnixUnit = UnixUnit.SECONDS) -> SourceTable:
    made = shape_of(ValueKind.INT, scale=0)
    return replace(made, cursor=replace(made.cursor, unix_unit=epoch))


def at(number: int) -> RowPosition:
    return RowPosition(Value(ValueKind.INT, str(number)))


@given(st.datetimes(datetime(1973, 4, 1), datetime(5000, 1, 1)), st.sampled_from(UnixUnit))
def test_a_number_tells_its_unit_and_its_moment(moment: datetime, epoch: UnixUnit) -> None:
    number = number_of(moment, epoch)
    assert unit_of(number) is epoch
    found = moment_of(str(number))
    assert found is not None
    assert timedelta(0) <= moment - found < epoch.step


@pytest.mark.parametrize("text", ["", "-5", "12", "99999999", "9" * 30, "2025-01-01", "none"])
def test_what_is_no_moment_of_our_time_tells_none(text: str) -> None:
    assert moment_of(text) is None


@pytest.mark.parametrize(
    ("epoch", "expected"),
    [
        (UnixUnit.SECONDS, SECONDS - 10 - 1),
        (UnixUnit.MILLISECONDS, (SECONDS - 10) * 1000 + 500 - 1),
        (UnixUnit.MICROSECONDS, (SECONDS - 10) * 10**6 + 500_000 - 1),
    ],
)
def test_a28_the_bound_is_one_unit_below_the_clock(epoch: UnixUnit, expected: int) -> None:
    options = flow_with(settle=timedelta(seconds=10)).options
    # An instant: the server's zone is nothing to it.
    moment = ClockReading(NOON, lowest_offset=timedelta(hours=-5), highest_offset=timedelta(hours=2))
    found = timestamp_bound(moment, options, source_table(epoch).cursor)
    assert (found.value, found.notes) == (Value(ValueKind.INT, str(expected)), ())
    assert latest_now(moment, source_table(epoch).cursor) == Value(ValueKind.INT, str(number_of(NOON, epoch)))


@pytest.mark.parametrize(
    ("epoch", "initial", "after"),
    [
        (UnixUnit.SECONDS, "2025-06-01 12:00:00", SECONDS - 1),
        (UnixUnit.SECONDS, "2025-06-01T12:00:00Z", SECONDS - 1),
        (UnixUnit.SECONDS, "2025-06-01 12:00:00.5", SECONDS),
        (UnixUnit.MILLISECONDS, "2025-06-01 12:00:00.5", SECONDS * 1000 + 499),
        (UnixUnit.MICROSECONDS, "2025-06-01", (SECONDS - 43_200) * 10**6 - 1),
        (UnixUnit.MILLISECONDS, str(SECONDS * 1000), SECONDS * 1000 - 1),
    ],
)
def test_a28_initial_is_a_time_or_a_number(epoch: UnixUnit, initial: str, after: int) -> None:
    assert find_window_start(flow_with(initial=initial), source_table(epoch), None) == at(after)


def test_a28_an_initial_that_is_neither_is_refused() -> None:
    with pytest.raises(ConfigError, match="initial 'yesterday' is not"):
        find_window_start(flow_with(initial="yesterday"), source_table(), None)


@pytest.mark.parametrize(("epoch", "by"), [(UnixUnit.SECONDS, 2), (UnixUnit.MILLISECONDS, 1500)])
def test_a28_lookback_goes_back_by_time(epoch: UnixUnit, by: int) -> None:
    flow = flow_with(lookback=timedelta(seconds=1.5))
    assert find_window_start(flow, source_table(epoch), at(SECONDS * epoch.each)) == at(
        SECONDS * epoch.each - by
    )


@pytest.mark.parametrize(
    "written", [str(SECONDS * 1000), "2025-06-01 12:00:00", "2025-06-01T14:00:00+02:00", "2025-06-01 12:00"]
)
def test_a28_a_position_is_written_as_a_time_or_a_number(written: str) -> None:
    assert from_text(source_table(UnixUnit.MILLISECONDS), written, None) == at(SECONDS * 1000)
    assert from_timestamp(source_table(UnixUnit.MILLISECONDS), written, None) == at(SECONDS * 1000)


def test_a28_the_ledger_tells_the_time_of_a_number() -> None:
    assert to_moment(at(SECONDS), "timestamp", None) == NOON.replace(microsecond=0)
    assert to_moment(at(SECONDS), "value", None) is None


def project(tmp_path: Path, keys: str) -> Any:
    file = tmp_path / "tidegauge.yml"
    file.write_text(
        "pipeline: p\nconnections:\n  app: {type: sqlite, path: a.db}\n  lake: {type: parquet, path: lake}\n"
        f"sync:\n  - {{from: app, to: lake, tables: [t], {keys}}}\n"
    )
    return load_project(file).syncs[0]


def test_a28_epoch_stands_beside_the_column(tmp_path: Path) -> None:
    sync = project(
        tmp_path, "cursor: {column: ts, epoch: ms}, future_guard: fail, override: {t: {cursor: id}}"
    )
    found = sync.options
    assert (found.cursor, found.epoch, found.future_guard) == ("ts", UnixUnit.MILLISECONDS, FutureGuard.FAIL)
    # Another cursor is another column, and nothing of the first is left.
    assert (sync.per_table["t"].cursor, sync.per_table["t"].epoch) == ("id", None)
    assert project(tmp_path, "cursor: {column: ts}").options.epoch is None


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ("cursor: {column: ts, epoch: hours}", "hours"),
        ("cursor: {epoch: s}", "`column` is missing"),
        ("cursor: {column: ts, unit: s}", "unknown key `unit`"),
        ("cursor: [ts]", "must be text"),
        ("cursor: ts, future_guard: stop", "stop"),
    ],
)
def test_a28_what_is_not_understood_is_named(tmp_path: Path, keys: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        project(tmp_path, keys)
    assert said in str(caught.value)
