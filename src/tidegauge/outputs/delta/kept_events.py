"""What a history's own rows do not show of its events, in a small Delta table beside them.

It lies below the history's folder, where VACUUM leaves alone what begins with an underscore. A row is an
event with its commit, and `_change_type` says what of it is kept:

`upsert`: an event without a row of its own, because it changed nothing or was deleted at once; with its
values.
`delete`: a delete with a sequence value of its own.
`gone`: a delete from a feed, which has none.
`seen`: only the commit of an event whose values stand in the history. Without it nobody could tell whether an
event that comes later, with an equal sequence value or as a feed's delete, was committed before or after.

Written before the history, and never instead of it: alone it changes nothing that anybody sees, and the same
event twice is one event. Only ever appended to.

No tag of Delta's guards it: a runner whose epoch was closed over its head may still write here. So every row
says of which epoch and batch it is, and counts where that batch came, or still may come, into the history.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tidegauge.model.plan import Tag
from tidegauge.outputs.delta.commit import APPLICATION, METADATA, VERSION

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegauge.outputs.delta.epochs import EpochStanding

FOLDER = "_tidegauge_events"
EPOCH, SEQ = "_tidegauge_epoch", "_tidegauge_seq"

_NONE_THERE = {
    "PATH_NOT_FOUND",
    "DELTA_TABLE_NOT_FOUND",
    "DELTA_PATH_DOES_NOT_EXIST",
    "DELTA_MISSING_DELTA_TABLE",
    # Delta looks for a log upwards, finds that of the history, and takes our folder for a partition of it.
    "DELTA_INVALID_PARTITION_PATH",
}


@dataclass(frozen=True)
class EventsEpoch:
    """Which batch of which epoch of the history events are kept by, and whose else count there."""

    epoch: int
    seq: int
    before: Mapping[int, int] | None
    """The last batch of every earlier epoch whose rows the history has; None: not known, and all count."""

    @property
    def counts(self) -> str:
        """The condition that kept events of such batches meet."""
        if self.before is None:
            return "true"
        earlier = [f"{EPOCH} = {epoch} AND {SEQ} <= {last}" for epoch, last in sorted(self.before.items())]
        # One without an epoch was kept before it was noted.
        return " OR ".join([f"{EPOCH} IS NULL", f"{EPOCH} = {self.epoch}", *(f"({one})" for one in earlier)])


def find_events_epoch(now: EpochStanding, tag: Tag) -> EventsEpoch:
    """Which kept events count for a batch, by the file that says how far earlier epochs came."""
    opening = now.marker
    if tag.epoch == 0:
        return EventsEpoch(tag.epoch, tag.seq, {})
    if opening is None or opening.epoch != tag.epoch:
        return EventsEpoch(tag.epoch, tag.seq, None)
    before = {one: last for one, last in opening.closed.items() if one >= opening.emptied}
    return EventsEpoch(tag.epoch, tag.seq, before)


def read_kept(session: SparkSession, location: str, events_epoch: EventsEpoch | None) -> DataFrame | None:
    """The kept events of the history at this location; None where none were ever kept."""
    from pyspark.errors import AnalysisException

    path = _path(location)
    if path.startswith("/") and not Path(path, "_delta_log").is_dir():
        return None
    try:
        found = session.read.format("delta").load(path)
    except AnalysisException as error:
        if error.getCondition() in _NONE_THERE:
            return None
        raise
    return found if events_epoch is None or EPOCH not in found.columns else found.where(events_epoch.counts)


def keep(
    session: SparkSession, location: str, events: DataFrame, events_epoch: EventsEpoch | None, *, files: int
) -> None:
    """Add these; columns that the table does not know yet, and wider types, are taken in."""
    from pyspark.sql import functions as F  # noqa: N812

    noted = {
        EPOCH: F.lit(events_epoch and events_epoch.epoch).cast("bigint"),
        SEQ: F.lit(events_epoch and events_epoch.seq).cast("bigint"),
    }
    with _untagged(session):
        (
            events.withColumns(noted)
            .coalesce(files)
            .write.format("delta")
            .mode("append")
            .option("mergeSchema", "true")
            # Only a table's first write looks at these: any name may be a column's, and types may grow.
            .option("delta.columnMapping.mode", "name")
            .option("delta.enableTypeWidening", "true")
            .save(_path(location))
        )


def _path(location: str) -> str:
    return f"{location.rstrip('/')}/{FOLDER}"


@contextmanager
def _untagged(session: SparkSession) -> Iterator[None]:
    """The batch's tag belongs to the history alone: here it would make Delta pass over the second attempt."""
    settings = {name: session.conf.get(name, None) for name in (APPLICATION, VERSION, METADATA)}
    for name in settings:
        session.conf.unset(name)
    try:
        yield
    finally:
        for name, value in settings.items():
            if value is not None:
                session.conf.set(name, value)
