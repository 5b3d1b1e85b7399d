"""One flow's target in a warehouse: what the steps of a batch have in common."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tidegauge.errors import OutputDisagrees, OutputUnreachable
from tidegauge.model.plan import Batch, Receipt, Tag
from tidegauge.model.spec import TableFlow, WarehouseTable
from tidegauge.model.table import Field, Layout
from tidegauge.outputs.other_batch import other_batch_error
from tidegauge.outputs.warehouse import staging
from tidegauge.outputs.warehouse.commits import Commits
from tidegauge.outputs.warehouse.heads import Head
from tidegauge.outputs.warehouse.kept_sessions import session_of
from tidegauge.outputs.warehouse.mode_target import HISTORY, OURS
from tidegauge.outputs.warehouse.quarantine import WarehouseQuarantine
from tidegauge.outputs.warehouse.target_check import TargetCheck
from tidegauge.outputs.warehouse.warehouse import SessionConflict, Warehouse, WarehouseSession


class FlowTarget:
    def __init__(self, flow: TableFlow, warehouse: Warehouse) -> None:
        assert isinstance(flow.output, WarehouseTable)
        self.pipeline, self.flow = flow.pipeline, flow.name
        self.options = flow.options
        self.warehouse = warehouse
        self.table = flow.output.table
        self.commits = Commits(warehouse, self.table, flow.pipeline, flow.name)
        self.check = TargetCheck(flow, warehouse, self.table, self.commits)
        self.quarantine = WarehouseQuarantine(warehouse, self.table, flow.pipeline, flow.name)
        self.input = flow.input
        self.pending = False
        """Whether the target, when last looked at, still had the rows that the newest epoch's first batch
        removes."""
        self.dropped = ""
        """The staging table that was dropped last, with its helper tables."""
        self._ready = False
        self._written: tuple[tuple[int, int], frozenset[str]] = ((-1, -1), frozenset())
        self._columns: tuple[str, tuple[Field, ...] | None] = ("", None)

    @property
    def place(self) -> str:
        return f"{self.warehouse.place}: {self.table}"

    @property
    def our_columns(self) -> frozenset[str]:
        """Names of the columns that Tidegauge adds to those of the source."""
        return OURS | (frozenset(HISTORY) if self.options.mode.facts.keeps_history else frozenset())

    @contextmanager
    def session(self) -> Iterator[WarehouseSession]:
        try:
            with session_of(self.warehouse) as session:
                yield session
        except SessionConflict as error:
            raise OutputUnreachable(
                f"{self.place} is held by another session: {error.message}",
                hint="run again when it is done; nothing was changed",
            ) from error

    def prepare(self) -> None:
        if not self._ready:
            with self.session() as session:
                self.make_ready(session)

    def make_ready(self, session: WarehouseSession) -> tuple[Head, ...] | None:
        """On the first call make `tidegauge_commits`, clear away what dead attempts left, and return the
        heads of all epochs; None on later calls."""
        if self._ready:
            return None
        heads = self.commits.make(session)
        newest = heads[-1]
        self.pending = newest.is_pending
        self._written = (
            (newest.epoch, newest.last_seq),
            self.commits.parse_written(head.written for head in heads),
        )
        staging.clear_leftovers(self.warehouse, session, self.table.schema)
        session.rollback()
        self._ready = True
        return heads

    def note_columns(self, stage: str, columns: tuple[Field, ...] | None) -> None:
        """Remember the target's columns as they are for the rows of a staging table; None: not known, or the
        target is made anew for them."""
        self._columns = stage, columns

    def recall_columns(self, stage: str) -> tuple[Field, ...] | None:
        """The columns that `note_columns` got for this staging table; None: the target has to be asked."""
        noted, columns = self._columns
        return columns if stage and noted == stage else None

    def known_written(self, tag: Tag) -> frozenset[str] | None:
        """Names of the columns that batches before this one wrote; None: the warehouse has to be asked. What
        was known when the head stood at the batch right before is still true for whoever moves the head from
        there."""
        before, known = self._written
        return known if before == (tag.epoch, tag.seq - 1) else None

    def note_written(self, tag: Tag, columns: frozenset[str]) -> None:
        """Remember, once the batch is committed, the names of all columns written so far."""
        self._written = (tag.epoch, tag.seq), columns

    def named(self, name: str) -> str:
        """A column's name in the form in which names are compared: lower case where case does not count."""
        return name.lower() if self.warehouse.folds_case else name

    def find_vanished(
        self, session: WarehouseSession, layout: Layout, held: Sequence[Field]
    ) -> tuple[Field, ...]:
        """Columns of the target that this flow wrote and that rows of this layout do not have."""
        known = {self.named(field.name) for field in layout.fields} | self.our_columns
        rest = [field for field in held if self.named(field.name) not in known]
        if not rest:
            return ()
        written = {self.named(name) for name in self.commits.find_written(session)}
        return tuple(field for field in rest if self.named(field.name) in written)

    def receipt(self, session: WarehouseSession, tag: Tag, like: Batch | None = None) -> Receipt | None:
        """The receipt of a committed batch; None where it is not there. Raises OutputDisagrees once a later
        epoch is open, and where the batch is another one than `like`.

        The batch and the later epoch are read at one moment. In two statements, the batch would have to be
        read first, for the reason that `outputs.lake.output.LakeOutput` gives.
        """
        if not self.commits.is_there(session):
            return None
        session.rollback()
        found, later = self.commits.find_in_line(session, tag)
        session.rollback()
        if later is not None:
            raise OutputDisagrees(
                f"a later epoch of this table was opened in {self.place}: {later}; batch {tag.seq} of epoch"
                f" {tag.epoch} is no part of it",
                hint="nothing is lost: run again, and the flow goes on from where its watermark was set",
            )
        if found is None:
            return None
        receipt, kind = found
        if like is not None and (receipt.windows, kind) != (like.windows, like.kind):
            raise other_batch_error(self.place, tag)
        return receipt
