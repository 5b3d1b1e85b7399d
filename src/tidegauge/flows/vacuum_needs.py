"""What a vacuum of a Delta table would take from those who still read older versions of it. Pure.

A reader that has read up to version w still needs what the versions past w brought, and the table as it was
at w. What of that is no part of the newest version is named by the commits past w themselves: files that one
of them removed, and the files of its change feed. So a vacuum takes nothing from a reader exactly when
nothing that these commits removed, or keep as changes, is old enough to go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from tidegauge.model.retention import shown

MARGIN = timedelta(minutes=5)
"""Between the look and the vacuum the clock goes on."""


@dataclass(frozen=True)
class VacuumCommit:
    """One version of the table, as far as a vacuum goes by it."""

    version: int
    removed: datetime | None = None
    """When the first of the files went that it removed; None: it removed none."""
    feed: datetime | None = None
    """When the first file of its change feed was written that is still there; None: it has none."""


@dataclass(frozen=True)
class VacuumReader:
    flow: str
    input: str
    after: int
    """The last version that it needs no changes of; -1: it needs every version there is."""
    why: str
    """What says so: `its watermark is version 7`."""


@dataclass(frozen=True)
class Need:
    """What a reader would lose."""

    reader: VacuumReader
    version: int
    """The first version whose files would go."""
    age: timedelta
    """Of those files."""
    kept: timedelta
    """How long a vacuum would keep them."""

    @property
    def text(self) -> str:
        one = self.reader
        return (
            f"{one.flow} still reads it (input {one.input}, {one.why}): it needs the files of every version"
            f" from {one.after + 1} on, and those of version {self.version} are {shown(self.age)} old, while"
            f" files are kept for {shown(self.kept)}"
        )


def needs(
    readers: Sequence[VacuumReader],
    commits: Sequence[VacuumCommit],
    *,
    retain: timedelta,
    own: timedelta,
    now: datetime,
) -> list[Need]:
    """One for each reader who would lose something; none: the vacuum takes nothing from anyone.

    `own` is the table's own retention: whatever a vacuum is told to keep, Delta forgets by it which files
    were removed, and what it has forgotten goes.
    """
    found = []
    for reader in readers:
        for commit in sorted(commits, key=lambda one: one.version):
            if commit.version <= reader.after:
                continue
            lost = [
                (now - since, kept)
                for since, kept in ((commit.removed, min(retain, own)), (commit.feed, retain))
                if since is not None and now - since > kept - MARGIN
            ]
            if lost:
                age, kept = max(lost)
                found.append(Need(reader, commit.version, age, kept))
                break
    return found
