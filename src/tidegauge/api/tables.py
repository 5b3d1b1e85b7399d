"""Makes the table that people read from each kind of result, for the terminal and for notebooks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from tidegauge.model.moved_by import show_movers
from tidegauge.model.position import RowPosition, to_text
from tidegauge.model.state import NOTHING_NEW, tell_state
from tidegauge.observe.tables import Table, show_ago, show_cell, show_duration

if TYPE_CHECKING:
    from tidegauge.model.watermark import Watermark
    from tidegauge.operations.plan import FlowPreview
    from tidegauge.operations.status import FlowSummary
    from tidegauge.operations.verify import TableVerification
    from tidegauge.run.report import FlowReport, RunReport

_MOST_NAMES = 8
CHANGES = ("inserted", "updated", "deleted")
_MARKS = {True: "✓", False: "✗", None: "—"}


def plan_table(flows: Sequence[FlowPreview], notes: Sequence[str] = ()) -> Table:
    return Table(
        ("flow", "state", "rows", "batches", "by", "after", "up to", "output"),
        tuple(
            (
                flow.flow,
                _show_state(flow),
                _show_rows(flow),
                flow.batches,
                show_movers([flow.moved_by] if flow.moved_by else ()),
                flow.after,
                flow.upto,
                flow.output,
            )
            for flow in flows
        ),
        numbers=("rows", "batches"),
        notes=(
            *_merge_notes(flows),
            *(f"note: {note}" for note in notes),
        ),
    )


def _merge_notes(flows: Sequence[FlowPreview]) -> Iterator[str]:
    """Write each note once, after the names of all flows that it is about."""
    who: dict[str, list[str]] = {}
    for flow in flows:
        for note in flow.notes:
            who.setdefault(note, []).append(flow.flow)
    for note, names in who.items():
        more = f" and {len(names) - _MOST_NAMES:,} more" if len(names) > _MOST_NAMES else ""
        yield f"{', '.join(names[:_MOST_NAMES])}{more}: {note}"


def _show_state(flow: FlowPreview) -> str:
    return tell_state(flow.state, suspended=flow.suspended, prevented=flow.held_back)


def _show_rows(flow: FlowPreview) -> int | None:
    """Return how many rows a run would read; None where only the run counts them, as between Delta tables."""
    return flow.rows if flow.counted else None


def run_table(report: RunReport, *, changes: bool = True) -> Table:
    """Make a run's table. `changes` adds inserted, updated and deleted rows, if any output counts them."""
    shown = CHANGES if changes and any(map(tells_changes, report.flows)) else ()
    parts: dict[str, list[FlowReport]] = {}
    for flow in report.flows:
        parts.setdefault(flow.flow, []).append(flow)
    return Table(
        ("flow", "state", "batches", "rows", *shown, "seconds", "by", "up to"),
        tuple(_make_run_row(same, shown) for same in parts.values()),
        numbers=("batches", "rows", *CHANGES, "seconds"),
    )


def tells_changes(flow: FlowReport) -> bool:
    """Whether the flow's output counts inserted, updated and deleted rows."""
    return any(one.inserted is not None for one in flow.receipts)


def _make_run_row(parts: Sequence[FlowReport], changes: Sequence[str]) -> tuple[object, ...]:
    """Make one flow's row from its reports: two, with both counts shown, if an earlier plan ended first."""
    told = [one for one in parts if one.told_state != NOTHING_NEW] or parts[-1:]
    return (
        parts[-1].flow,
        ", ".join(dict.fromkeys(one.told_state for one in told)),
        _join_counts([one.batches for one in told]),
        _join_counts([one.rows for one in told]),
        *(_join_counts([one.count(which) for one in told]) for which in changes),
        f"{sum(one.seconds for one in parts):.1f}",
        show_movers(dict.fromkeys(mover for one in parts for mover in one.moved_by)),
        _show_upto(parts[-1]),
    )


def _join_counts(counts: Sequence[int | None]) -> object:
    return " + ".join(map(show_cell, counts)) if any(counts) and len(counts) > 1 else counts[0]


def _show_upto(flow: FlowReport) -> str | None:
    window = flow.draft.inputs[0].window if flow.draft and flow.draft.inputs else None
    if window is None:
        return None
    return window.upto.cursor.text if isinstance(window.upto, RowPosition) else to_text(window.upto)


def status_table(flows: Sequence[FlowSummary], now: datetime) -> Table:
    return Table(
        ("flow", "state", "watermark", "checked", "lag", "rows", "took", "last run", "waits for"),
        tuple(
            (
                one.flow,
                one.told_state,
                _list_inputs(one.watermarks_text, named=one.reads_versions),
                _list_inputs(one.checked_text, named=one.reads_versions),
                show_duration(one.lag_seconds) if one.lag_seconds is not None else None,
                one.last_run.rows_written if one.last_run else None,
                show_duration(one.seconds) if one.seconds is not None else None,
                show_ago(one.last_run.started_at, now) if one.last_run else None,
                one.waits_for,
            )
            for one in flows
        ),
        numbers=("rows", "lag", "took"),
    )


def _list_inputs(positions: Mapping[str, str], *, named: bool) -> str:
    """List the positions, each with its input's name if the flow's name does not tell which input it is."""
    several = named or len(positions) > 1
    return ", ".join(f"{name}: {where}" if several else where for name, where in positions.items())


def verify_table(results: Sequence[TableVerification]) -> Table:
    return Table(
        ("table", "equal", "source rows", "target rows", "missing", "extra", "different", "newer", "by"),
        tuple(
            (
                one.table,
                _MARKS[one.equal],
                *(
                    (d.source_rows, d.target_rows, d.missing, d.extra, d.different, d.newer, d.method)
                    if (d := one.difference)
                    else (None,) * 7
                ),
            )
            for one in results
        ),
        numbers=("source rows", "target rows", "missing", "extra", "different", "newer"),
        notes=tuple(said for one in results for said in _explain_verified(one)),
    )


def _explain_verified(one: TableVerification) -> list[str]:
    found = one.difference
    examples = [f"{one.table}: {kind}: {key}" for kind, key in found.examples] if found else []
    why = [f"{one.table}: compared row by row: {found.why_rows}"] if found and found.why_rows else []
    return [*examples, *why, *(f"{one.table}: {note}" for note in one.notes)]


def watermark_table(marks: Sequence[Watermark], now: datetime) -> Table:
    return Table(
        ("flow", "input", "cursor", "position", "checked", "epoch", "batches", "moved"),
        tuple(
            (
                one.flow,
                one.input,
                one.cursor,
                to_text(one.position),
                to_text(one.checked) if one.checked else "—",
                one.epoch,
                one.seq,
                show_ago(one.updated_at, now),
            )
            for one in marks
        ),
        numbers=("epoch", "batches"),
    )
