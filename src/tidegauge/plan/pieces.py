"""Cut the versions of a Delta table into pieces that can each be read in one way. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tidegauge.model.delta_flow import DeltaFlow, DeltaInput, Function
from tidegauge.model.plan import ReadWay
from tidegauge.model.position import VersionPosition, Window
from tidegauge.model.versions import Version

_CALLS = 20
"""Versions in one batch of `scd2` where a Python function is called once for each of them."""


@dataclass(frozen=True)
class VersionRange:
    """Versions of one input in one batch."""

    after: int | None
    """Below 0, or None: the beginning."""
    upto: int
    way: ReadWay

    @property
    def window(self) -> Window:
        after = None if self.after is None or self.after < 0 else VersionPosition(self.after)
        return Window(after, VersionPosition(self.upto))


def cut(
    flow: DeltaFlow, part: DeltaInput, versions: Sequence[Version], after: int | None
) -> Iterator[VersionRange]:
    """Pieces of what is not read yet, in order; every version of it can be read.

    A new piece begins where the way of reading or the schema changes, and where the batch would be too large.
    What changed nothing is passed over where it does not fit: nothing is lost by a gap between two pieces.
    """
    most = part.max_versions or len(versions)
    if flow.output.mode.facts.keeps_history and isinstance(flow.transform, Function):
        most = min(most, _CALLS)
    piece: list[Version] = []
    """What was taken since the last cut: its first and its last change something, or it is empty."""
    idle: list[Version] = []
    """What changed nothing since."""
    for version in versions:
        if not version.changes:
            idle.append(version)
            continue
        if piece and not _fits(piece, idle, version, most, part.max_bytes):
            yield _make_range(flow, part, piece, after)
            after, piece = piece[-1].number, []
        if piece:
            piece += idle
        elif not all(_alike(one, version) for one in idle):
            after = version.number - 1
        piece.append(version)
        idle = []
    if piece:
        for one in idle:
            if not _alike(one, piece[-1]):
                break
            piece.append(one)
        yield _make_range(flow, part, piece, after)


def _fits(
    piece: list[Version], idle: list[Version], version: Version, most: int, largest: int | None
) -> bool:
    if not all(_alike(one, piece[-1]) for one in (*idle, version)):
        return False
    if sum(one.changes for one in piece) >= most:
        return False
    return largest is None or sum(one.bytes for one in (*piece, version)) <= largest


def _alike(one: Version, other: Version) -> bool:
    """Delta refuses a feed that was off in between, even for a version without a change."""
    return one.feed == other.feed and one.digest == other.digest


def _make_range(flow: DeltaFlow, part: DeltaInput, piece: list[Version], after: int | None) -> VersionRange:
    """Files are read sooner than a feed, and where they are all that was added they tell the same. Only the
    feed's own time of a commit is another one, so who is shown that time gets it from one of them always."""
    changing = [version for version in piece if version.changes]
    timed = part.raw or flow.output.mode.facts.keeps_history
    grows = all(version.only_adds for version in changing) and not (timed and changing[0].feed)
    return VersionRange(after, piece[-1].number, ReadWay.FILES if grows else ReadWay.FEED)
