"""The shortcuts for small batches into Delta tables, and their switch."""

from __future__ import annotations

from typing import Any

import pytest

from tidegauge.outputs.delta import small_batches


class Conf(dict[str, str]):
    def set(self, name: str, value: str) -> None:
        self[name] = value

    def unset(self, name: str) -> None:
        self.pop(name, None)


class Session:
    def __init__(self) -> None:
        self.conf = Conf({"spark.sql.shuffle.partitions": "7"})


def tuned(*, few: bool) -> tuple[dict[str, str], dict[str, str]]:
    """The settings inside and after."""
    session: Any = Session()
    with small_batches.tune_for_small(session, few=few):
        inside = dict(session.conf)
    return inside, dict(session.conf)


def test_settings_for_small_work_are_put_back() -> None:
    inside, after = tuned(few=True)
    assert inside["spark.sql.adaptive.enabled"] == "false"
    assert inside["spark.sql.shuffle.partitions"] == "1"
    assert after == {"spark.sql.shuffle.partitions": "7"}


def test_large_work_and_the_switch_leave_the_session_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    as_it_was = {"spark.sql.shuffle.partitions": "7"}
    assert tuned(few=False) == (as_it_was, as_it_was)
    monkeypatch.setenv(small_batches.SWITCH, "off")
    assert tuned(few=True) == (as_it_was, as_it_was)
    nobody: Any = None  # neither the session nor the table is looked at
    small_batches.read_log_ahead(nobody, "t", nobody, remote=False)
