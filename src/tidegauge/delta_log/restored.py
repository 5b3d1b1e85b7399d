"""Whether somebody took back what was committed to a Delta table."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from tidegauge.delta_log.commit import Commit

_MOST = 200
"""Commits of others that are looked through."""


def find_restore(commits: Iterable[Commit]) -> int | None:
    """The version in which a RESTORE took our last commit back; None: none did. `commits`: newest first.

    One to our last commit, or to a later one, takes nothing back. Of one by time it is not known.
    """
    restores: dict[int, int | None] = {}
    for commit in islice(commits, _MOST):
        if commit.note is not None:
            return _taken_back(restores, commit.version)
        if commit.info.get("operation") == "RESTORE":
            restores[commit.version] = _target(commit)
    return None


def _taken_back(restores: dict[int, int | None], ours: int) -> int | None:
    """`restores`: which version each gave back, newest first. That may be the outcome of an earlier one."""
    now: int | None = max(restores, default=ours)
    while now is not None and now > ours:
        made = next((version for version in restores if version <= now), None)
        if made is None:
            return None
        now = restores[made]
        if now is None or now < ours:
            return made
    return None


def _target(commit: Commit) -> int | None:
    parameters = commit.info.get("operationParameters")
    version = parameters.get("version") if isinstance(parameters, dict) else None
    return int(text) if (text := str(version)).isdecimal() else None
