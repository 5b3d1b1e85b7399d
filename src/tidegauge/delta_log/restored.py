"""Whether somebody took back what was committed to a Delta table."""

from __future__ import annotations

from tidegauge.delta_log.commit import parse_commit
from tidegauge.delta_log.log import ListedLog
from tidegauge.model.spec import Lake

_MOST = 200
"""Commits of others that are looked through."""


def find_restore(lake: Lake) -> int | None:
    """The version in which a RESTORE was made since our last commit; None: there was none.

    Raises OutputError where the store refuses, ValueError for a damaged file.
    """
    log = ListedLog(lake)
    newest = -1 if log.latest is None else log.latest
    for version in range(newest, max(newest - _MOST, -1), -1):
        body = log.commit(version)
        if body is None:
            return None
        commit = parse_commit(version, body)
        if commit.note is not None:
            return None
        if commit.info.get("operation") == "RESTORE":
            return version
    return None
