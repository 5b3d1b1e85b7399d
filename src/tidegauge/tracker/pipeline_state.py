"""What the ledger says of a tracker's pipeline, and how to tell it from a project's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidegauge.errors import ConfigError
from tidegauge.model.plan import Plan
from tidegauge.model.position import RowPosition
from tidegauge.model.protocols.ledger import LedgerReader
from tidegauge.model.run import FlowStatus
from tidegauge.model.watermark import Watermark

TIME, VERSION = "timestamp", "version"
"""The two kinds of pipeline, by their cursor."""
_SHOWN = {TIME: "time windows", VERSION: "version ranges"}
SOURCE = "source"
"""The one input of a pipeline of time windows."""
_OURS = "tracker:"
"""How the `source_id` of every input of a tracker begins; the table's own id follows."""


@dataclass(frozen=True)
class PipelineState:
    pipeline: str
    status: FlowStatus | None
    """None if the ledger does not know the pipeline."""
    marks: Mapping[str, Watermark]
    """By input."""

    @property
    def plan(self) -> Plan | None:
        return self.status.plan if self.status else None

    @property
    def position(self) -> RowPosition | None:
        """The watermark of a pipeline of time windows; None before the first."""
        position = self.marks[SOURCE].position if SOURCE in self.marks else None
        assert position is None or isinstance(position, RowPosition)
        return position

    @property
    def seen(self) -> tuple[int, int]:
        """Epoch and number of the last batch: the ledger keeps a draft only while they are still the same."""
        return max(((mark.epoch, mark.seq) for mark in self.marks.values()), default=(0, 0))


def source_id(table_id: str = "") -> str:
    return _OURS + table_id


def table_id(kept: str | None) -> str:
    """The table's own id in an input's identity; empty where it was never known."""
    return (kept or "").removeprefix(_OURS)


def look(ledger: LedgerReader, pipeline: str, kind: str) -> PipelineState:
    """The pipeline's state. Raises ConfigError for a name that is no name, for a pipeline of a project's
    flows, and for one of another kind."""
    found = peek(ledger, pipeline)
    if found is None:
        raise _foreign_error(pipeline)
    other = kind_of(found)
    if other is not None and other != kind:
        raise ConfigError(
            f"the pipeline '{pipeline}' has {_SHOWN.get(other, other)}, not {_SHOWN[kind]}: these are two"
            " different pipelines with the same name",
            hint="give one of them another name",
        )
    return found


def peek(ledger: LedgerReader, pipeline: str) -> PipelineState | None:
    """The pipeline's state; None for a pipeline of a project's flows. Raises ConfigError for a name that is
    no name."""
    if not isinstance(pipeline, str) or not pipeline.strip() or "\0" in pipeline:
        raise ConfigError(f"{pipeline!r} is not the name of a pipeline", hint="give it a name")
    flows = ledger.status(pipeline)
    marks = ledger.watermarks(pipeline)
    if not _is_tracked(pipeline, flows, marks):
        return None
    return PipelineState(pipeline, flows[0] if flows else None, {mark.input: mark for mark in marks})


def _is_tracked(pipeline: str, flows: Sequence[FlowStatus], marks: Sequence[Watermark]) -> bool:
    """Whether all of the pipeline was written by a tracker: its only flow has the pipeline's name, and every
    `source_id` is a tracker's."""
    if {*(one.flow for one in flows), *(one.flow for one in marks)} - {pipeline}:
        return False
    ids = [mark.source_id for mark in marks]
    ids += [part.source_id for flow in flows if flow.plan for part in flow.plan.draft.inputs]
    return all(one is None or one.startswith(_OURS) for one in ids)


def kind_of(pipeline_state: PipelineState) -> str | None:
    """TIME or VERSION; None while neither a plan nor a watermark says which."""
    plan = pipeline_state.plan
    kinds = {part.cursor for part in plan.draft.inputs} if plan else set()
    # A mark that was set by hand before any plan has no kind yet.
    kinds |= {mark.cursor for mark in pipeline_state.marks.values() if mark.cursor}
    return min(kinds, default=None)


def _foreign_error(pipeline: str) -> ConfigError:
    return ConfigError(
        f"the pipeline '{pipeline}' on this ledger belongs to a project's flows: these are two different"
        " pipelines with the same name",
        hint="give the tracker's pipeline another name, or a ledger of its own",
    )
