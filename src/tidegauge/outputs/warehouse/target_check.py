"""Check the target against what was committed to it: it may be gone, emptied, or of another mode.

A full refresh leaves the rows of the epoch before where they are. Its first batch removes them in the same
transaction that writes its own, or makes the whole table anew, where the new rows do not fit into it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from tidegauge.errors import OutputDisagrees, OutputError, OutputUnreachable
from tidegauge.model.spec import TableFlow, TableName
from tidegauge.model.table import Field, Layout
from tidegauge.outputs.warehouse import columns
from tidegauge.outputs.warehouse.commits import Commits
from tidegauge.outputs.warehouse.heads import Head, find_followed
from tidegauge.outputs.warehouse.warehouse import Warehouse, WarehouseSession


class TargetCheck:
    """One flow's target. Every method but `make` and `make_alone` only looks."""

    def __init__(self, flow: TableFlow, warehouse: Warehouse, table: TableName, commits: Commits) -> None:
        self._warehouse, self._table, self._commits, self._options = warehouse, table, commits, flow.options
        self._flow, self._by_lake = flow.name, flow.reads is not None

    @property
    def _place(self) -> str:
        return f"{self._warehouse.place}: {self._table}"

    def check(self, session: WarehouseSession, heads: Sequence[Head], epoch: int) -> None:
        """Raises OutputDisagrees where the target lacks what an epoch committed to it, or is of another mode.

        Read `heads` before this call: whoever committed the first batch had made the table by then.
        """
        epochs = find_followed(heads, epoch)
        session.rollback()
        if not epochs:
            return
        filled = self._probe(session)
        if filled is None:
            raise self._refusal("is gone, and what was committed to it with it")
        shape = self._commits.shape(session, heads)
        before = None if shape is None else columns.mode_of(shape)
        now = self._options.mode
        if before is not None and not columns.go_together(before, now):
            said = f"was filled in mode {before}, and cannot be continued in mode {now}"
            raise self._refusal(said, in_part=False)
        # Somebody else may consume appended rows and delete them, so an empty table is no fault there.
        if not now.facts.only_adds and not filled:
            kept = self._commits.count_kept(session, epochs)
            if kept > 0:
                raise self._refusal(f"is empty, and {kept:,} rows should be there by what was committed")

    def check_new(self, session: WarehouseSession, heads: Sequence[Head] | None = None) -> None:
        """To be called before the table is made: raises OutputDisagrees where the newest epoch has already
        committed to it. `heads`: if they were just read."""
        if heads is None:
            heads = self._heads(session)
            session.rollback()
        if (
            heads
            and find_followed(heads, heads[-1].epoch)
            and self._warehouse.columns(session, self._table) is None
        ):
            raise self._refusal("is gone, and what was committed to it with it")

    def _probe(self, session: WarehouseSession) -> bool | None:
        """Whether the table has rows; None where there is no table. Asks the catalogue only after an error,
        because that is slow where there are many tables."""
        try:
            return self.is_filled(session)
        except OutputUnreachable:
            raise
        except OutputError:
            session.rollback()
            if self._warehouse.columns(session, self._table) is not None:
                raise
            return None

    def _heads(self, session: WarehouseSession) -> tuple[Head, ...]:
        return self._commits.heads(session) if self._commits.is_there(session) else ()

    def is_filled(self, session: WarehouseSession) -> bool:
        return bool(session.rows(f"SELECT 1 FROM {self._warehouse.table(self._table)} LIMIT 1"))

    def pending(self, session: WarehouseSession, epoch: int | None = None) -> Head | None:
        """The head of the epoch (the newest, if none is named) if its first batch has still to remove the
        rows that are there; else None."""
        found = [head for head in self._heads(session) if epoch is None or head.epoch == epoch]
        return found[-1] if found and found[-1].is_pending and not found[-1].closed else None

    def is_outgrown(self, session: WarehouseSession, layout: Layout) -> bool:
        """Whether the table exists and has to be made anew for rows of this layout."""
        held = self._warehouse.columns(session, self._table)
        return held is not None and not self._fits(session, held, layout)

    def is_of_another_mode(self, session: WarehouseSession) -> bool:
        shape = self._commits.shape(session, self._heads(session))
        before = None if shape is None else columns.mode_of(shape)
        return before is not None and not columns.go_together(before, self._options.mode)

    def make(self, session: WarehouseSession, layout: Layout, *, outgrown: bool) -> None:
        """Remove the rows that are there, inside the transaction of the first batch; make the table anew, if
        it `is_outgrown`. Where DDL commits, `make_alone` has done that before."""
        if self._warehouse.columns(session, self._table) is None:
            return
        if outgrown:
            session.run(f"DROP TABLE {self._warehouse.table(self._table)}")
            session.run(columns.create(self._warehouse, self._table, layout, self._options))
        else:
            session.run(self._warehouse.delete(self._table, "1 = 1"))

    def make_alone(self, session: WarehouseSession, layout: Layout, epoch: int) -> None:
        """Make an outgrown table anew where DDL commits: under a lock that lasts until the session closes.

        Every first batch after a full refresh, in whichever epoch, waits for the lock and only then looks, so
        that nobody drops a table into which another runner has just committed.
        """
        name = hashlib.sha256(f"{self._place}\0{self._flow}".encode()).hexdigest()
        session.rollback()
        alone = self._warehouse.hold(session, name)
        session.rollback()
        if self.pending(session, epoch) is not None and self.is_outgrown(session, layout):
            if not alone:
                raise OutputDisagrees(
                    f"{self._flow}: {self._place} cannot be made anew together with its first rows there",
                    hint="drop the table, then run again: it is made anew, and filled from the beginning",
                )
            session.run(f"DROP TABLE {self._warehouse.table(self._table)}")
            session.run(columns.create(self._warehouse, self._table, layout, self._options))
        session.rollback()

    def _fits(self, session: WarehouseSession, held: tuple[Field, ...], layout: Layout) -> bool:
        shape = self._commits.shape(session, self._heads(session))
        return columns.fits(self._warehouse, held, layout, self._options, shape)

    def _refusal(self, what: str, *, in_part: bool = True) -> OutputDisagrees:
        """The error for a target that is not right. `in_part`: the hint may offer a backfill too."""
        hint = f"to fill it again from the beginning use `tidegauge run --select {self._flow} --full-refresh`"
        if in_part and not self._by_lake:
            hint += f"; for a part of it alone, `tidegauge backfill -t {self._flow} --from …`"
        return OutputDisagrees(f"{self._flow}: {self._place} {what}", hint=hint)
