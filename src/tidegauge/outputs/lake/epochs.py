"""The epochs of a lake table: each change of its watermark by hand opens the next one.

`<table's folder>/_tidegauge/<epoch>/open.json` is put once, before the first batch of that epoch, and says
which batches of an earlier epoch still belong to the table (`continues`). Epoch 0 is open from the start.
Readers follow the newest epoch that is open, and through `continues` those before it. An epoch that continues
nothing may still show (`shows`) the rows from before until its first batch is there: a full refresh does.
Other batches of an older epoch, even if they are committed later, are never read; their files stay, because
an undo continues them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from tidegauge.errors import OutputDisagrees
from tidegauge.model.override import show_continued
from tidegauge.outputs.lake.manifest import (
    FORMAT,
    MANIFESTS,
    BatchNumber,
    foreign,
    integer,
    list_manifests,
    load,
    put_once,
    text,
)
from tidegauge.storage.store import Store


@dataclass(frozen=True)
class EpochOpening:
    """How an epoch was opened, as its `open.json` says."""

    pipeline: str
    flow: str
    epoch: int
    continues: tuple[int, int] | None
    """An earlier epoch, and the last of its batches that still counts, along with the batches that it
    continues itself; None: the epoch starts afresh."""
    reason: str
    shows: tuple[int, int] | None = None
    """In the form of `continues`: what readers see until this epoch has a batch. It is found out when the
    epoch is opened; two openings that differ in it alone mean the same."""

    def __str__(self) -> str:
        whose = f"epoch {self.epoch} of {self.pipeline}/{self.flow}"
        return f"{whose}, continuing {show_continued(self.continues)} ({self.reason})"


@dataclass(frozen=True)
class EpochContents:
    """What a listing of a table's manifests showed; only their names are read."""

    batches: tuple[BatchNumber, ...]
    """The batches of every epoch, in order."""
    opened: frozenset[int]
    """The epochs that were opened by hand, so without epoch 0."""

    @property
    def newest(self) -> int:
        """The newest epoch that is open."""
        return max(self.opened, default=0)


def path_of(folder: str, epoch: int) -> str:
    return f"{folder}/{MANIFESTS}/{epoch}/open.json"


def contents(store: Store, folder: str) -> EpochContents:
    """List the batches and epochs of a table."""
    batches, opened = list_manifests(store, folder)
    # A listing is no snapshot: it may have a new batch and lack the opening of its epoch, which came before.
    late = {one.epoch for one in batches if one.epoch} - set(opened)
    opened += [epoch for epoch in late if store.get(path_of(folder, epoch)) is not None]
    return EpochContents(tuple(batches), frozenset(opened))


def load_opening(store: Store, folder: str, epoch: int, *, durable: bool = False) -> EpochOpening | None:
    """How an epoch was opened; None where it was not. Raises OutputDisagrees, which names the file, for one
    that is damaged or not ours."""
    path = path_of(folder, epoch)
    body = store.get(path, durable=durable)
    if body is None:
        return None
    opening = parse(body, f"{store.place}/{path}")
    if opening.epoch != epoch:
        raise foreign(f"{store.place}/{path}", f"it is of epoch {opening.epoch}")
    return opening


def walk_back(store: Store, folder: str, epoch: int) -> Iterator[EpochOpening]:
    """How an epoch was opened, then the one that it continues, and so on; epoch 0 was not opened. Raises
    OutputDisagrees where one was never opened."""
    while epoch:
        opening = load_opening(store, folder, epoch)
        if opening is None:
            raise OutputDisagrees(
                f"{store.place}/{path_of(folder, epoch)} is not there, so epoch {epoch} was never opened"
                " here",
                hint="the ledger is of another lake, or the file was removed: put it back from a backup",
            )
        yield opening
        epoch = opening.continues[0] if opening.continues else 0


def follow(
    store: Store, folder: str, found: EpochContents, *, epoch: int | None = None
) -> tuple[BatchNumber, ...]:
    """The batches that make up the table, in the order they were committed.

    The table is that of the newest open epoch, or of `epoch`. Raises OutputDisagrees where there are batches
    of an epoch that was never opened, since no runner commits to it before.
    """
    stray = next((one for one in found.batches if one.epoch and one.epoch not in found.opened), None)
    if stray is not None:
        raise OutputDisagrees(
            f"{store.place}/{folder} holds batches of epoch {stray.epoch}, which was never opened",
            hint=f"{path_of(folder, stray.epoch)} is gone: put it back from a backup; nothing was changed",
        )
    last = found.newest if epoch is None else epoch
    begun = _chain(store, folder, last, [one for one in found.batches if one.epoch == last])
    if begun or epoch is not None or not last:
        return begun
    opening = load_opening(store, folder, last)
    if opening is None or opening.shows is None:
        return ()
    return _chain(store, folder, opening.shows[0], _list_upto(*opening.shows))


def is_pending(store: Store, folder: str, epoch: int) -> bool:
    """Whether readers still see the rows from before this epoch, because it has no batch yet."""
    opening = load_opening(store, folder, epoch) if epoch else None
    return opening is not None and opening.shows is not None and load(store, folder, epoch, 1) is None


def _find_shown(store: Store, folder: str, found: EpochContents, *, refresh: bool) -> tuple[int, int] | None:
    """What readers see now, in the form of `continues`. Without `refresh`: only what the newest epoch still
    shows from before it; None: nothing.
    """
    newest = found.newest
    try:
        if follow(store, folder, found, epoch=newest):
            last = max((one.seq for one in found.batches if one.epoch == newest), default=0)
            return (newest, last) if refresh else None
        opening = load_opening(store, folder, newest) if newest else None
        shows = opening.shows if opening else None
    except OutputDisagrees:
        shows = None  # opening a new epoch has to work for a damaged table too: that repairs it
    return shows or ((0, 0) if refresh else None)


def _list_upto(epoch: int, last: int) -> list[BatchNumber]:
    return [BatchNumber(epoch, seq) for seq in range(1, last + 1)]


def _chain(store: Store, folder: str, last: int, own: list[BatchNumber]) -> tuple[BatchNumber, ...]:
    """The batches that an epoch continues, and then its own."""
    splits = [own]
    for opening in walk_back(store, folder, last):
        if opening.continues is not None:
            # By number and not from the listing, which may have read this epoch's folder before its last
            # batch was there.
            splits.append(_list_upto(*opening.continues))
    return tuple(one for split in reversed(splits) for one in split)


def open_epoch(store: Store, folder: str, opening: EpochOpening, *, refresh: bool = False) -> None:
    """Open an epoch: from then on readers follow it, and no batch of an older epoch is confirmed.

    `refresh`: until its first batch is there, readers see what they see now.

    Can be repeated. Raises OutputDisagrees, and changes nothing, when the epoch was opened with another
    meaning, when batches that it continues are not there, or when the table is another flow's.
    """
    place = f"{store.place}/{folder}"
    found = contents(store, folder)
    if opening.epoch not in found.opened:
        _check_owner(store, folder, found, opening)
        gap = find_gap(found, opening.continues) if opening.continues else None
        if gap:
            raise OutputDisagrees(
                f"{opening} cannot be opened in {place}: {gap} is not there",
                hint="bring the files back, or reset the watermark, which continues nothing",
            )
        before = opening.continues
        if before is None or not _chain(store, folder, before[0], _list_upto(*before)):
            opening = replace(opening, shows=_find_shown(store, folder, found, refresh=refresh))
    for epoch in sorted(set(range(1, opening.epoch)) - found.opened):
        # The ledger may have epochs from before it wrote here. They are opened too: without a gap, a look at
        # the next epoch tells whether any later one is open.
        skipped = EpochOpening(
            opening.pipeline, opening.flow, epoch, None, f"closed by epoch {opening.epoch}"
        )
        _put(store, folder, skipped)
    theirs = _put(store, folder, opening)
    if replace(theirs, shows=None) != replace(opening, shows=None):
        raise OutputDisagrees(
            f"{store.place}/{path_of(folder, opening.epoch)} holds {theirs}, and the ledger wants {opening}",
            hint="another ledger writes here, or this one is an older copy; nothing was changed",
        )


def _put(store: Store, folder: str, opening: EpochOpening) -> EpochOpening:
    """Put an opening, and return the one that is there: this one, or an earlier one for the same epoch."""
    epoch = opening.epoch
    theirs = put_once(
        store,
        path_of(folder, epoch),
        render(opening),
        lambda: load_opening(store, folder, epoch, durable=True),
    )
    return theirs or opening


def _check_owner(store: Store, folder: str, found: EpochContents, opening: EpochOpening) -> None:
    if not found.batches:
        return
    last = found.batches[-1]
    manifest = load(store, folder, last.epoch, last.seq)
    if manifest and (manifest.tag.pipeline, manifest.tag.flow) != (opening.pipeline, opening.flow):
        raise OutputDisagrees(
            f"{store.place}/{folder} belongs to the flow {manifest.tag.flow} of the pipeline"
            f" {manifest.tag.pipeline}",
            hint="two flows cannot write one table: give this one another name with `rename:`",
        )


def find_gap(found: EpochContents, continues: tuple[int, int]) -> str | None:
    """The epoch or batch that is missing for an epoch that would continue these; None: none is."""
    epoch, upto = continues
    if epoch and epoch not in found.opened:
        return f"epoch {epoch}"
    there = {one.seq for one in found.batches if one.epoch == epoch}
    return next((f"batch {seq} of epoch {epoch}" for seq in range(1, upto + 1) if seq not in there), None)


def render(opening: EpochOpening) -> bytes:
    continues = None
    if opening.continues is not None:
        epoch, upto = opening.continues
        continues = {"epoch": epoch, "upto": upto}
    body = {
        "tidegauge": FORMAT,
        "epoch": opening.epoch,
        "continues": continues,
        "pipeline": opening.pipeline,
        "flow": opening.flow,
        "reason": opening.reason,
    }
    if opening.shows is not None:
        body["shows"] = dict(zip(("epoch", "upto"), opening.shows, strict=True))
    return (json.dumps(body, indent=1) + "\n").encode()


def parse(body: bytes, name: str) -> EpochOpening:
    try:
        return _parse(json.loads(body))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise foreign(name, f"{type(error).__name__}: {error}") from error


def _parse(body: dict[str, Any]) -> EpochOpening:
    if integer(body["tidegauge"]) != FORMAT:
        raise ValueError(f"its format is {body['tidegauge']}, and this version reads {FORMAT}")
    epoch = integer(body["epoch"])
    continues, shows = _parse_earlier(body["continues"], epoch), _parse_earlier(body.get("shows"), epoch)
    return EpochOpening(
        text(body["pipeline"]), text(body["flow"]), epoch, continues, text(body["reason"]), shows
    )


def _parse_earlier(said: dict[str, Any] | None, epoch: int) -> tuple[int, int] | None:
    if said is None:
        return None
    before, upto = integer(said["epoch"]), integer(said["upto"])
    if before >= epoch:
        raise ValueError(f"epoch {epoch} cannot continue epoch {before}")
    return before, upto
