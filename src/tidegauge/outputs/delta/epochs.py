"""The epochs of a Delta table: each change of its watermark by hand opens the next one.

An epoch is an application of Delta's own transactions, `tidegauge/<pipeline>/<flow>/<epoch>`, and a batch is
its version. One commit opens the next epoch: it sets the application of every older epoch to the highest
version there is, so that Delta skips, or refuses as a conflict, whatever writers of old epochs commit later.
It is put into the log without Spark, only if nobody else has put that version.

Before this commit, the same is written to the flow's marker, a file in the table's `_tidegauge` folder. That
is for a table that does not exist yet, and so has no log: a writer creates the table before it looks for the
marker, and whoever opens an epoch puts the marker before looking for the table, so that one of them always
sees the other. The commit is put only on top of the version that the marker describes: if a batch of the old
epoch is committed in between, the marker is written again with that batch. A table of the catalogue that does
not exist yet has no folder either; its epoch is opened by its first batch, which is refused when an older
epoch came first.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from tidegauge.delta_log.application import CLOSED, application, epoch_of, prefix_of
from tidegauge.delta_log.batch_commit import batch_info, removals
from tidegauge.delta_log.commit import Action
from tidegauge.delta_log.snapshot import Log, Snapshot
from tidegauge.errors import OutputDisagrees, OutputUnreachable
from tidegauge.model.override import show_continued
from tidegauge.model.plan import Tag
from tidegauge.storage.folder import folder_name

EPOCH_KIND = "epoch"
_TRIES = 50


@dataclass(frozen=True)
class DeltaEpochOpening:
    """How an epoch was opened, as its marker and its commit say."""

    pipeline: str
    flow: str
    epoch: int
    continues: tuple[int, int] | None
    """The epoch and the last batch of it that this epoch goes on from; None: from none."""
    reason: str
    empty: bool = False
    """Whether the epoch begins with an empty table."""
    emptied: int = 0
    """The newest epoch, up to this one, that began with an empty table."""
    closed: dict[int, int] = field(default_factory=dict)
    """The last batch of each earlier epoch."""

    def __str__(self) -> str:
        return f"epoch {self.epoch}, continuing {show_continued(self.continues)} ({self.reason})"


@dataclass(frozen=True)
class EpochState:
    """What log and marker say about the epochs of a flow at one moment."""

    look: Snapshot | None
    """None while there is no table."""
    epoch: int
    """The epoch that is open."""
    last: tuple[int, int] | None
    """The newest epoch that the log has, and its last batch; None: the log has no commit of this flow."""
    marker: DeltaEpochOpening | None
    token: str | None
    """The store's token for the marker, with which it can be replaced."""

    @property
    def ours(self) -> bool:
        """Whether the log has a commit of this flow, of any epoch."""
        return self.last is not None

    @property
    def logged(self) -> int | None:
        """The last batch that the log has of the open epoch; None: the log does not have this epoch."""
        return self.last[1] if self.last and self.last[0] == self.epoch else None


class DeltaEpochs:
    def __init__(self, log: Log, pipeline: str, flow: str) -> None:
        self._log = log
        self._pipeline, self._flow = pipeline, flow
        self._prefix = prefix_of(pipeline, flow)
        self._path = f"_tidegauge/{folder_name(f'{pipeline}/{flow}')}.json"

    def standing(self) -> EpochState:
        # The marker is read before the log, so that whoever replaces it has looked at the log since.
        found = self._log.store.read(self._path)
        marker, token = (self._parse_marker(found[0]), found[1]) if found else (None, None)
        look = self._log.look()
        batches = look.transactions(self._prefix) if look else {}
        last = max(((epoch_of(name), batch) for name, batch in batches.items()), default=None)
        epoch = max(last[0] if last else 0, marker.epoch if marker else 0)
        return EpochState(look, epoch, last, marker, token)

    def open(self, wanted: DeltaEpochOpening) -> None:
        """Open an epoch; it can be repeated. Raises OutputDisagrees, and changes nothing, where this epoch
        was opened with another meaning, a later one is open, or batches that it continues are missing."""
        for _ in range(_TRIES):
            now = self.standing()
            if now.epoch > wanted.epoch:
                raise OutputDisagrees(
                    f"{self._place} holds epoch {now.epoch} already, which is later than {wanted}",
                    hint="this ledger is an older copy; nothing was changed",
                )
            theirs = self.find_opening(now, now.epoch) if now.epoch == wanted.epoch else None
            if theirs is not None and (theirs.continues, theirs.reason) != (wanted.continues, wanted.reason):
                raise OutputDisagrees(
                    f"{self._place} holds {theirs}, and the ledger wants {wanted}",
                    hint="another ledger writes here, or this one is an older copy; nothing was changed",
                )
            if now.epoch == wanted.epoch and now.logged is not None:
                return
            if self._put(theirs or self._complete(wanted, now), now):
                return
        raise self._crowded_error()

    def ensure(self, epoch: int, *, unmarked: bool) -> EpochState:
        """Make sure that the log has this epoch, before its first batch. Raises OutputDisagrees where a later
        epoch is open, or this one was never opened.

        `unmarked`: the epoch may have no marker, because the table did not exist when it was opened.
        """
        for _ in range(_TRIES):
            now = self.standing()
            if now.epoch > epoch:
                raise self.ended(epoch, now)
            if now.epoch == epoch and (now.logged is not None or epoch == 0):
                return now
            opening = now.marker
            if opening is None or opening.epoch != epoch:
                if now.ours or not unmarked:
                    raise OutputDisagrees(
                        f"{self._place} holds epoch {now.epoch}, and epoch {epoch} was never opened there",
                        hint="start afresh with `tidegauge watermark reset`; an append with --full-refresh",
                    )
                opening = DeltaEpochOpening(
                    self._pipeline, self._flow, epoch, None, "opened with its first batch"
                )
            self._put(opening, now)
        raise self._crowded_error()

    def lacks(self, continues: tuple[int, int]) -> str | None:
        """Which epoch or batch, up to this one, is missing here, for an error message; None: none is."""
        epoch, upto = continues
        now = self.standing()
        if now.look is None and not now.ours:
            return f"epoch {epoch}" if any(continues) else None
        if epoch > now.epoch:
            return f"epoch {epoch}"
        last: int | None = now.logged or 0
        if epoch < now.epoch:
            opening = self.find_opening(now, now.epoch)
            if opening and epoch < opening.emptied:
                return f"epoch {epoch}, whose rows a full refresh removed,"
            last = opening.closed.get(epoch) if opening else None
        if last is None:
            return f"epoch {epoch}" if any(continues) else None
        return None if last >= upto else f"batch {last + 1} of epoch {epoch}"

    def ended(self, epoch: int, now: EpochState) -> OutputDisagrees:
        """The error for a batch of an epoch that has ended."""
        opening = self.find_opening(now, now.epoch)
        return OutputDisagrees(
            f"a later epoch of this table was opened in {self._place}: {opening or f'epoch {now.epoch}'};"
            f" epoch {epoch} is no part of it",
            hint="nothing is lost: run again, and the flow goes on from where its watermark was set",
        )

    def find_opening(self, now: EpochState, epoch: int) -> DeltaEpochOpening | None:
        """How an epoch was opened; None for the first one, and where neither marker nor log has it. Raises
        OutputDisagrees where a note cannot be read."""
        if now.marker is not None and now.marker.epoch == epoch:
            return now.marker
        try:
            return next(
                (
                    _parse(said)
                    for said in self.find_notes(now)
                    if said.get("kind") == EPOCH_KIND and int(said["epoch"]) == epoch
                ),
                None,
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise OutputDisagrees(
                f"{self._flow}: what the log of {self._place} says of its epochs cannot be read:"
                f" {type(error).__name__}: {error}",
                hint="another version of tidegauge wrote it: use that one; nothing was changed",
            ) from error

    def find_notes(self, now: EpochState) -> Iterator[Action]:
        """The notes of the flow's own commits, newest first."""
        for commit in now.look.commits() if now.look else ():
            said = commit.note
            if said is not None and (said.get("pipeline"), said.get("flow")) == (self._pipeline, self._flow):
                yield said

    @property
    def _place(self) -> str:
        return self._log.store.place

    def _complete(self, wanted: DeltaEpochOpening, now: EpochState) -> DeltaEpochOpening:
        gap = self.lacks(wanted.continues) if wanted.continues else None
        if gap:
            raise OutputDisagrees(
                f"{wanted} cannot be opened: {gap} is not in {self._place}",
                hint="bring the rows back, or reset the watermark, which continues nothing",
            )
        before = self.find_opening(now, now.epoch)
        closed = dict(before.closed) if before else {}
        closed[now.epoch] = now.logged or 0
        emptied = wanted.epoch if wanted.empty else before.emptied if before else 0
        return replace(wanted, closed=closed, emptied=emptied)

    def _parse_marker(self, body: bytes) -> DeltaEpochOpening:
        try:
            return _parse(json.loads(body))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise OutputDisagrees(
                f"{self._place}/{self._path} is not ours: {error}",
                hint="put it back from a backup; nothing was changed",
            ) from error

    def _put(self, opening: DeltaEpochOpening, now: EpochState) -> bool:
        """Take the next step to open an epoch. Write the marker if it does not have all that the log has;
        else put the commit on top of `now.look`. True if nothing is left to do."""
        if now.last is not None:
            opening = replace(opening, closed={**opening.closed, now.last[0]: now.last[1]})
        if opening == now.marker:
            return now.look is None or self._put_commit(opening, now.look)
        self._put_marker(opening, now.token)
        return False

    def _put_marker(self, opening: DeltaEpochOpening, token: str | None) -> None:
        body = (json.dumps(_render(opening), indent=1, ensure_ascii=False) + "\n").encode()
        self._log.store.replace(self._path, body, token)

    def _put_commit(self, opening: DeltaEpochOpening, look: Snapshot) -> bool:
        names = {application(Tag(self._pipeline, self._flow, epoch, 0)) for epoch in range(opening.epoch)}
        txns = {**dict.fromkeys(sorted(names), CLOSED), f"{self._prefix}{opening.epoch}": 0}
        now = int(time.time() * 1000)
        actions = [
            {"txn": {"appId": name, "version": version, "lastUpdated": now}} for name, version in txns.items()
        ]
        if opening.empty:
            actions += removals(look, now)
        said = json.dumps(_render(opening), ensure_ascii=False)
        return self._log.put(look.version + 1, [batch_info(look, now, said, "TIDEGAUGE EPOCH"), *actions])

    def _crowded_error(self) -> OutputUnreachable:
        return OutputUnreachable(
            f"{self._place} is written to so often that no commit of ours came through",
            hint="run again; nothing was changed",
        )


def _render(opening: DeltaEpochOpening) -> Action:
    continues = opening.continues
    return {
        "tidegauge": 1,
        "kind": EPOCH_KIND,
        "pipeline": opening.pipeline,
        "flow": opening.flow,
        "epoch": opening.epoch,
        "continues": {"epoch": continues[0], "upto": continues[1]} if continues else None,
        "reason": opening.reason,
        "empty": opening.empty,
        "emptied": opening.emptied,
        "closed": {str(epoch): seq for epoch, seq in sorted(opening.closed.items())},
    }


def _parse(said: Action) -> DeltaEpochOpening:
    continues = said["continues"]
    return DeltaEpochOpening(
        str(said["pipeline"]),
        str(said["flow"]),
        int(said["epoch"]),
        (int(continues["epoch"]), int(continues["upto"])) if continues else None,
        str(said["reason"]),
        empty=bool(said["empty"]),
        emptied=int(said["emptied"]),
        closed={int(epoch): int(seq) for epoch, seq in said["closed"].items()},
    )
