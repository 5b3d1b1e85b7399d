"""A small Delta table beside a history (scd2), with those of its events that its rows do not show.

It lies below the history's folder, where VACUUM ignores names that begin with an underscore. A row is an
event with its commit, and `_change_type` says what is kept of it:

`upsert`: an event without a row of its own, because it changed nothing or was deleted at once; with its
values.
`delete`: a delete with a sequence value of its own.
`gone`: a delete from a feed, which has no sequence value.
`seen`: only the commit of an event whose values are in the history. Without it nobody could tell whether an
event that comes later, with an equal sequence value or as a feed's delete, was committed before or after.

Events are kept before the history is written: until then they change nothing that anybody sees, and the same
event twice counts once. The table only grows.

No tag protects it: a runner whose epoch has ended in the meantime may still write here. So every row has its
epoch and batch, and counts only if that batch is in the history or may still get there.
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

    from tidegauge.outputs.delta.epochs import EpochState

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
    """The epoch and batch for which events are kept, and which events of earlier epochs count."""

    epoch: int
    seq: int
    before: Mapping[int, int] | None
    """The last batch of every earlier epoch whose rows are in the history; None: not known, and all count."""

    @property
    def counts(self) -> str:
        """A SQL condition for the kept events that count."""
        if self.before is None:
            return "true"
        earlier = [f"{EPOCH} = {epoch} AND {SEQ} <= {last}" for epoch, last in sorted(self.before.items())]
        # Events without an epoch were kept by a version that did not note it yet.
        return " OR ".join([f"{EPOCH} IS NULL", f"{EPOCH} = {self.epoch}", *(f"({one})" for one in earlier)])


def find_events_epoch(now: EpochState, tag: Tag) -> EventsEpoch:
    """Which kept events count for a batch, by the marker file, which has the last batch of earlier epochs."""
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
    """Append these events; new columns and wider types are added to the table."""
    from pyspark.sql import functions as F  # noqa: N812

    noted = {
        EPOCH: F.lit(events_epoch and events_epoch.epoch).cast("bigint"),
        SEQ: F.lit(events_epoch and events_epoch.seq).cast("bigint"),
    }
    with _without_tag(session):
        (
            events.withColumns(noted)
            .coalesce(files)
            .write.format("delta")
            .mode("append")
            .option("mergeSchema", "true")
            # Only the write that creates the table uses these: columns of any name, and types that widen.
            .option("delta.columnMapping.mode", "name")
            .option("delta.enableTypeWidening", "true")
            .save(_path(location))
        )


def _path(location: str) -> str:
    return f"{location.rstrip('/')}/{FOLDER}"


@contextmanager
def _without_tag(session: SparkSession) -> Iterator[None]:
    """Commits inside have no tag. The batch's tag is for the history alone: here it would make Delta skip the
    second attempt."""
    settings = {name: session.conf.get(name, None) for name in (APPLICATION, VERSION, METADATA)}
    for name in settings:
        session.conf.unset(name)
    try:
        yield
    finally:
        for name, value in settings.items():
            if value is not None:
                session.conf.set(name, value)
