"""Whether a RESTORE took back what we committed, by the commits of a Delta log."""

from __future__ import annotations

from typing import Any

import pytest

from tidegauge.delta_log.commit import Commit
from tidegauge.delta_log.restored import find_restore


def others(number: int, operation: str, **parameters: str | None) -> Commit:
    return Commit(number, ({"commitInfo": {"operation": operation, "operationParameters": parameters}},))


def ours(version: int) -> Commit:
    info: dict[str, Any] = {"operation": "MERGE", "userMetadata": '{"tidegauge": 1}'}
    return Commit(version, ({"commitInfo": info},))


@pytest.mark.parametrize(
    ("log", "found"),
    [
        ([], None),
        ([others(0, "RESTORE", version="0")], None),
        ([ours(3), others(4, "DELETE")], None),
        ([ours(3), others(4, "RESTORE", version="2"), others(5, "OPTIMIZE")], 4),
        ([ours(3), others(4, "DELETE"), others(5, "RESTORE", version="3")], None),
        ([ours(3), others(4, "RESTORE", version="1"), others(5, "RESTORE", version="3")], None),
        ([ours(3), others(4, "RESTORE", version="1"), others(5, "RESTORE", version="4")], 4),
        ([ours(3), others(4, "RESTORE", version=None, timestamp="2026-01-01")], 4),
        ([ours(3), others(4, "RESTORE", version="2"), ours(5)], None),
    ],
)
def test_a_restore_to_before_our_last_commit_is_found(log: list[Commit], found: int | None) -> None:
    assert find_restore(reversed(log)) == found
