"""Count what a flow has done since its last reset, and turn the tally into JSON and back. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from tidegauge.model.plan import Batch, Receipt
from tidegauge.model.run import RunRecord
from tidegauge.model.watermark import Tally

MOST = 1000
"""How many files a tally remembers by name: the newest. The lake's manifests have all of them."""


def count_batch(tally: Tally, batch: Batch, receipt: Receipt, *, whole: bool, now: datetime) -> Tally:
    """Add a batch to the tally, or some of its inputs. `whole`: all inputs of the batch are done now."""
    new = () if batch.rereads else _select_new(tally, receipt.paths)
    return replace(
        tally,
        rows=tally.rows + receipt.rows,
        batches=tally.batches + whole,
        files=None if tally.files is None else tally.files + receipt.files,
        advanced_at=now,
        manual=tally.manual and batch.rereads,
        loaded=(*tally.loaded, *new)[-MOST:] if new else tally.loaded,
        loaded_files=tally.loaded_files + len(new),
    )


def _select_new(tally: Tally, paths: tuple[str, ...]) -> tuple[str, ...]:
    """The paths that were not counted before: a table that is replaced as a whole takes all files again."""
    newest = tally.loaded[-1] if tally.loaded else None
    return paths[paths.index(newest) + 1 :] if newest in paths else paths


def add_seconds(tally: Tally, runs: Sequence[RunRecord]) -> Tally:
    """Add the seconds of runs that have ended."""
    seconds = sum((run.ended_at - run.started_at).total_seconds() for run in runs if run.ended_at)
    return replace(tally, seconds=round(tally.seconds + seconds, 6)) if seconds else tally


def count_override(tally: Tally, before: Tally | None, kind: str) -> Tally:
    """The tally after an override. `before`: the tally that the last override replaced, for an undo."""
    match kind:
        case "reset" | "refresh":
            return Tally()
        case "undo":
            return before or replace(tally, manual=False)
        case _:
            return replace(tally, manual=True)


def tally_body(tally: Tally) -> dict[str, Any]:
    """The tally in plain JSON values, without `created_at` and `updated_at`: each store has its own."""
    return {
        "rows": tally.rows,
        "batches": tally.batches,
        "files": tally.files,
        "seconds": tally.seconds,
        "advanced_at": None if tally.advanced_at is None else tally.advanced_at.isoformat(),
        "manual": tally.manual,
        "strategy": tally.strategy,
        "loaded": list(tally.loaded),
        "loaded_files": tally.loaded_files,
    }


def tally_of(body: Mapping[str, Any]) -> Tally:
    advanced = body["advanced_at"]
    moved = None if advanced is None else datetime.fromisoformat(advanced)
    return Tally(**{**body, "advanced_at": moved, "loaded": tuple(body["loaded"])})
