"""An output in memory, with the promises of `outputs.lake`: put-if-absent, and epochs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from simulation.source import Frame
from simulation.world import Actor, Fault, World
from tidegauge.errors import OutputDisagrees, OutputUnreachable
from tidegauge.model.batch_data import BatchData
from tidegauge.model.plan import Batch, Receipt, Tag
from tidegauge.model.protocols.output import Capabilities
from tidegauge.model.staged import DataFile, Staged
from tidegauge.model.table import Field, Layout

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Continues = tuple[int, int] | None


@dataclass(frozen=True)
class Manifest:
    receipt: Receipt
    files: tuple[str, ...]


class Watcher(Protocol):
    def published(self, tag: Tag, before: Manifest | None, after: Manifest) -> None: ...

    def opened(self, epoch: int, continues: Continues) -> None: ...


class Lake:
    """The files, manifests and epochs of the table, which all runners share."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.checker: Watcher
        self.files: dict[str, tuple[tuple[int, int], ...]] = {}
        """The rows of each file, as (key, position)."""
        self.manifests: dict[tuple[int, int], Manifest] = {}
        self.openings: dict[int, tuple[Continues, str]] = {}
        self.written = 0

    @property
    def newest(self) -> int:
        return max(self.openings, default=0)

    def put_if_absent(self, tag: Tag, manifest: Manifest) -> bool:
        if (tag.epoch, tag.seq) in self.manifests:
            self.world.tally["second publish, refused"] += 1
            return False
        self.put(tag, manifest)
        return True

    def put(self, tag: Tag, manifest: Manifest) -> None:
        before = self.manifests.get((tag.epoch, tag.seq))
        self.manifests[tag.epoch, tag.seq] = manifest
        self.checker.published(tag, before, manifest)

    def open(self, epoch: int, opening: tuple[Continues, str]) -> bool:
        if epoch in self.openings:
            return False
        self.openings[epoch] = opening
        self.checker.opened(epoch, opening[0])
        return True


class MemoryOutput:
    """Implements Output for one actor."""

    def __init__(self, lake: Lake, actor: Actor) -> None:
        self._lake = lake
        self._actor = actor
        self._world = lake.world

    def prepare(self) -> None:
        pass

    def is_empty(self) -> bool:
        self._ask("is it empty?")
        return not self._lake.manifests

    def is_open(self, epoch: int, *, kept: bool = False) -> bool:
        self._ask(f"is epoch {epoch} open?")
        return epoch == 0 or epoch in self._lake.openings

    def open_epoch(
        self,
        pipeline: str,
        flow: str,
        epoch: int,
        continues: Continues,
        reason: str,
        *,
        empty: bool = False,
    ) -> None:
        lake, what = self._lake, f"open epoch {epoch}"
        fault = self._request(what)
        if epoch not in lake.openings:
            self._check_continued(epoch, continues)
        self._maybe_wait(what)
        for skipped in range(1, epoch):
            lake.open(skipped, (None, f"closed by epoch {epoch}"))
        opening = (continues, reason)
        if fault is Fault.LATE:
            self._world.later.append((what, lambda: self._open_late(epoch, opening)))
            raise _unreachable(what, fault)
        lake.open(epoch, opening)
        if fault is Fault.DOUBLED:
            self._world.later.append((what, lambda: self._open_late(epoch, opening)))
        if lake.openings[epoch] != opening:
            raise OutputDisagrees(f"epoch {epoch} was opened with another meaning", hint="feigned")
        if fault is Fault.LOST:
            raise _unreachable(what, fault)

    def shows_earlier_rows(self, epoch: int) -> bool:
        return False

    def receipt(self, tag: Tag, *, like: Batch | None = None) -> Receipt | None:
        what = f"is {tag.epoch}/{tag.seq} there?"
        self._ask(what)
        found = self._lake.manifests.get((tag.epoch, tag.seq))
        self._maybe_wait(what)
        self._check_epoch_is_newest(tag)
        if found and like and found.receipt.windows != like.windows:
            raise OutputDisagrees(f"{tag.epoch}/{tag.seq} holds another window", hint="feigned")
        return found.receipt if found else None

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities()

    @property
    def place(self) -> str:
        return "memory"

    def lacks(self, continues: tuple[int, int]) -> str | None:
        raise NotImplementedError  # asked only by the command, before it begins an override

    def layout(self) -> tuple[Field, ...] | None:
        return None

    def discard(self, staged: Staged) -> None:
        pass

    def stage(self, batch_data: BatchData, spark: Callable[[], SparkSession]) -> Staged:
        fault = self._actor.turn("write rows")
        if fault is not None:
            # Files may have been written, but no manifest names them.
            raise _unreachable("write rows", fault)
        assert isinstance(batch_data, Frame)
        lake = self._lake
        lake.written += 1
        rows = batch_data.found()
        name = f"file-{lake.written}"
        lake.files[name] = rows
        return Staged(len(rows), (DataFile(name, len(rows), len(rows)),))

    def commit(self, tag: Tag, batch: Batch, staged: Staged, *, layout: Layout, run_id: str) -> Receipt:
        files = staged.files
        lake, what = self._lake, f"publish {tag.epoch}/{tag.seq}"
        fault = self._request(what)
        self._check_epoch_is_newest(tag)
        self._maybe_wait(what)
        rows = sum(file.rows for file in files)
        ours = Manifest(
            Receipt(tag, batch.windows, rows, len(files), rows, run_id), tuple(file.path for file in files)
        )
        if fault is Fault.LATE:
            self._world.later.append((what, lambda: self._publish_late(tag, ours)))
            raise _unreachable(what, fault)
        lake.put_if_absent(tag, ours)
        if fault is Fault.DOUBLED:
            self._world.later.append((what, lambda: self._publish_late(tag, ours)))
        kept = lake.manifests[tag.epoch, tag.seq].receipt
        if kept.windows != ours.receipt.windows:
            raise OutputDisagrees(f"{tag.epoch}/{tag.seq} holds another window", hint="feigned")
        if fault is Fault.LOST:
            raise _unreachable(what, fault)
        return kept

    def _request(self, what: str) -> Fault | None:
        fault = self._actor.turn(what)
        if fault is Fault.REFUSED:
            raise _unreachable(what, fault)
        return fault

    def _ask(self, what: str) -> None:
        fault = self._actor.turn(what)
        if fault is not None:
            raise _unreachable(what, fault)

    def _maybe_wait(self, what: str) -> None:
        if self._world.chance(self._world.middle):
            self._actor.turn(f"{what}: half done", asking=False)

    def _check_epoch_is_newest(self, tag: Tag) -> None:
        if tag.epoch + 1 in self._lake.openings:
            self._world.tally["writer of an older epoch, refused"] += 1
            raise OutputDisagrees(
                f"a later epoch of this table was opened; {tag.epoch}/{tag.seq} is no part of it",
                hint="feigned",
            )

    def _check_continued(self, epoch: int, continues: Continues) -> None:
        if continues is None:
            return
        before, upto = continues
        if before and before not in self._lake.openings:
            raise OutputDisagrees(f"epoch {epoch} cannot be opened: epoch {before} is not", hint="feigned")
        for seq in range(1, upto + 1):
            if (before, seq) not in self._lake.manifests:
                raise OutputDisagrees(
                    f"epoch {epoch} cannot be opened: {before}/{seq} is not there", hint="feigned"
                )

    def _open_late(self, epoch: int, opening: tuple[Continues, str]) -> None:
        if not self._lake.open(epoch, opening):
            self._world.changed("refused: it is there")

    def _publish_late(self, tag: Tag, manifest: Manifest) -> None:
        if not self._lake.put_if_absent(tag, manifest):
            self._world.changed("refused: it is there")


def _unreachable(what: str, fault: Fault) -> OutputUnreachable:
    return OutputUnreachable(f"{what}: {fault}", hint="feigned")
