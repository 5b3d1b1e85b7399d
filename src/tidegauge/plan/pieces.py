"""Cut the versions of a Delta table into pieces that can each be read in one way. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tidegauge.model.delta_flow import DeltaFlow, DeltaInput, Function
from tidegauge.model.plan import ReadWay
from tidegauge.model.position import VersionPosition, Window
from tidegauge.model.versions import Version

_MOST_CALLS = 20
"""The most versions in one `scd2` batch whose transform is a Python function, called once for each
version."""


@dataclass(frozen=True)
class VersionRange:
    """The versions of one input that one batch reads: `(after, upto]`."""

    after: int | None
    """None or below 0: from the beginning."""
    upto: int
    way: ReadWay

    @property
    def window(self) -> Window:
        after = None if self.after is None or self.after < 0 else VersionPosition(self.after)
        return Window(after, VersionPosition(self.upto))


def cut_into_ranges(
    flow: DeltaFlow, part: DeltaInput, versions: Sequence[Version], after: int | None
) -> Iterator[VersionRange]:
    """Cut the unread `versions` into pieces, in order; every version must be readable.

    A new piece begins where the way of reading or the schema changes, and where the batch would be too large.
    A version without changes that does not fit is skipped: a gap between two pieces loses nothing.
    """
    most = part.max_versions or len(versions)
    if flow.output.mode.facts.keeps_history and isinstance(flow.transform, Function):
        most = min(most, _MOST_CALLS)
    piece: list[Version] = []
    """Versions since the last cut; the first and the last of them have changes."""
    idle: list[Version] = []
    """The versions without changes that follow the piece."""
    for version in versions:
        if not version.changes:
            idle.append(version)
            continue
        if piece and not _fits(piece, idle, version, most, part.max_bytes):
            yield _make_range(flow, part, piece, after)
            after, piece = piece[-1].number, []
        if piece:
            piece += idle
        elif not all(_are_alike(one, version) for one in idle):
            after = version.number - 1
        piece.append(version)
        idle = []
    if piece:
        for one in idle:
            if not _are_alike(one, piece[-1]):
                break
            piece.append(one)
        yield _make_range(flow, part, piece, after)


def _fits(
    piece: list[Version], idle: list[Version], version: Version, most: int, largest: int | None
) -> bool:
    if not all(_are_alike(one, piece[-1]) for one in (*idle, version)):
        return False
    if sum(one.changes for one in piece) >= most:
        return False
    return largest is None or sum(one.bytes for one in (*piece, version)) <= largest


def _are_alike(one: Version, other: Version) -> bool:
    """Whether two versions can be read in one piece: Delta refuses a range in which the feed was off, even
    for a version without changes."""
    return one.feed == other.feed and one.digest == other.digest


def _make_range(flow: DeltaFlow, part: DeltaInput, piece: list[Version], after: int | None) -> VersionRange:
    """Choose how to read a piece: added files are faster than the feed, and hold the same rows where versions
    only add. A flow that shows commit times uses the feed where it is on: it shows what Delta itself says,
    and not what `delta_log.commit_times` makes of the log by the same rule."""
    changing = [version for version in piece if version.changes]
    timed = part.raw or flow.output.mode.facts.keeps_history
    grows = all(version.only_adds for version in changing) and not (timed and changing[0].feed)
    return VersionRange(after, piece[-1].number, ReadWay.FILES if grows else ReadWay.FEED)
