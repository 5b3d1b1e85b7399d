"""The tags of a warehouse: one row for each committed batch, and one for each epoch of a table.

`tidegauge_commits` is in the target's schema. An epoch's own row, its *head*, has `seq` 0 and counts its
batches in `last_seq`. Whoever commits batch n first moves that count from n-1 to n, in the transaction that
also writes the rows and the batch's row. That is one UPDATE: on every engine a second session waits for it or
fails, and no key has to be enforced for it. The count moves only while the epoch is not `closed`, and a later
epoch closes all earlier heads in the transaction that makes its own; so of a late writer and a new epoch one
comes first, and the other sees it.

A head also keeps the names of the columns that its batches wrote. Without them, a column that the rows no
longer have could be either the source's or one that somebody added to the target by hand.

The head of a full refresh is of another kind: its first batch removes the rows of earlier epochs, in the
transaction that writes its own, so that readers see the old rows until then.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from time import sleep
from typing import Any

from tidegauge.errors import OutputDisagrees, OutputError, OutputUnreachable
from tidegauge.model.expectation import Checks
from tidegauge.model.plan import Receipt, Tag, window_from_dict, window_to_dict
from tidegauge.outputs.warehouse.commits_table import CHECKS, SHAPE, WRITTEN, CommitsTable
from tidegauge.outputs.warehouse.heads import HEAD, HEAD_COLUMNS, REFRESH, Head, head_of
from tidegauge.outputs.warehouse.warehouse import WarehouseSession, WriteConflict

_TRIES = 8
_ROOM = 60_000
"""Bytes that a text column of every engine holds; a longer list of column names is not kept."""


class Commits(CommitsTable):
    """The rows of one flow. Every method works inside the session's transaction unless it says otherwise."""

    def make(self, session: WarehouseSession) -> tuple[Head, ...]:
        """Make the table, and the head of epoch 0 unless an epoch began already. Returns all heads, in order.

        Commits. Others may do the same at the same moment."""
        attempt = 0
        while True:
            attempt += 1
            try:
                self.make_table(session)
                heads = self._find_heads(session, owned=True)
                session.rollback()
                if not heads and not self._warehouse.keys_enforced:
                    self._warehouse.lock(session, self.table)
                    heads = self.heads(session)
                if not heads:
                    # Only one session succeeds: the one that has the lock, or else the first, by the key.
                    heads = (Head(0, 0, closed=False, continues=None, reason=""),)
                    self._insert_head(session, heads[0])
                    session.commit()
                else:
                    session.rollback()
                return heads
            except OutputError as error:
                # On some engines two sessions cannot make one table, or one row, at the same time: the slower
                # one gets an error at once, and finds it made when it tries again.
                session.rollback()
                final = isinstance(error, OutputDisagrees | OutputUnreachable) and not isinstance(
                    error, WriteConflict
                )
                if final or attempt == _TRIES:
                    raise
                sleep(random.uniform(0, 0.1 * attempt))  # noqa: S311 - only spreads them

    def heads(self, session: WarehouseSession) -> tuple[Head, ...]:
        """The heads of all epochs of the flow, in order."""
        return self._find_heads(session)

    def _find_heads(self, session: WarehouseSession, *, owned: bool = False) -> tuple[Head, ...]:
        """`owned`: raise OutputDisagrees where the target belongs to another flow."""
        kept = (WRITTEN,) if WRITTEN in self._kept_columns else ()
        columns = self._names(*HEAD_COLUMNS, "flow_key", "pipeline", "flow", *kept)
        mine, values = self._eq("flow_key"), [0, self._key]
        if owned:
            mine, values = f"({mine} OR {self._eq('target')})", [*values, self._target]
        found = session.rows(
            f"SELECT {columns} FROM {self._name} WHERE {self._eq('seq')} AND {mine}"
            f" ORDER BY {self._names('epoch')}",
            values,
        )
        size = len(HEAD_COLUMNS)
        for key, pipeline, flow in (row[size : size + 3] for row in found):
            if key != self._key:
                raise self._make_owner_error(pipeline, flow)
        return tuple(head_of(row[:size], *row[size + 3 :]) for row in found)

    def advance(self, session: WarehouseSession, tag: Tag, written: str | None = None) -> bool:
        """Move the head from the batch before to this one; False where the head is elsewhere or closed.

        `written`: the column names that the head keeps from now on (`show_written`); None: those that it has.
        """
        more, values = ("", ()) if written is None else (f", {self._eq(WRITTEN)}", (written,))
        hit = session.run(
            f"UPDATE {self._name} SET {self._eq('last_seq')}{more} WHERE {self._eq('flow_key')} AND"
            f" {self._eq('epoch')} AND {self._eq('seq')} AND {self._eq('closed')} AND {self._eq('last_seq')}",
            (tag.seq, *values, self._key, tag.epoch, 0, 0, tag.seq - 1),
        )
        if hit > 1:
            raise OutputDisagrees(
                f"{self.table} has {hit} heads for epoch {tag.epoch} of the flow {tag.flow}",
                hint="rows were copied into it by hand: remove all but one; nothing was changed",
            )
        return hit == 1

    def find_written(self, session: WarehouseSession) -> frozenset[str]:
        """Names of the columns that this flow's batches wrote in any epoch, as far as heads keep them."""
        found = session.rows(
            f"SELECT {self._names(WRITTEN)} FROM {self._name}"
            f" WHERE {self._eq('flow_key')} AND {self._eq('seq')}",
            (self._key, 0),
        )
        return self.parse_written(text for (text,) in found)

    def parse_written(self, texts: Iterable[str | None]) -> frozenset[str]:
        try:
            return frozenset(str(name) for text in texts if text for name in json.loads(text))
        except (ValueError, TypeError) as error:
            raise OutputDisagrees(
                f"a row of the flow {self._flow} in {self.table} is not ours: {error}",
                hint="put it back from a backup; nothing was changed",
            ) from error

    def add_written(self, session: WarehouseSession, epoch: int, columns: Iterable[str]) -> None:
        """Keep the names of columns, in the transaction of the batch that writes them."""
        text = show_written(self.find_written(session), columns)
        if text is None:
            return
        session.run(
            f"UPDATE {self._name} SET {self._eq(WRITTEN)}"
            f" WHERE {self._eq('flow_key')} AND {self._eq('epoch')} AND {self._eq('seq')}",
            (text, self._key, epoch, 0),
        )

    def record(self, session: WarehouseSession, receipt: Receipt, kind: str, shape: str) -> None:
        """Insert the row of a committed batch. `shape`: how the target is laid out (`columns.shape_of`)."""
        windows = json.dumps([window_to_dict(one) for one in receipt.windows], ensure_ascii=False)
        self._insert(
            session,
            epoch=receipt.tag.epoch,
            seq=receipt.tag.seq,
            kind=kind,
            windows=windows,
            rows=receipt.rows,
            inserted=receipt.inserted,
            updated=receipt.updated,
            deleted=receipt.deleted,
            run_id=receipt.run_id,
            shape=shape,
            checks=None
            if receipt.checks is None
            else json.dumps(receipt.checks.to_json(), ensure_ascii=False),
        )

    def shape(self, session: WarehouseSession, heads: Sequence[Head]) -> str | None:
        """How the target is laid out, as the newest batch kept it; or as `note_shape` did, for an epoch that
        has no batch yet. None: not known. Call `is_there` first."""
        places = [(head.epoch, 0) for head in heads[-1:] if head.is_pending]
        places += [(head.epoch, head.last_seq) for head in heads[::-1] if head.last_seq][:1]
        for epoch, seq in places if SHAPE in self._kept_columns else ():
            found = session.rows(
                f"SELECT {self._names(SHAPE)} FROM {self._name} WHERE {self._eq('flow_key')}"
                f" AND {self._eq('epoch')} AND {self._eq('seq')}",
                (self._key, epoch, seq),
            )
            if found and found[0][0] is not None:
                return str(found[0][0])
        return None

    def note_shape(self, session: WarehouseSession, shape: str) -> None:
        """Keep the shape of a target that was just made, for the epoch that is to fill it."""
        session.run(
            f"UPDATE {self._name} SET {self._eq(SHAPE)} WHERE {self._eq('flow_key')} AND {self._eq('seq')}"
            f" AND {self._eq('last_seq')} AND {self._eq('closed')}",
            (shape, self._key, 0, 0, 0),
        )

    def count_kept(self, session: WarehouseSession, epochs: Sequence[int]) -> int:
        """How many rows the batches of these epochs left in the target, at least: inserted less deleted."""
        listed = ", ".join(map(str, epochs))
        ((rows,),) = session.rows(
            f"SELECT SUM(COALESCE({self._names('inserted')}, 0) - COALESCE({self._names('deleted')}, 0))"
            f" FROM {self._name} WHERE {self._eq('flow_key')} AND {self._names('seq')} > 0"
            f" AND {self._names('epoch')} IN ({listed})",
            (self._key,),
        )
        return int(rows or 0)

    def find(self, session: WarehouseSession, tag: Tag) -> tuple[Receipt, str] | None:
        """The receipt of a committed batch and the batch's kind; None where it is not there."""
        columns = self._names(*self._batch_columns)
        found = session.rows(
            f"SELECT {columns} FROM {self._name} WHERE {self._eq('flow_key')} AND {self._eq('epoch')} AND"
            f" {self._eq('seq')}",
            (self._key, tag.epoch, tag.seq),
        )
        return self._batch_of(tag, found[0]) if found else None

    def find_in_line(
        self, session: WarehouseSession, tag: Tag
    ) -> tuple[tuple[Receipt, str] | None, Head | None]:
        """The committed batch with its kind, and the first head of a later epoch, both of the same moment,
        because one statement reads them. None for what is not there."""
        # Each column once: heads and batches share some, and not every driver gives two of one name.
        columns = [*dict.fromkeys(("seq", *HEAD_COLUMNS, *self._batch_columns))]
        found = session.rows(
            f"SELECT {self._names(*columns)} FROM {self._name} WHERE {self._eq('flow_key')} AND"
            f" (({self._eq('epoch')} AND {self._eq('seq')}) OR"
            f" ({self._eq('seq')} AND {self._names('epoch')} > {self._warehouse.placeholder}))"
            f" ORDER BY {self._names('epoch')}",
            (self._key, tag.epoch, tag.seq, 0, tag.epoch),
        )
        rows = [dict(zip(columns, row, strict=True)) for row in found]
        mine = next((row for row in rows if int(row["seq"]) and int(row["epoch"]) == tag.epoch), None)
        later = next((row for row in rows if int(row["epoch"]) > tag.epoch), None)
        return (
            None if mine is None else self._batch_of(tag, [mine[name] for name in self._batch_columns]),
            None if later is None else head_of([later[name] for name in HEAD_COLUMNS]),
        )

    @property
    def _batch_columns(self) -> tuple[str, ...]:
        kept = (CHECKS,) if CHECKS in self._kept_columns else ()
        return ("windows", "rows", "inserted", "updated", "deleted", "run_id", "kind", *kept)

    def _batch_of(self, tag: Tag, row: Sequence[Any]) -> tuple[Receipt, str]:
        windows, rows, inserted, updated, deleted, run_id, kind, *said = row
        try:
            parsed = tuple(window_from_dict(one) for one in json.loads(windows))
            checks = Checks.from_json(json.loads(said[0])) if said and said[0] else None
        except (ValueError, KeyError, TypeError) as error:
            raise OutputDisagrees(
                f"the row of batch {tag.seq}, epoch {tag.epoch}, of the flow {tag.flow} in {self.table} is"
                f" not ours: {error}",
                hint="put it back from a backup; nothing was changed",
            ) from error
        receipt = Receipt(
            tag,
            parsed,
            int(rows),
            0,
            0,
            run_id,
            inserted=inserted,
            updated=updated,
            deleted=deleted,
            read=checks.checked if checks else None,
            checks=checks,
        )
        return receipt, kind

    def windows(self, session: WarehouseSession, epoch: int) -> dict[int, str]:
        """The windows of every batch of an epoch, as JSON, by the batch's number."""
        found = session.rows(
            f"SELECT {self._names('seq', 'windows')} FROM {self._name} WHERE {self._eq('flow_key')} AND"
            f" {self._eq('epoch')} AND {self._names('seq')} > 0 ORDER BY {self._names('seq')}",
            (self._key, epoch),
        )
        return {int(seq): windows for seq, windows in found}

    def any_batch(self, session: WarehouseSession) -> bool:
        return bool(
            session.rows(
                f"SELECT 1 FROM {self._name} WHERE {self._eq('flow_key')}"
                f" AND {self._names('seq')} > 0 LIMIT 1",
                (self._key,),
            )
        )

    def find_gap(self, session: WarehouseSession, continues: tuple[int, int]) -> str | None:
        """What is missing of an epoch up to a batch (epoch, last batch), in words; None where nothing is."""
        epoch, upto = continues
        head = next((head for head in self.heads(session) if head.epoch == epoch), None)
        if head is None:
            return f"epoch {epoch}" if epoch or upto else None
        found = session.rows(
            f"SELECT {self._names('seq')} FROM {self._name} WHERE {self._eq('flow_key')}"
            f" AND {self._eq('epoch')} AND {self._names('seq')} BETWEEN 1 AND {self._warehouse.placeholder}",
            (self._key, epoch, upto),
        )
        there = {int(seq) for (seq,) in found}
        return next((f"batch {seq} of epoch {epoch}" for seq in range(1, upto + 1) if seq not in there), None)

    def open(self, session: WarehouseSession, head: Head) -> bool:
        """Close all earlier epochs and begin this one; False where it was begun before with the same meaning.

        Raises OutputDisagrees where it was begun with another meaning, a later epoch is there, or a batch
        that it continues is missing.
        """
        self._warehouse.lock(session, self.table)
        # First of all, so that a writer of an earlier epoch has either committed or waits for us.
        session.run(
            f"UPDATE {self._name} SET {self._eq('closed')} WHERE {self._eq('flow_key')} AND {self._eq('seq')}"
            f" AND {self._names('epoch')} < {self._warehouse.placeholder}",
            (1, self._key, 0, head.epoch),
        )
        heads = self.heads(session)
        theirs = next((one for one in heads if one.epoch == head.epoch), None)
        if theirs is not None:
            if (theirs.continues, theirs.reason) == (head.continues, head.reason):
                return False
            raise OutputDisagrees(
                f"{self.table} holds {theirs}, and the ledger wants {head}",
                hint="another ledger writes here, or this one is an older copy; nothing was changed",
            )
        if heads and heads[-1].epoch > head.epoch:
            raise OutputDisagrees(
                f"{self.table} holds {heads[-1]} already, which is later than {head}",
                hint="this ledger is an older copy; nothing was changed",
            )
        gap = self.find_gap(session, head.continues) if head.continues else None
        if gap:
            raise OutputDisagrees(
                f"{head} cannot be opened: {gap} is not in {self.table}",
                hint="bring the rows back, or reset the watermark, which continues nothing",
            )
        if heads and heads[-1].is_pending:
            # The rows that a full refresh was going to remove are removed by the first batch of this epoch.
            head = replace(head, empties=True)
        self._insert_head(session, head)
        return True

    def _insert_head(self, session: WarehouseSession, head: Head) -> None:
        of, upto = head.continues or (None, None)
        self._insert(
            session,
            epoch=head.epoch,
            seq=0,
            kind=REFRESH if head.empties else HEAD,
            last_seq=head.last_seq,
            closed=int(head.closed),
            continues_epoch=of,
            continues_upto=upto,
            reason=head.reason,
        )


def show_written(known: frozenset[str], columns: Iterable[str]) -> str | None:
    """The JSON that a head keeps once these columns are written too; None: it keeps what it has."""
    names = known.union(columns)
    text = json.dumps(sorted(names))
    return None if names == known or len(text) > _ROOM else text
