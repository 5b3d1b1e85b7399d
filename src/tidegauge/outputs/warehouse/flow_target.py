"""One flow's target in a warehouse: what the steps of a batch have in common."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tidegauge.errors import OutputDisagrees, OutputUnreachable
from tidegauge.model.plan import Receipt, Tag
from tidegauge.model.spec import TableFlow, WarehouseTable
from tidegauge.model.table import Field, Layout
from tidegauge.outputs.warehouse import staging
from tidegauge.outputs.warehouse.commits import Commits
from tidegauge.outputs.warehouse.kept_sessions import session_of
from tidegauge.outputs.warehouse.mode_target import HISTORY, OURS
from tidegauge.outputs.warehouse.quarantine import WarehouseQuarantine
from tidegauge.outputs.warehouse.target_check import TargetCheck
from tidegauge.outputs.warehouse.warehouse import Locked, Warehouse, WarehouseSession


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
        """When it was made ready, what is there was still of an earlier epoch than the newest."""
        self.dropped = ""
        """The staging table that was dropped last, with all that belongs to it."""
        self._ready = False

    @property
    def place(self) -> str:
        return f"{self.warehouse.place}: {self.table}"

    @property
    def our_columns(self) -> frozenset[str]:
        """Columns that the source does not have."""
        return OURS | (frozenset(HISTORY) if self.options.mode.facts.keeps_history else frozenset())

    @contextmanager
    def session(self) -> Iterator[WarehouseSession]:
        try:
            with session_of(self.warehouse) as session:
                yield session
        except Locked as error:
            raise OutputUnreachable(
                f"{self.place} is held by another session: {error.message}",
                hint="run again when it is done; nothing was changed",
            ) from error

    def prepare(self) -> None:
        if not self._ready:
            with self.session() as session:
                self.make_ready(session)

    def make_ready(self, session: WarehouseSession) -> None:
        """Make `tidegauge_commits`, and clear away what dead attempts left; only the first time."""
        if not self._ready:
            self.pending = self.commits.make(session).is_pending
            staging.clear_leftovers(self.warehouse, session, self.table.schema)
            session.rollback()
            self._ready = True

    def named(self, name: str) -> str:
        """A column's name as it is compared: in small letters, where their case does not count."""
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

    def receipt(self, session: WarehouseSession, tag: Tag) -> Receipt | None:
        """Of a committed batch. Raises OutputDisagrees once a later epoch is open.

        The batch's row is read first, and then whether a later epoch was opened, for the reason that
        `outputs.lake.output.ParquetOutput` gives.
        """
        if not self.commits.is_there(session):
            return None
        session.rollback()
        found = self.commits.find(session, tag)
        session.rollback()  # what follows has to see what was committed since
        later = next((head for head in self.commits.heads(session) if head.epoch > tag.epoch), None)
        session.rollback()
        if later is not None:
            raise OutputDisagrees(
                f"a later epoch of this table was opened in {self.place}: {later}; batch {tag.seq} of epoch"
                f" {tag.epoch} is no part of it",
                hint="nothing is lost: run again, and the flow goes on from where its watermark was set",
            )
        return found[0] if found else None
