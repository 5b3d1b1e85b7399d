"""Reset a pipeline, or some of its tables, so that it begins again."""

from __future__ import annotations

from tidegauge.errors import ConfigError
from tidegauge.model.position import Position
from tidegauge.tracker.latest import Names, as_names
from tidegauge.tracker.ledger import TrackerLedger
from tidegauge.tracker.pipeline_state import TIME, VERSION, kind_of, peek


def reset(tracker_ledger: TrackerLedger, pipeline: str, tables: Names | None, *, reason: str) -> None:
    if not reason.strip():
        raise ConfigError(f"{pipeline}: a reset needs a reason", hint="it is what the history will say")
    found = peek(tracker_ledger.ledger, pipeline)
    pipeline_state = tracker_ledger.look(pipeline, (found and kind_of(found)) or TIME)
    if pipeline_state.status is None:
        raise ConfigError(f"the ledger has never heard of the pipeline '{pipeline}'", hint="check the name")
    kept: dict[str, Position | None] = {}
    if tables is not None:
        wanted = as_names(tables, what="table")
        unknown = [name for name in wanted if name not in pipeline_state.marks]
        if unknown or kind_of(pipeline_state) != VERSION:
            which = unknown[0] if unknown else wanted[0]
            raise ConfigError(
                f"{pipeline} has no table '{which}'",
                hint=f"it has: {', '.join(list(pipeline_state.marks)[:10])}",
            )
        kept = {name: mark.position for name, mark in pipeline_state.marks.items() if name not in wanted}
    override = tracker_ledger.ledger.begin_override(
        pipeline, pipeline, "reset", kept, owner=tracker_ledger.owner, reason=reason
    )
    tracker_ledger.ledger.end_override(pipeline, pipeline, epoch=override.epoch)
