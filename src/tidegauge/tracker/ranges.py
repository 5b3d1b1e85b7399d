"""Draft version ranges from the tables' newest versions and their checkpoints. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC

from tidegauge.errors import ConfigError, SourceError, TableMissing, TidegaugeError
from tidegauge.model.plan import Batch, Draft, InputPlan
from tidegauge.model.position import VersionPosition, Window
from tidegauge.model.watermark import Watermark
from tidegauge.tracker.latest import Latest, Names, as_names, is_in_schema
from tidegauge.tracker.pipeline_state import VERSION, PipelineState, source_id, table_id
from tidegauge.tracker.processing import inputs_by_name, version_of, version_range

Baseline = int | Mapping[str, int]
_RESET = "if that is meant, `tracker.reset(pipeline, tables=[…], reason=…)` begins the table anew"


def draft_ranges(
    pipeline_state: PipelineState,
    latest: Mapping[str, Latest],
    *,
    baseline: Baseline,
    allow_schema_change: bool,
    schemas: Names | None,
    late: bool = False,
) -> Draft:
    """A draft with one input for each table that has new versions; without batches if no table has.

    Raises SourceError for a table that went back, was made anew, or has other columns than before. `late`:
    the versions may be older than the checkpoints, so a lower version is ignored.
    """
    _check_baseline(baseline)
    parts = []
    for name, found in latest.items():
        mark = pipeline_state.marks.get(name)
        done = version_of(mark.position) if mark else None
        if (late or found.cut) and done is not None and found.version <= done:
            continue
        _check_identity(name, found, mark, allow_schema_change=allow_schema_change)
        first = _first_version(name, baseline) if done is None else done + 1
        if found.version >= first:
            parts.append(_plan_table(name, found, mark, first))
    windows = tuple(part.window for part in parts if part.window)
    return Draft(
        pipeline_state.pipeline,
        pipeline_state.pipeline,
        tuple(parts),
        (Batch(windows),) if parts else (),
        notes=_note_missing(pipeline_state, latest, schemas),
        seen=pipeline_state.seen,
    )


def _plan_table(name: str, found: Latest, mark: Watermark | None, first: int) -> InputPlan:
    stamp = found.commit_timestamp
    return InputPlan(
        name,
        VERSION,
        Window(VersionPosition(first - 1) if first else None, VersionPosition(found.version)),
        # If the log does not say it today, what was known before stays.
        source_id(found.table_id or table_id(mark.source_id if mark else None)),
        found.schema_version or (mark.fingerprint if mark else None) or "",
        stamp=stamp.astimezone(UTC).isoformat() if stamp else None,
    )


def check_active(
    pipeline_state: PipelineState,
    found: Mapping[str, Latest | TidegaugeError],
    *,
    looked: bool,
    schemas: Names | None,
) -> None:
    """Raise TableMissing or SourceError if a table that the active plan still has to read is gone or was made
    anew. `looked`: `found` was read from the tables themselves just now, with every table of `schemas`."""
    plan, status = pipeline_state.plan, pipeline_state.status
    assert plan is not None
    assert status is not None
    wanted = as_names(schemas, what="schema")
    for name, part in inputs_by_name(plan).items():
        if name in status.completed:
            continue
        answer = found.get(name)
        expected = looked and any(is_in_schema(name, schema) for schema in wanted)
        if isinstance(answer, TableMissing) or (answer is None and expected):
            first, last = version_range(part)
            raise TableMissing(
                f"{name} is gone since its versions {first} to {last} were planned",
                hint=f"bring it back, or complete the others without it; {_RESET}",
            )
        if isinstance(answer, TidegaugeError):
            raise answer
        if answer is not None:
            _check_planned(name, part, answer, looked=looked)


def _check_planned(name: str, part: InputPlan, answer: Latest, *, looked: bool) -> None:
    known = table_id(part.source_id)
    if known and answer.table_id and answer.table_id != known:
        raise _replaced_error(name, known, answer.table_id)
    _, last = version_range(part)
    # A version that the caller gives may be older than the plan, which another runner has just made.
    if looked and answer.version < last:
        raise SourceError(
            f"{name} is at version {answer.version}, below {last}, which is planned: it was made anew",
            hint=_RESET,
        )


def _check_identity(name: str, found: Latest, mark: Watermark | None, *, allow_schema_change: bool) -> None:
    if mark is None:
        return
    known = table_id(mark.source_id)
    if known and found.table_id and found.table_id != known:
        raise _replaced_error(name, known, found.table_id)
    done = version_of(mark.position)
    if done is not None and found.version < done:
        raise SourceError(
            f"{name} is at version {found.version}, below {done}, which was processed: it was made anew or"
            " restored from a copy",
            hint=_RESET,
        )
    before = mark.fingerprint
    if before and found.schema_version and found.schema_version != before and not allow_schema_change:
        raise SourceError(
            f"{name} has other columns than when it was last processed (schema {before}, now"
            f" {found.schema_version})",
            hint="look at what changed, then give allow_schema_change=True",
        )


def _check_baseline(baseline: Baseline) -> None:
    values = baseline.values() if isinstance(baseline, Mapping) else [baseline]
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise ConfigError(
                f"{value!r} is not a baseline", hint="it is the first version to process: 0 or more"
            )


def _first_version(name: str, baseline: Baseline) -> int:
    return baseline.get(name, 0) if isinstance(baseline, Mapping) else baseline


def _note_missing(
    pipeline_state: PipelineState, latest: Mapping[str, Latest], schemas: Names | None
) -> tuple[str, ...]:
    wanted = as_names(schemas, what="schema")
    return tuple(
        f"{name} was processed up to version {done} and is not there any more"
        for name, mark in pipeline_state.marks.items()
        if name not in latest
        and (done := version_of(mark.position)) is not None
        and any(is_in_schema(name, schema) for schema in wanted)
    )


def _replaced_error(name: str, before: str, now: str) -> SourceError:
    return SourceError(
        f"{name} is another table than the one that was processed (id {before}, now {now}): it was made anew",
        hint=_RESET,
    )
