"""Runs over windows of time, each frozen when its run starts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta

from tidegauge.errors import ConfigError, TidegaugeError, WrongState
from tidegauge.model.claim import Claim
from tidegauge.model.plan import Batch, Draft, InputPlan
from tidegauge.model.position import Position, Window
from tidegauge.model.state import State
from tidegauge.tracker.ledger import (
    TRIES,
    Error,
    TrackerLedger,
    busy_error,
    check_rows,
    describe_error,
    new_id,
)
from tidegauge.tracker.moment import TimeLike, from_position, future_error, read_moment, to_position, with_utc
from tidegauge.tracker.pipeline_state import SOURCE, TIME, PipelineState, kind_of, peek, source_id
from tidegauge.tracker.record import (
    ENDS,
    WatermarkRecord,
    current_record,
    past_records,
    sort_records,
    start_record,
)
from tidegauge.tracker.window import TimeWindow

_FINAL = (State.SUCCESS, State.FAILED, State.SKIPPED)
_ROUNDING = timedelta(seconds=2)
"""How far the store's clock may be behind a window that has ended: some stores' clocks are rounded down."""
_SKEW = timedelta(minutes=5)
"""How far the clock that an `end` was read from may be ahead of the store's: a source has its own."""
_EVENTS = 100_000
"""How many events of the history are read to list records."""
_RECENT = 100
"""How many events of the history are searched for the end of a run that has just ended."""


class Run:
    """A run inside its `with` block."""

    def __init__(self, record: WatermarkRecord, window: TimeWindow) -> None:
        self.record = record
        self.window = window
        self.rows: int | None = None
        """How many rows the block has written; None if it does not say."""
        self.skipped: str | None = None
        """Why the block has skipped its window; None if it has not."""

    @property
    def job_id(self) -> str | None:
        return self.record.job_id

    def skip(self, reason: str = "") -> None:
        """End as SKIPPED: the next run begins where this one did."""
        self.skipped = reason


class Windows:
    def __init__(self, tracker_ledger: TrackerLedger) -> None:
        self._tracker_ledger = tracker_ledger

    def start(
        self, pipeline: str, job_id: str | None, end: TimeLike | None, *, allow_future: bool
    ) -> WatermarkRecord:
        job_id = new_id() if job_id is None else job_id
        if not isinstance(job_id, str) or not job_id:
            raise ConfigError(f"{job_id!r} is not the id of a job", hint="give it some text")
        wanted = None if end is None else read_moment(end, what=f"the end of {pipeline}'s window")
        for _ in range(TRIES):
            record = self._try_start(pipeline, job_id, wanted, allow_future=allow_future)
            if record is not None:
                return record
        raise busy_error(pipeline)

    def _try_start(
        self, pipeline: str, job_id: str, end: datetime | None, *, allow_future: bool
    ) -> WatermarkRecord | None:
        """Plan and claim a window once; None if another runner came between."""
        tracker_ledger = self._tracker_ledger
        pipeline_state = tracker_ledger.look(pipeline, TIME)
        plan, status = pipeline_state.plan, pipeline_state.status
        if plan is None:
            upto = self._end(pipeline_state, end, allow_future=allow_future)
            kept = tracker_ledger.ledger.plan(
                [_make_draft(pipeline_state, upto)], owner=tracker_ledger.owner, run_id=job_id
            )
            plan = kept.get(pipeline)
            if plan is None:
                return None
            [status] = tracker_ledger.ledger.status(pipeline, [pipeline])
        try:
            claim = tracker_ledger.claim(plan, status, run_id=job_id)
        except WrongState as error:
            if not error.retryable:
                raise
            return None
        at = claim.lease_until - tracker_ledger.lease
        return start_record(plan, claim, (status and status.planned_at) or at, at)

    def _end(self, pipeline_state: PipelineState, end: datetime | None, *, allow_future: bool) -> Position:
        """The end of the next window. Raises ConfigError if it lies in the future, or before the start."""
        after = pipeline_state.position
        now = with_utc(self._tracker_ledger.ledger.now())
        if end is None:
            upto = to_position(now, like=after)
            if after is not None and upto < after and _distance(upto, after) <= _ROUNDING:
                return after
        else:
            upto = to_position(end, like=after)
            shown = f"{pipeline_state.pipeline}: the end that was given, {end},"
            wrong = future_error(shown, end, now, tolerated=_SKEW, way_out="allow_future=True")
            if wrong is not None and not allow_future:
                raise wrong
        if after is not None and upto < after:
            what = "the ledger's clock" if end is None else "the end that was given"
            raise ConfigError(
                f"{pipeline_state.pipeline}: the window would end at {from_position(upto)} ({what}), before"
                f" its start at {from_position(after)}",
                hint="a watermark is moved back with commit_processing_state(…, force=True, reason=…)",
            )
        return upto

    def window(self, pipeline: str) -> TimeWindow:
        pipeline_state = self._tracker_ledger.look(pipeline, TIME)
        plan, status = pipeline_state.plan, pipeline_state.status
        if plan is None or status is None or status.state is not State.RUNNING:
            state = status.state if status else State.READY
            raise WrongState(
                f"{pipeline} has no run that is open: it is {state}",
                hint="start_pipeline_run freezes a window",
            )
        return _to_time_window(plan.draft.batches[0].windows[0])

    def finalize(
        self, record: WatermarkRecord, status: str, *, rows: int | None, error: Error | None
    ) -> WatermarkRecord:
        state = _parse_final(status)
        claim = record.claim
        if claim is None:
            raise ConfigError(
                f"{record.pipeline_name}: this record was listed, not started: there is nothing to finalize",
                hint="give the record that start_pipeline_run answered",
            )
        check_rows(rows)
        logged = None if error is None else describe_error(error)
        if state is State.SUCCESS:
            self._tracker_ledger.complete(claim, {SOURCE: rows})
        else:
            self._tracker_ledger.finish(
                claim, state, logged or (describe_error("") if state is State.FAILED else None)
            )
        ended = self._find_end_time(claim)
        return replace(
            record,
            status=state.value,
            updated_at=ended,
            error_message=str(logged["message"]) if logged else None,
            run_duration=(ended - record.updated_at).total_seconds(),
            records_processed=rows if state is State.SUCCESS else None,
        )

    def _find_end_time(self, claim: Claim) -> datetime:
        """When this attempt ended by the ledger's history, which `records` reads too."""
        name = claim.plan.draft.flow
        mine = claim.plan.plan_id, claim.run_id
        for event in self._tracker_ledger.ledger.history(name, flow=name, limit=_RECENT):
            if (event.plan_id, event.run_id) == mine and event.event in ENDS:
                return with_utc(event.at)
        return with_utc(
            self._tracker_ledger.ledger.now()
        )  # the event was pruned, or too many others have followed

    @contextmanager
    def run(
        self, pipeline: str, job_id: str | None, end: TimeLike | None, *, allow_future: bool
    ) -> Iterator[Run]:
        record = self.start(pipeline, job_id, end, allow_future=allow_future)
        assert record.current_run_ts is not None
        run = Run(record, TimeWindow(record.last_processed_ts, record.current_run_ts))
        try:
            yield run
        except BaseException as error:
            try:
                self.finalize(record, State.FAILED, rows=None, error=error)
            except TidegaugeError as fault:
                error.add_note(f"and the ledger did not take that it failed: {fault.sentence}")
            raise
        if run.skipped is not None:
            run.record = self.finalize(record, State.SKIPPED, rows=None, error=run.skipped or None)
        else:
            run.record = self.finalize(record, State.SUCCESS, rows=run.rows, error=None)

    def records(self, pipeline: str | None) -> list[WatermarkRecord]:
        if pipeline is not None:
            return sort_records(self._list_records(self._tracker_ledger.look(pipeline, TIME)))
        ledger = self._tracker_ledger.ledger
        every = [peek(ledger, name) for name in ledger.pipelines()]
        timed = [one for one in every if one is not None and kind_of(one) == TIME]
        return sort_records(record for one in timed for record in self._list_records(one))

    def _list_records(self, pipeline_state: PipelineState) -> list[WatermarkRecord]:
        name, plan = pipeline_state.pipeline, pipeline_state.plan
        events = self._tracker_ledger.ledger.history(name, flow=name, limit=_EVENTS)
        ended = past_records(name, events, but=plan.plan_id if plan else None)
        now = current_record(pipeline_state)
        if now is None:
            return ended
        # The next run takes up a skipped record, so that both are one.
        again = [one for one in ended if one.status == State.SKIPPED and one.watermark_id == now.watermark_id]
        if plan is None and again:
            return ended
        return [*(one for one in ended if one not in again), now]


def _make_draft(pipeline_state: PipelineState, upto: Position) -> Draft:
    window = Window(pipeline_state.position, upto)
    part = InputPlan(SOURCE, TIME, window, source_id(), "")
    name = pipeline_state.pipeline
    return Draft(name, name, (part,), (Batch((window,)),), seen=pipeline_state.seen)


def _to_time_window(window: Window) -> TimeWindow:
    end = from_position(window.upto)
    assert end is not None
    return TimeWindow(from_position(window.after), end)


def _parse_final(status: str) -> State:
    try:
        state = State(str(status).strip().upper())
    except ValueError:
        state = State.READY
    if state not in _FINAL:
        raise ConfigError(
            f"'{str(status)[:60]}' is not how a run can end",
            hint="one of: SUCCESS (or COMPLETED), FAILED, SKIPPED",
        )
    return state


def _distance(earlier: Position, later: Position) -> timedelta:
    first, second = from_position(earlier), from_position(later)
    assert first is not None
    assert second is not None
    return second - first
