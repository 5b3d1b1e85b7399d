"""What a Delta table's log says about the versions that a flow has not read yet."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

LATEST = 2**63 - 1
"""As the version to start after: read no versions, only the table's present state."""
FEED = "delta.enableChangeDataFeed"


@dataclass(frozen=True)
class Version:
    number: int
    at: datetime | None
    """When it was committed, in UTC, according to the commit itself; None if the commit does not say."""
    changes: bool
    """Whether it changed any row. Commits that only rewrite files or alter the table do not."""
    only_adds: bool
    """Whether it only added new files."""
    bytes: int
    """Total size of the files that have to be read for it."""
    feed: bool
    """Whether the change data feed was on."""
    digest: str | None
    """Digest of the schema; like `table_id` None if the log no longer reaches back that far."""
    table_id: str | None
    key: tuple[str, ...] = ()
    """Key by which Tidegauge merged this version, so that no two rows got the same key. Empty: not known."""
    missing: tuple[str, ...] = ()
    """Files that have to be read for it but are gone."""
    absent: bool = False
    """Whether its commit is gone, so that nothing else is known about it."""


def _unreadable(version: int) -> bool:  # noqa: ARG001 - signature of `DeltaHistory.readable`
    return False


@dataclass(frozen=True)
class DeltaHistory:
    """A Delta table's present state, and all its versions after a given one."""

    location: str
    table_id: str
    """Delta's id of the table: another id is another table, even with the same name and version."""
    latest: int
    at: datetime | None
    """When the latest version was committed, in UTC, according to the commit itself; None: not said."""
    digest: str
    """Digest of the columns' names, types and nullability at the latest version."""
    schema: str
    """The schema at the latest version, as Spark's JSON."""
    earliest: int
    """The first version whose commit still exists."""
    read_at: datetime
    """When the log was read, in UTC."""
    after: int | None = None
    """The version after which `versions` starts; None: the beginning."""
    versions: tuple[Version, ...] = ()
    """The versions in `(after, latest]`, or from `earliest` on, without gaps."""
    partition_by: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    """The `delta.…` properties that are set at the latest version."""
    reader: int = 1
    """The Delta protocol version that a reader has to support."""
    features: frozenset[str] = frozenset()
    """Features of reader and writer, if the protocol lists them."""
    readable: Callable[[int], bool] = field(default=_unreadable, compare=False, repr=False)
    """Whether the whole table at a version can still be read, log and files. Asks the store each time."""

    @property
    def feed(self) -> bool:
        return has_feed(self.properties)


def has_feed(properties: Mapping[str, str]) -> bool:
    return is_on(properties, FEED)


def is_on(properties: Mapping[str, str], name: str) -> bool:
    """Whether a table's property is `true`, in upper or lower case, as Delta takes it."""
    return str(properties.get(name)).lower() == "true"
