"""Document 003: a high-water mark that the caller moves once his rows are there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from tidegauge.errors import ConfigError, TidegaugeError, WrongState
from tidegauge.model.plan import Batch, Draft, InputPlan
from tidegauge.model.position import RowPosition, Window
from tidegauge.tracker.ledger import TRIES, TrackerLedger, busy, check_rows, described, new_id
from tidegauge.tracker.moment import Moment, ahead, aware, from_position, read, to_position, to_utc
from tidegauge.tracker.pipeline_state import SOURCE, TIME, PipelineState, kind_of, peek, source_id

_AHEAD = timedelta(seconds=5)
"""How far two machines' clocks may differ before a time counts as the future."""


class HighWater:
    """A mark inside its `with` block."""

    def __init__(self, marks: HighWaterMarks, standing: PipelineState, run_id: str) -> None:
        self.last: datetime | None = from_position(standing.position)
        self.committed = False
        self._marks = marks
        self._standing = standing
        self._run_id = run_id

    def commit(self, ts: Moment, *, rows: int | None = None) -> None:
        """The rows up to `ts` are there. Refused when somebody has moved the mark since the block began."""
        if self.committed:
            raise WrongState(
                f"{self._standing.pipeline}: this block has committed already", hint="commit once, at the end"
            )
        self._marks.move(self._standing, ts, rows=rows, run_id=self._run_id)
        self.committed = True


class HighWaterMarks:
    def __init__(self, tracker_ledger: TrackerLedger) -> None:
        self._tracker_ledger = tracker_ledger

    def last(self, name: str) -> datetime | None:
        return from_position(self._tracker_ledger.look(name, TIME).position)

    def commit(self, name: str, ts: Moment, *, rows: int | None, force: bool, reason: str | None) -> datetime:
        if force and not (reason or "").strip():
            raise ConfigError(f"{name}: force needs a reason", hint="reason=… is what the history will say")
        for _ in range(TRIES):
            standing = self._tracker_ledger.look(name, TIME)
            position = to_position(read(ts, what=f"the timestamp for {name}"), like=standing.position)
            wrong = self._wrong(standing, position)
            try:
                if force and (wrong is not None or standing.plan is not None):
                    self._set(standing, position, reason or "")
                else:
                    self.move(standing, ts, rows=rows, run_id=new_id())
            except WrongState as error:
                if not error.retryable:
                    raise
                continue
            moment = from_position(position)
            assert moment is not None
            return moment
        raise busy(name)

    def move(self, standing: PipelineState, ts: Moment, *, rows: int | None, run_id: str) -> None:
        name = standing.pipeline
        position = to_position(read(ts, what=f"the timestamp for {name}"), like=standing.position)
        wrong = self._wrong(standing, position)
        if wrong is not None:
            raise wrong
        if standing.plan is not None:
            state = standing.status.state if standing.status else "RUNNING"
            raise WrongState(
                f"{name} has a run that has not ended ({state}), and its window would be overtaken",
                hint="finalize it, or start it again and finalize that; force=True and a reason give it up",
            )
        window = Window(standing.position, position)
        part = InputPlan(SOURCE, TIME, window, source_id(), "")
        draft = Draft(name, name, (part,), (Batch((window,)),), seen=standing.seen)
        self._tracker_ledger.ledger.move(
            draft, owner=self._tracker_ledger.owner, run_id=run_id, rows=check_rows(rows)
        )

    @contextmanager
    def state(self, name: str) -> Iterator[HighWater]:
        tracker_ledger, run_id = self._tracker_ledger, new_id()
        standing = tracker_ledger.look(name, TIME)
        mark = HighWater(self, standing, run_id)
        try:
            yield mark
        except BaseException as error:
            try:
                if not mark.committed:
                    tracker_ledger.ledger.refuse(
                        name, name, described(error), owner=tracker_ledger.owner, run_id=run_id
                    )
            except TidegaugeError as fault:
                error.add_note(f"and the ledger did not take that it failed: {fault}")
            raise
        if not mark.committed:
            nothing = Draft(name, name, (), (), seen=standing.seen)
            tracker_ledger.ledger.plan([nothing], owner=tracker_ledger.owner, run_id=run_id)

    def lag(self, name: str | None) -> dict[str, float | None]:
        ledger = self._tracker_ledger.ledger
        now = aware(ledger.now())
        found: dict[str, float | None] = {}
        for one in ledger.pipelines() if name is None else [name]:
            standing = peek(ledger, one) if name is None else self._tracker_ledger.look(one, TIME)
            if standing is None or (name is None and kind_of(standing) != TIME):
                continue
            last = from_position(standing.position)
            found[one] = None if last is None else max(0.0, (now - to_utc(last)).total_seconds())
        return found

    def _wrong(self, standing: PipelineState, position: RowPosition) -> ConfigError | None:
        name, last = standing.pipeline, standing.position
        if last is not None and position < last:
            return ConfigError(
                f"{name} stands at {from_position(last)}, and {from_position(position)} is before that",
                hint="rows would be processed again; if that is meant, give force=True and a reason",
            )
        moment, now = from_position(position), aware(self._tracker_ledger.ledger.now())
        assert moment is not None
        return ahead(f"{name}: {moment}", moment, now, tolerated=_AHEAD, way_out="force=True and a reason")

    def _set(self, standing: PipelineState, position: RowPosition, reason: str) -> None:
        ledger, name = self._tracker_ledger.ledger, standing.pipeline
        override = ledger.begin_override(
            name, name, "set", {SOURCE: position}, owner=self._tracker_ledger.owner, reason=reason
        )
        ledger.end_override(name, name, epoch=override.epoch)
