"""Where a target is: its location, its log and its epochs, as soon as the location is known."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from tidegauge.delta_log.application import application
from tidegauge.delta_log.batch_commit import batch_info, refuse_catalogue_commits, removals
from tidegauge.delta_log.snapshot import Log, Snapshot
from tidegauge.errors import OutputUnreachable, SourceError
from tidegauge.model.delta_flow import DeltaFlow
from tidegauge.model.location import resolve
from tidegauge.model.plan import Tag
from tidegauge.model.spec import Lake
from tidegauge.outputs.delta.epochs import DeltaEpochs
from tidegauge.outputs.delta.kept_events import FOLDER
from tidegauge.storage.access import find_barrier
from tidegauge.storage.probe import check_store
from tidegauge.storage.s3_settings import settings_of
from tidegauge.storage.store import open_store


@dataclass(frozen=True)
class OpenDeltaTable:
    where: str
    """The table's location, as Spark writes it."""
    lake: Lake
    log: Log
    epochs: DeltaEpochs

    def check(self) -> None:
        """Raises OutputUnreachable where the folder or bucket cannot be used, OutputDisagrees where commits
        go through a catalogue."""
        look = self.log.look()
        if look is not None:
            refuse_catalogue_commits(look)
        if self.lake.on_s3:
            return
        barrier = find_barrier(Path(self.lake.path), folder=True)
        if barrier is not None:
            why, hint = barrier
            raise OutputUnreachable(f"{self.lake.path} cannot be written: {why}", hint=hint)

    def put(self, look: Snapshot, tag: Tag, said: str) -> bool:
        """Commit a batch that changes nothing, without Spark. False: somebody else committed first, or the
        table is on S3, where it is left to Spark: its driver may not see what others put there.
        """
        if self.lake.on_s3:
            return False
        now = int(time.time() * 1000)
        txn = {"txn": {"appId": application(tag), "version": tag.seq, "lastUpdated": now}}
        return self.log.put(look.version + 1, [batch_info(look, now, said, "TIDEGAUGE BATCH"), txn])

    def forget_events(self, epoch: int) -> None:
        """Remove the events that are kept beside an scd2 table, unless the log has this epoch already."""
        now = self.epochs.standing()
        if now.epoch == epoch and now.logged is not None:
            return
        log = Log(open_store(replace(self.lake, path=f"{self.lake.path}/{FOLDER}")))
        while (look := log.look()) is not None and not look.is_empty():
            at = int(time.time() * 1000)
            if log.put(look.version + 1, [batch_info(look, at, "", "TIDEGAUGE EPOCH"), *removals(look, at)]):
                return

    def check_store(self) -> None:
        """Test that the S3 store keeps put-if-absent and replace safe. Raises OutputUnsafe where it does
        not."""
        if self.lake.on_s3:
            check_store(self.log.store, settings_of(self.lake), replacing=True)


class TargetPlace:
    def __init__(self, flow: DeltaFlow, locate: Callable[[], str | None]) -> None:
        self._flow = flow
        self._locate = locate
        self._known: OpenDeltaTable | None = None

    @property
    def by_name(self) -> bool:
        """Whether the table is named in Spark's catalogue; then its location is not known before it is
        created."""
        return self._flow.output.table.path is None

    def open(self) -> OpenDeltaTable | None:
        """The table's place; None while the catalogue does not have the table."""
        try:
            where = self._locate()
        except SourceError as error:
            raise OutputUnreachable(error.message, hint=error.hint, detail=error.detail) from error
        if where is None:
            return None
        if self._known is None or self._known.where != where:
            lake = _lake(self._flow.output.table.at(where))
            log = Log(open_store(lake))
            self._known = OpenDeltaTable(
                where, lake, log, DeltaEpochs(log, self._flow.pipeline, self._flow.name)
            )
        return self._known

    def opened(self) -> OpenDeltaTable:
        """The table's place. Raises OutputUnreachable where the catalogue does not have the table."""
        found = self.open()
        if found is None:
            raise OutputUnreachable(
                f"there is no table {self._flow.output.table} in Spark's catalogue any more",
                hint="somebody dropped it while the batch was written: run again",
            )
        return found


def _lake(lake: Lake) -> Lake:
    """The table's lake with its path in our form: Spark's catalogue writes locations in more ways."""
    try:
        path = resolve(lake.path)
    except ValueError as error:
        raise OutputUnreachable(
            f"the table at {lake.path} cannot be written: {error}",
            hint="give it a location there, or another table",
            retryable=False,
        ) from None
    return replace(lake, path=path.rstrip("/"))
