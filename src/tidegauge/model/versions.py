"""What the log of a Delta table says of the versions that a flow has not read yet."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

LATEST = 2**63 - 1
"""As the version to look from: nothing but what the table is now."""
FEED = "delta.enableChangeDataFeed"


@dataclass(frozen=True)
class Version:
    number: int
    at: datetime | None
    """When it was committed, as the commit itself says, in UTC; None where it does not."""
    changes: bool
    """Whether it changed any row. What only rewrites files, or alters the table, does not."""
    only_adds: bool
    """Whether whole new files are all that it brought."""
    bytes: int
    """Of the files that have to be read for it."""
    feed: bool
    """Whether the change data feed was on."""
    digest: str | None
    """Of the schema; None, as with the id below, where the log does not reach that far any more."""
    table_id: str | None
    key: tuple[str, ...] = ()
    """By which it was merged here: it gave no key to two rows. Empty: by whoever, in whatever way."""
    missing: tuple[str, ...] = ()
    """Files that have to be read for it, and are gone."""
    absent: bool = False
    """Its commit is gone, so nothing else is known of it."""


def _unreadable(version: int) -> bool:  # noqa: ARG001 - the promise of `History.readable`
    return False


@dataclass(frozen=True)
class History:
    """A Delta table as it is, and every version of it past the one that was asked for."""

    location: str
    table_id: str
    """Another one means another table, whatever its name and version."""
    latest: int
    at: datetime | None
    """When the latest version was committed, as the commit itself says, in UTC."""
    digest: str
    """Of the names, types and nullability of the columns at the latest version."""
    schema: str
    """The same as Spark's JSON."""
    earliest: int
    """The first version whose commit is there."""
    read_at: datetime
    """In UTC."""
    after: int | None = None
    """The version that was asked for; None: the beginning."""
    versions: tuple[Version, ...] = ()
    """In `(after, latest]`, or from `earliest` on, without a gap."""
    partition_by: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    """`delta.…`, as they are set at the latest version; what is not set is not here."""
    reader: int = 1
    """The protocol that a reader has to know."""
    features: frozenset[str] = frozenset()
    """Of reader and writer, where the protocol names them."""
    readable: Callable[[int], bool] = field(default=_unreadable, compare=False, repr=False)
    """Whether the whole table at a version can still be read: log and files. Asks the store each time."""

    @property
    def feed(self) -> bool:
        return has_feed(self.properties)


def has_feed(properties: Mapping[str, str]) -> bool:
    return properties.get(FEED, "").lower() == "true"
