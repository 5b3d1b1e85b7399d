"""What a vacuum of a Delta table would take from flows that still read older versions of it. Pure.

A reader that has read up to version w still needs the changes of the versions past w, and the table as it was
at w. The files for that are in the newest version, or the commits past w name them: as files that they
removed, or as files of their change feed. So a vacuum takes nothing from the reader exactly when none of the
files that these commits name is old enough to go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from tidegauge.model.retention import shown

MARGIN = timedelta(minutes=5)
"""Added to the age of files, for the time that passes between this check and the vacuum."""


@dataclass(frozen=True)
class VacuumCommit:
    """What matters to a vacuum about one version of the table."""

    version: int
    removed: datetime | None = None
    """When the commit removed files, of these the earliest time; None: it removed none."""
    feed: datetime | None = None
    """When the oldest existing file of its change feed was written; None: there is none."""


@dataclass(frozen=True)
class VacuumConsumer:
    """A flow that reads the table, and from which version on it needs the files."""

    flow: str
    input: str
    after: int
    """The last version whose changes it does not need; -1: it needs every version."""
    why: str
    """The reason, for messages: `its watermark is version 7`."""


@dataclass(frozen=True)
class NeededFiles:
    """Files that a reader needs and that a vacuum would remove."""

    reader: VacuumConsumer
    version: int
    """The first version whose files would go."""
    age: timedelta
    """How old these files are."""
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


def find_needed_files(
    readers: Sequence[VacuumConsumer],
    commits: Sequence[VacuumCommit],
    *,
    retain: timedelta,
    own: timedelta,
    now: datetime,
) -> list[NeededFiles]:
    """Find what each reader would lose, one `NeededFiles` for each reader at most.

    `own`: the table's own retention. After that time Delta forgets which files were removed, and a vacuum
    removes forgotten files even if it is told to keep more (`retain`).
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
                found.append(NeededFiles(reader, commit.version, age, kept))
                break
    return found
