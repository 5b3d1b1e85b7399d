"""Reads from an output how far its flow has come: the newest epoch there, and its batches.

`ledger rebuild` uses it. It changes nothing.
"""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import dataclass

from tidegauge.delta_log.location import lake_of
from tidegauge.delta_log.snapshot import Log
from tidegauge.errors import OutputDisagrees, TidegaugeError
from tidegauge.model.plan import window_from_dict
from tidegauge.model.position import Window
from tidegauge.model.spec import DeltaFolder, LakeTable, TableFlow, WarehouseTable
from tidegauge.model.table import COPY
from tidegauge.outputs.delta.batches import CommittedBatch, committed_batches
from tidegauge.outputs.delta.recall import recall_delta
from tidegauge.outputs.lake.epochs import EpochContents, contents, follow, walk_back
from tidegauge.outputs.lake.manifest import BatchNumber, Manifest
from tidegauge.outputs.lake.table import load_all
from tidegauge.outputs.warehouse.commits import Commits
from tidegauge.outputs.warehouse.heads import Head
from tidegauge.outputs.warehouse.open import open_warehouse
from tidegauge.outputs.warehouse.warehouse import WarehouseSession
from tidegauge.storage.folder import check_folder
from tidegauge.storage.store import Store, open_store


@dataclass(frozen=True)
class RecalledEpoch:
    """The newest epoch of a table with one input."""

    epoch: int
    seq: int
    """The epoch's last batch; 0: none yet."""
    windows: tuple[Window, ...]
    """The windows of the epoch's batches, in order; while it has none, of the batches that it continues."""
    cursor: str = ""
    """The kind of cursor; empty where the output does not keep it."""
    opened: str | None = None
    """Why the epoch was opened by hand; None as soon as it has a batch."""
    removed: int = 0
    """How many of these batches were cleaned away."""


def recall(flow: TableFlow) -> RecalledEpoch | None:
    """The newest epoch in the flow's output; None where no batch was ever committed and no epoch opened.

    Raises OutputUnreachable, and OutputDisagrees for a table that is another flow's or lacks batches.
    """
    match flow.output:
        case LakeTable():
            return _recall_lake(flow, flow.output)
        case WarehouseTable():
            return _recall_warehouse(flow, flow.output)
        case DeltaFolder():
            return _recall_delta_table(flow, flow.output)


def recall_epochs(folder: LakeTable) -> tuple[tuple[int, int], ...]:
    """Every epoch of a lake table with its last batch, in order."""
    found = contents(open_store(folder.lake), check_folder(folder.folder))
    epochs = sorted({0, *found.opened})
    return tuple((epoch, _find_last(found, epoch)) for epoch in epochs)


def _recall_lake(flow: TableFlow, output: LakeTable) -> RecalledEpoch | None:
    store, folder = open_store(output.lake), check_folder(output.folder)
    found = contents(store, folder)
    if not found.batches and not found.opened:
        return None
    follow(store, folder, found)  # refuses batches of an epoch that was never opened
    newest = epoch = found.newest
    seq = upto = _find_last(found, epoch)
    opened: str | None = None
    for opening in walk_back(store, folder, epoch if not upto else 0):
        opened = opening.reason if opened is None else opened
        if opening.continues is None:
            break
        epoch, upto = opening.continues
        if upto:
            break
    manifests = _load_batches(flow, store, folder, epoch, upto)
    windows = tuple(one.windows[0] for one in manifests)
    removed = sum(one.gone is not None for one in manifests)
    kind = manifests[-1].cursor if manifests else ""
    # The watermark of a table without a cursor is the time when it was read.
    cursor = "timestamp" if kind == COPY else kind
    return RecalledEpoch(newest, seq, windows, cursor, opened, removed)


def _find_last(found: EpochContents, epoch: int) -> int:
    there = [one.seq for one in found.batches if one.epoch == epoch]
    return max(there, default=0)


def _load_batches(flow: TableFlow, store: Store, folder: str, epoch: int, upto: int) -> tuple[Manifest, ...]:
    manifests = load_all(store, folder, [BatchNumber(epoch, seq) for seq in range(1, upto + 1)])
    for one in manifests[-1:]:
        if (one.tag.pipeline, one.tag.flow) != (flow.pipeline, flow.name):
            raise OutputDisagrees(
                f"{flow.name}: {store.place}/{folder} belongs to the flow {one.tag.flow} of the pipeline"
                f" {one.tag.pipeline}",
                hint="two flows cannot write one table: look at `pipeline:` and `rename:`",
            )
    return manifests


def _recall_warehouse(flow: TableFlow, output: WarehouseTable) -> RecalledEpoch | None:
    warehouse = open_warehouse(output.warehouse)
    if not warehouse.is_there():
        return None
    commits = Commits(warehouse, output.table, flow.pipeline, flow.name)
    with closing(warehouse.connect()) as session:
        heads = {head.epoch: head for head in commits.heads(session)} if commits.is_there(session) else {}
        if not any(head.epoch or head.last_seq for head in heads.values()):
            return None
        newest = max(heads)
        opened = None if heads[newest].last_seq else heads[newest].reason
        windows = _list_kept(flow, commits, session, heads, newest)
        return RecalledEpoch(newest, heads[newest].last_seq, windows, "", opened)


def _recall_delta_table(flow: TableFlow, output: DeltaFolder) -> RecalledEpoch | None:
    lake = lake_of(str(output), output.lake)
    found = recall_delta(lake, flow.pipeline, flow.name)
    if found is None:
        return None
    mark = found.marks.get(flow.input)
    windows: tuple[Window, ...] = (Window(None, mark.position),) if mark else ()
    look = Log(open_store(lake)).look() if found.seq else None
    if look is not None:
        windows = tuple(
            one.windows[flow.input]
            for one in committed_batches(look, flow.pipeline, flow.name)
            if isinstance(one, CommittedBatch) and one.epoch == found.epoch
        )[::-1]
    return RecalledEpoch(found.epoch, found.seq, windows, mark.cursor if mark else "", found.opened)


def _list_kept(
    flow: TableFlow, commits: Commits, session: WarehouseSession, heads: dict[int, Head], epoch: int
) -> tuple[Window, ...]:
    upto = heads[epoch].last_seq
    while not upto and epoch:
        continues = heads[epoch].continues
        if continues is None or continues[0] not in heads:
            return ()
        epoch, upto = continues
    found = commits.windows(session, epoch)
    try:
        return tuple(
            window_from_dict(json.loads(text)[0]) for text in (found[seq] for seq in range(1, upto + 1))
        )
    except KeyError as error:
        raise OutputDisagrees(
            f"{flow.name}: the row of batch {error}, epoch {epoch}, is not in {commits.table}",
            hint="put it back from a backup; nothing was changed",
        ) from error
    except (ValueError, TypeError, IndexError, TidegaugeError) as error:
        raise OutputDisagrees(
            f"{flow.name}: a row of epoch {epoch} in {commits.table} is not ours: {error}",
            hint="put it back from a backup; nothing was changed",
        ) from error
