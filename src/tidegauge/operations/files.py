"""Lists, cleans and compacts the lake files of the selected flows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

from tidegauge.flows.maintenance.lake_consumers import (
    FreeBatches,
    LakeConsumers,
    find_lake_flows,
    find_readers,
)
from tidegauge.flows.selection.missing_tables import find_recorded
from tidegauge.flows.selection.select import choose
from tidegauge.ledger.open import open_ledger
from tidegauge.ledger.owner import this_process
from tidegauge.model.delta_flow import DataFlow
from tidegauge.model.protocols.ledger import LedgerReader
from tidegauge.model.spec import LakeTable, Project
from tidegauge.outputs.lake import files
from tidegauge.outputs.lake.compact import CompactionGroup
from tidegauge.outputs.lake.compact import compact as compact_files
from tidegauge.outputs.lake.files import LEFTOVER, DeletableFile, TableFiles
from tidegauge.outputs.lake.table import CommittedFile
from tidegauge.sources.connections import SourceConnections


@dataclass(frozen=True)
class FlowFiles:
    flow: str
    listing: TableFiles

    def to_json(self) -> dict[str, Any]:
        return {
            "flow": self.flow,
            "committed": [_file_to_json(one) for one in self.listing.committed],
            "earlier": [_file_to_json(one) for one in self.listing.earlier],
            "leftovers": [
                {"path": one.path, "bytes": one.bytes, "modified": one.modified.isoformat()}
                for one in self.listing.leftovers
            ],
            "replaced": [_file_to_json(one) for one in self.listing.replaced],
            "removed": [_file_to_json(one) for one in self.listing.removed],
            "missing": [one.file.path for one in self.listing.missing],
        }


def _file_to_json(one: CommittedFile) -> dict[str, Any]:
    return {
        "epoch": one.epoch,
        "seq": one.seq,
        **({} if one.last is None else {"last_seq": one.last}),
        "path": one.file.path,
        "rows": one.file.rows,
        "bytes": one.file.bytes,
    }


def list_files(project: Project, selection: Sequence[str]) -> list[FlowFiles]:
    with open_ledger(project.ledger, create=False) as ledger:
        found = find_lake_flows(_choose(ledger, project, selection))
    return [FlowFiles(flow.name, files.survey(place.lake, place.folder)) for flow, place in found]


@dataclass(frozen=True)
class CleanRequest:
    older_than: timedelta
    loaded: bool = False
    """Also delete files that every load has read."""
    earlier_epochs: bool = False
    """Also delete files of earlier epochs that no reader uses since a change by hand."""


@dataclass(frozen=True)
class CleanedFiles:
    """The files of a flow's table that were deleted, or would be."""

    flow: str
    files: tuple[DeletableFile, ...]
    notes: tuple[str, ...] = ()
    """Why other files stay."""

    def to_json(self) -> dict[str, Any]:
        gone = [{"path": one.path, "bytes": one.bytes, "why": one.why} for one in self.files]
        return {"flow": self.flow, "files": gone, "notes": list(self.notes)}


def clean(
    project: Project, selection: Sequence[str], request: CleanRequest, *, reason: str | None
) -> list[CleanedFiles]:
    """Delete files, and record the reason in the history; without a reason only return what would go."""
    cleaned = []
    with open_ledger(project.ledger, create=False) as ledger:
        every = _choose(ledger, project, ()) if request.loaded or request.earlier_epochs else []
        for flow, place in find_lake_flows(_choose(ledger, project, selection)):
            free = FreeBatches({}, ())
            if request.loaded or request.earlier_epochs:
                readers = LakeConsumers(ledger, flow, place, find_readers(every, place))
                free = readers.find_free(loaded=request.loaded, earlier=request.earlier_epochs)
            cleaned.append(_clean(project, flow.name, place, free, request.older_than, reason))
    return cleaned


def _clean(
    project: Project,
    flow: str,
    place: LakeTable,
    free: FreeBatches,
    older_than: timedelta,
    reason: str | None,
) -> CleanedFiles:
    carry_out = partial(files.clean, place.lake, place.folder, older_than=older_than, batches=free.batches)
    gone, notes = carry_out(preview=True), free.notes
    young = 0 if gone else len(files.survey(place.lake, place.folder).replaced)
    if young:
        notes = (*notes, f"{young} files that a compaction replaced stay until --older-than has passed since")
    if gone and reason is not None:
        words = sorted({one.why for one in gone} - {LEFTOVER})
        said = f"{reason} ({', '.join(words)})" if words else reason
        # Recorded before the first file is deleted, so that the history has it even if the process is killed.
        with open_ledger(project.ledger, create=True) as ledger:
            ledger.note(project.pipeline, flow, "files_cleaned", owner=this_process(), reason=said)
        gone = carry_out(reason=reason)
    return CleanedFiles(flow, gone, notes)


@dataclass(frozen=True)
class CompactRequest:
    older_than: timedelta
    """Compact only batches that were committed longer ago than this."""
    target_bytes: int


@dataclass(frozen=True)
class CompactedFiles:
    """The files of a flow's table that were rewritten, or would be."""

    flow: str
    groups: tuple[CompactionGroup, ...]
    notes: tuple[str, ...] = ()
    """Why other files stay."""

    def to_json(self) -> dict[str, Any]:
        return {
            "flow": self.flow,
            "groups": [
                {
                    "epoch": one.epoch,
                    "first_seq": one.first,
                    "last_seq": one.last,
                    "rows": one.rows,
                    "files": len(one.before),
                    "bytes": one.bytes,
                    "written": [{"path": file.path, "bytes": file.bytes} for file in one.files],
                    "kept": list(one.kept),
                }
                for one in self.groups
            ],
            "notes": list(self.notes),
        }


def compact(
    project: Project, selection: Sequence[str], request: CompactRequest, *, reason: str | None
) -> list[CompactedFiles]:
    """Rewrite small files, and record the reason in the history; without a reason only return which."""
    done = []
    with open_ledger(project.ledger, create=False) as ledger:
        every = _choose(ledger, project, ())
        found = find_lake_flows(_choose(ledger, project, selection))
        passed = [LakeConsumers(ledger, *one, find_readers(every, one[1])).find_passed() for one in found]
    for (flow, place), (batches, notes) in zip(found, passed, strict=True):
        carry_out = partial(
            compact_files,
            place.lake,
            place.folder,
            batches,
            older_than=request.older_than,
            target=request.target_bytes,
        )
        groups = carry_out(reason=None)
        if groups and reason is not None:
            # Recorded before the first write, so that the history has it even if the process is killed.
            with open_ledger(project.ledger, create=True) as writer:
                writer.note(
                    project.pipeline, flow.name, "files_compacted", owner=this_process(), reason=reason
                )
            groups = carry_out(reason=reason)
        done.append(CompactedFiles(flow.name, groups, tuple(notes)))
    return done


def _choose(ledger: LedgerReader, project: Project, selection: Sequence[str]) -> Sequence[DataFlow]:
    with SourceConnections() as sources:
        recorded = find_recorded(ledger, project.pipeline)
        choice = choose(project, selection, sources, recorded=recorded)
    for _, error in choice.faults:
        raise error
    return choice.flows
