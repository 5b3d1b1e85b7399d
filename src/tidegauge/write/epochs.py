"""Epochs: the lives of a table. Each manual override of its watermark opens the next one.

`<table's folder>/_tidegauge/<epoch>/open.json` is put once, before the first batch of that epoch, and says
which batches of an earlier epoch still belong to the table (`continues`). Epoch 0 is open from the start.
Readers follow the newest epoch that is open, and through `continues` those before it. Whatever else an
older life holds, or writes later, is never seen; its files stay, because an undo continues them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from tidegauge.errors import OutputDisagrees
from tidegauge.objects.store import Store
from tidegauge.write.manifest import (
    FORMAT,
    MANIFESTS,
    Numbered,
    foreign,
    integer,
    listed,
    load,
    put_once,
    text,
)


@dataclass(frozen=True)
class Opening:
    pipeline: str
    flow: str
    epoch: int
    continues: tuple[int, int] | None
    """Epoch, and the last of its batches that still counts; with it come those that it continues itself."""
    reason: str

    def __str__(self) -> str:
        shown = "nothing" if self.continues is None else "epoch {} up to batch {}".format(*self.continues)
        return f"epoch {self.epoch} of {self.pipeline}/{self.flow}, continuing {shown} ({self.reason})"


@dataclass(frozen=True)
class Contents:
    """What a listing of a table's manifests showed; only names are read."""

    batches: tuple[Numbered, ...]
    """Of every epoch, in order."""
    opened: frozenset[int]

    @property
    def newest(self) -> int:
        return max(self.opened, default=0)


def path_of(folder: str, epoch: int) -> str:
    return f"{folder}/{MANIFESTS}/{epoch}/open.json"


def contents(store: Store, folder: str) -> Contents:
    batches, opened = listed(store, folder)
    # A listing is no snapshot: what came while it ran may show the batch and not what came before it.
    late = {one.epoch for one in batches if one.epoch} - set(opened)
    opened += [epoch for epoch in late if store.get(path_of(folder, epoch)) is not None]
    return Contents(tuple(batches), frozenset(opened))


def load_opening(store: Store, folder: str, epoch: int, *, durable: bool = False) -> Opening | None:
    """Raises OutputDisagrees, naming the file, for one that is torn or was never ours."""
    path = path_of(folder, epoch)
    body = store.get(path, durable=durable)
    if body is None:
        return None
    opening = parse(body, f"{store.place}/{path}")
    if opening.epoch != epoch:
        raise foreign(f"{store.place}/{path}", f"it is of epoch {opening.epoch}")
    return opening


def followed(store: Store, folder: str, found: Contents, *, epoch: int | None = None) -> tuple[Numbered, ...]:
    """The batches that make up the table, in the order they were committed.

    As the newest open epoch tells it, or `epoch`. Raises OutputDisagrees for batches of an epoch that was
    never opened: no runner commits before it is.
    """
    stray = next((one for one in found.batches if one.epoch and one.epoch not in found.opened), None)
    if stray is not None:
        raise OutputDisagrees(
            f"{store.place}/{folder} holds batches of epoch {stray.epoch}, which was never opened",
            hint=f"{path_of(folder, stray.epoch)} is gone: put it back from a backup; nothing was changed",
        )
    last = found.newest if epoch is None else epoch
    stretches = [[one for one in found.batches if one.epoch == last]]
    while last:
        opening = load_opening(store, folder, last)
        if opening is None:
            raise OutputDisagrees(
                f"{store.place}/{path_of(folder, last)} is not there, so epoch {last} was never opened here",
                hint="the ledger is of another lake, or the file was removed: put it back from a backup",
            )
        if opening.continues is None:
            break
        # By number and not by the listing, which may have passed this epoch before its last batch came.
        last, upto = opening.continues
        stretches.append([Numbered(last, seq) for seq in range(1, upto + 1)])
    return tuple(one for stretch in reversed(stretches) for one in stretch)


def open_epoch(store: Store, folder: str, opening: Opening) -> None:
    """From here on readers follow this epoch, and no batch of an older one is confirmed.

    Can be repeated. Raises OutputDisagrees when the epoch was opened with another meaning, when batches
    that it continues are not there, or when the table is another flow's; then nothing has changed.
    """
    place = f"{store.place}/{folder}"
    found = contents(store, folder)
    if opening.epoch not in found.opened:
        _check_owner(store, folder, found, opening)
        gap = lacking(found, opening.continues) if opening.continues else None
        if gap:
            raise OutputDisagrees(
                f"{opening} cannot be opened in {place}: {gap} is not there",
                hint="bring the files back, or reset the watermark, which continues nothing",
            )
    for epoch in sorted(set(range(1, opening.epoch)) - found.opened):
        # A place that is new to an old ledger. Without a gap, whoever asks for the next epoch knows of all.
        skipped = Opening(opening.pipeline, opening.flow, epoch, None, f"closed by epoch {opening.epoch}")
        _put(store, folder, skipped)
    theirs = _put(store, folder, opening)
    if theirs != opening:
        raise OutputDisagrees(
            f"{store.place}/{path_of(folder, opening.epoch)} holds {theirs}, and the ledger wants {opening}",
            hint="another ledger writes here, or this one is an older copy; nothing was changed",
        )


def _put(store: Store, folder: str, opening: Opening) -> Opening:
    epoch = opening.epoch
    theirs = put_once(
        store,
        path_of(folder, epoch),
        render(opening),
        lambda: load_opening(store, folder, epoch, durable=True),
    )
    return theirs or opening


def _check_owner(store: Store, folder: str, found: Contents, opening: Opening) -> None:
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


def lacking(found: Contents, continues: tuple[int, int]) -> str | None:
    """What is not there of the epoch that would be continued."""
    epoch, upto = continues
    if epoch and epoch not in found.opened:
        return f"epoch {epoch}"
    there = {one.seq for one in found.batches if one.epoch == epoch}
    return next((f"batch {seq} of epoch {epoch}" for seq in range(1, upto + 1) if seq not in there), None)


def render(opening: Opening) -> bytes:
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
    return (json.dumps(body, indent=1) + "\n").encode()


def parse(body: bytes, name: str) -> Opening:
    try:
        return _parse(json.loads(body))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise foreign(name, f"{type(error).__name__}: {error}") from error


def _parse(body: dict[str, Any]) -> Opening:
    if integer(body["tidegauge"]) != FORMAT:
        raise ValueError(f"its format is {body['tidegauge']}, and this version reads {FORMAT}")
    epoch, continues = integer(body["epoch"]), body["continues"]
    if continues is not None:
        continues = (integer(continues["epoch"]), integer(continues["upto"]))
        if continues[0] >= epoch:
            raise ValueError(f"epoch {epoch} cannot continue epoch {continues[0]}")
    return Opening(text(body["pipeline"]), text(body["flow"]), epoch, continues, text(body["reason"]))
