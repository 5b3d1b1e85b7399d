"""The files of the selected flows, as the lake holds them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from tidegauge.flows.missing_tables import find_recorded
from tidegauge.flows.select import Sources, choose
from tidegauge.ledger.open import open_ledger
from tidegauge.ledger.owner import this_process
from tidegauge.model.spec import LakeTable, Project, TableFlow
from tidegauge.outputs.lake import files
from tidegauge.outputs.lake.files import Leftover, Listing
from tidegauge.outputs.lake.table import CommittedFile


@dataclass(frozen=True)
class FlowFiles:
    flow: str
    listing: Listing

    def to_json(self) -> dict[str, Any]:
        return {
            "flow": self.flow,
            "committed": [_file(one) for one in self.listing.committed],
            "earlier": [_file(one) for one in self.listing.earlier],
            "leftovers": [
                {"path": one.path, "bytes": one.bytes, "modified": one.modified.isoformat()}
                for one in self.listing.leftovers
            ],
            "missing": [one.file.path for one in self.listing.missing],
        }


def _file(one: CommittedFile) -> dict[str, Any]:
    return {
        "epoch": one.epoch,
        "seq": one.seq,
        "path": one.file.path,
        "rows": one.file.rows,
        "bytes": one.file.bytes,
    }


def listings(project: Project, selection: Sequence[str]) -> list[FlowFiles]:
    return [
        FlowFiles(flow.name, files.survey(place.lake, place.folder))
        for flow, place in _flows(project, selection)
    ]


def clean(
    project: Project, selection: Sequence[str], *, older_than: timedelta, reason: str | None
) -> dict[str, tuple[Leftover, ...]]:
    """Delete leftovers, and keep the reason in the history; without a reason only say what would go."""
    gone = {
        flow.name: files.clean(place.lake, place.folder, older_than=older_than, preview=reason is None)
        for flow, place in _flows(project, selection)
    }
    if reason is not None and any(gone.values()):
        with open_ledger(project.ledger, create=True) as ledger:
            for flow, left in gone.items():
                if left:
                    ledger.note(project.pipeline, flow, "files_cleaned", owner=this_process(), reason=reason)
    return gone


def _flows(project: Project, selection: Sequence[str]) -> list[tuple[TableFlow, LakeTable]]:
    with open_ledger(project.ledger, create=False) as ledger, Sources() as sources:
        recorded = find_recorded(ledger, project.pipeline)
        choice = choose(project, selection, sources, recorded=recorded)
    for _, error in choice.faults:
        raise error
    return [(flow, flow.output) for flow in choice.flows if isinstance(flow.output, LakeTable)]
