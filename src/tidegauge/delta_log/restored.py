"""Whether a RESTORE of a Delta table undid what we had committed to it."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from tidegauge.delta_log.commit import Commit

_MOST = 200
"""The most commits that are searched for our last one."""


def find_restore(commits: Iterable[Commit]) -> int | None:
    """The version in which a RESTORE undid our last commit; None: none did. `commits`: newest first.

    A RESTORE to our last commit, or to a later one, undoes nothing. A RESTORE by timestamp does not say to
    which version, and counts as undoing it.
    """
    restores: dict[int, int | None] = {}
    for commit in islice(commits, _MOST):
        if commit.note is not None:
            return _find_undoing(restores, commit.version)
        if commit.info.get("operation") == "RESTORE":
            restores[commit.version] = _parse_restored_version(commit)
    return None


def _find_undoing(restores: dict[int, int | None], ours: int) -> int | None:
    """The version of the RESTORE that undid our commit, or None. `restores`: by version, newest first, the
    version that each went back to, which may itself be the result of an earlier RESTORE."""
    now: int | None = max(restores, default=ours)
    while now is not None and now > ours:
        made = next((version for version in restores if version <= now), None)
        if made is None:
            return None
        now = restores[made]
        if now is None or now < ours:
            return made
    return None


def _parse_restored_version(commit: Commit) -> int | None:
    parameters = commit.info.get("operationParameters")
    version = parameters.get("version") if isinstance(parameters, dict) else None
    return int(text) if (text := str(version)).isdecimal() else None
