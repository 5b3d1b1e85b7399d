"""High-water marks, which the caller moves once the rows are there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from tidegauge.errors import ConfigError, TidegaugeError, WrongState
from tidegauge.model.plan import Batch, Draft, InputPlan
from tidegauge.model.position import RowPosition, Window
from tidegauge.tracker.ledger import TRIES, TrackerLedger, busy_error, check_rows, describe_error, new_id
from tidegauge.tracker.moment import (
    TimeLike,
    from_position,
    future_error,
    read_moment,
    to_position,
    to_utc,
    with_utc,
)
from tidegauge.tracker.pipeline_state import SOURCE, TIME, PipelineState, kind_of, peek, source_id

_AHEAD = timedelta(seconds=5)
"""How far two machines' clocks may differ before a time counts as the future."""


class HighWater:
    """A mark inside its `with` block."""

    def __init__(self, marks: HighWaterMarks, pipeline_state: PipelineState, run_id: str) -> None:
        self.last: datetime | None = from_position(pipeline_state.position)
        self.committed = False
        self._marks = marks
        self._pipeline_state = pipeline_state
        self._run_id = run_id

    def commit(self, ts: TimeLike, *, rows: int | None = None) -> None:
        """Move the mark to `ts`: the rows up to it are there. Raises WrongState if somebody has moved the
        mark since the block began."""
        if self.committed:
            raise WrongState(
                f"{self._pipeline_state.pipeline}: this block has committed already",
                hint="commit once, at the end",
            )
        self._marks.move(self._pipeline_state, ts, rows=rows, run_id=self._run_id)
        self.committed = True


class HighWaterMarks:
    def __init__(self, tracker_ledger: TrackerLedger) -> None:
        self._tracker_ledger = tracker_ledger

    def last(self, name: str) -> datetime | None:
        return from_position(self._tracker_ledger.look(name, TIME).position)

    def commit(
        self, name: str, ts: TimeLike, *, rows: int | None, force: bool, reason: str | None
    ) -> datetime:
        if force and not (reason or "").strip():
            raise ConfigError(f"{name}: force needs a reason", hint="reason=… is what the history will say")
        for _ in range(TRIES):
            pipeline_state = self._tracker_ledger.look(name, TIME)
            position = to_position(
                read_moment(ts, what=f"the timestamp for {name}"), like=pipeline_state.position
            )
            wrong = self._check_position(pipeline_state, position)
            try:
                if force and (wrong is not None or pipeline_state.plan is not None):
                    self._override_mark(pipeline_state, position, reason or "")
                else:
                    self.move(pipeline_state, ts, rows=rows, run_id=new_id())
            except WrongState as error:
                if not error.retryable:
                    raise
                continue
            moment = from_position(position)
            assert moment is not None
            return moment
        raise busy_error(name)

    def move(self, pipeline_state: PipelineState, ts: TimeLike, *, rows: int | None, run_id: str) -> None:
        name = pipeline_state.pipeline
        position = to_position(
            read_moment(ts, what=f"the timestamp for {name}"), like=pipeline_state.position
        )
        wrong = self._check_position(pipeline_state, position)
        if wrong is not None:
            raise wrong
        if pipeline_state.plan is not None:
            state = pipeline_state.status.state if pipeline_state.status else "RUNNING"
            raise WrongState(
                f"{name} has a run that has not ended ({state}), and its window would be overtaken",
                hint="finalize it, or start it again and finalize that; force=True and a reason give it up",
            )
        window = Window(pipeline_state.position, position)
        part = InputPlan(SOURCE, TIME, window, source_id(), "")
        draft = Draft(name, name, (part,), (Batch((window,)),), seen=pipeline_state.seen)
        self._tracker_ledger.ledger.move(
            draft, owner=self._tracker_ledger.owner, run_id=run_id, rows=check_rows(rows)
        )

    @contextmanager
    def state(self, name: str) -> Iterator[HighWater]:
        tracker_ledger, run_id = self._tracker_ledger, new_id()
        pipeline_state = tracker_ledger.look(name, TIME)
        mark = HighWater(self, pipeline_state, run_id)
        try:
            yield mark
        except BaseException as error:
            try:
                if not mark.committed:
                    tracker_ledger.ledger.refuse(
                        name, name, describe_error(error), owner=tracker_ledger.owner, run_id=run_id
                    )
            except TidegaugeError as fault:
                error.add_note(f"and the ledger did not take that it failed: {fault.sentence}")
            raise
        if not mark.committed:
            nothing = Draft(name, name, (), (), seen=pipeline_state.seen)
            tracker_ledger.ledger.plan([nothing], owner=tracker_ledger.owner, run_id=run_id)

    def lag(self, name: str | None) -> dict[str, float | None]:
        ledger = self._tracker_ledger.ledger
        now = with_utc(ledger.now())
        found: dict[str, float | None] = {}
        for one in ledger.pipelines() if name is None else [name]:
            pipeline_state = peek(ledger, one) if name is None else self._tracker_ledger.look(one, TIME)
            if pipeline_state is None or (name is None and kind_of(pipeline_state) != TIME):
                continue
            last = from_position(pipeline_state.position)
            found[one] = None if last is None else max(0.0, (now - to_utc(last)).total_seconds())
        return found

    def _check_position(self, pipeline_state: PipelineState, position: RowPosition) -> ConfigError | None:
        name, last = pipeline_state.pipeline, pipeline_state.position
        if last is not None and position < last:
            return ConfigError(
                f"{name} stands at {from_position(last)}, and {from_position(position)} is before that",
                hint="rows would be processed again; if that is meant, give force=True and a reason",
            )
        moment, now = from_position(position), with_utc(self._tracker_ledger.ledger.now())
        assert moment is not None
        return future_error(
            f"{name}: {moment}", moment, now, tolerated=_AHEAD, way_out="force=True and a reason"
        )

    def _override_mark(self, pipeline_state: PipelineState, position: RowPosition, reason: str) -> None:
        ledger, name = self._tracker_ledger.ledger, pipeline_state.pipeline
        override = ledger.begin_override(
            name, name, "set", {SOURCE: position}, owner=self._tracker_ledger.owner, reason=reason
        )
        ledger.end_override(name, name, epoch=override.epoch)
