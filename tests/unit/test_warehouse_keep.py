"""DuckDB files that a run keeps open for a moment."""

from __future__ import annotations

import threading

import pytest

from tidegauge.outputs.warehouse import open_files as keep


def test_outside_a_run_a_file_is_closed_at_once() -> None:
    closed: list[str] = []
    keep.close("a", lambda: closed.append("a"))
    assert closed == ["a"]


def test_inside_a_run_the_newest_connection_stays_until_the_end() -> None:
    closed: list[int] = []
    with keep.kept_open():
        with keep.kept_open():
            keep.close("a", lambda: closed.append(1))
            assert closed == []
            keep.close("a", lambda: closed.append(2))
            assert closed == [1]
        assert closed == [1]
    assert closed == [1, 2]


def test_a_file_that_nobody_uses_is_let_go_while_the_run_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keep, "LINGER", 0.01)
    closed = threading.Event()
    with keep.kept_open():
        keep.close("a", closed.set)
        assert closed.wait(10)


def test_the_switch_closes_a_file_at_once_inside_a_run_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(keep.SWITCH, "off")
    closed: list[str] = []
    with keep.kept_open():
        keep.close("a", lambda: closed.append("a"))
        assert closed == ["a"]
