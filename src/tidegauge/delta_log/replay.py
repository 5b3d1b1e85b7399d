"""Replays commits to find the files that a Delta table has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tidegauge.delta_log.commit import Action, Commit, file_identity


def live_files(newest_first: Iterable[Commit], checkpoint: Iterable[Action]) -> Iterator[Action]:
    """The newest `add` of every file that is left, given the commits after a checkpoint, and the
    checkpoint's own `add` actions."""
    decided: set[tuple[str, str]] = set()
    for commit in newest_first:
        for add in commit.added:
            name = file_identity(add)
            if name not in decided:
                decided.add(name)
                yield add
        decided.update(map(file_identity, commit.removed))
    for add in checkpoint:
        if file_identity(add) not in decided:
            yield add
