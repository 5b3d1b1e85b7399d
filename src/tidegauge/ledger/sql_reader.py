"""Read a ledger: watermarks, the state of flows, history. Never writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Self, TypeVar

from sqlalchemy import Connection, Engine, Row, Select, and_, bindparam, case, func, select
from sqlalchemy.exc import DBAPIError

from tidegauge.ledger.database_errors import translate_database_error
from tidegauge.ledger.flow_status import watermark_of
from tidegauge.ledger.journal import kinds_of
from tidegauge.ledger.keys import flow_key, pipeline_key
from tidegauge.ledger.record_numbers import RecordNumber
from tidegauge.ledger.schedule_json import BEGINNING, schedule_of_tally
from tidegauge.ledger.sql_clock import store_now
from tidegauge.ledger.sql_rows import (
    completed_of,
    mark_of,
    override_of,
    owner_of,
    plan_of,
    run_of,
    tallies_of,
    undo_of,
)
from tidegauge.ledger.sql_tables import flows, history, metadata, plans, runs, watermarks
from tidegauge.model.position import decode
from tidegauge.model.run import COUNTS, EventTotals, FlowStatus, HistoryEvent, RunRecord, RunTotals
from tidegauge.model.state import State
from tidegauge.model.suspension import ALL
from tidegauge.model.ticks import SchedulerRecords
from tidegauge.model.watermark import Tally, Watermark

_last = runs.alias("last")
_runs = runs
_heads = flows
"""Other names of the tables `runs` and `flows`, where a parameter or a method has the table's name."""
_SCHEDULE = case(
    (flows.c.tally_body.startswith(BEGINNING, autoescape=True), flows.c.tally_body), else_=None
).label("schedule_text")
"""The column `tally_body` where it has a suspension or ticks, else NULL: other tallies are long."""
_CHUNK = 20_000
"""How many attempts are searched at once for those of a run."""
_OWNER = (plans.c.owner_actor, plans.c.owner_host, plans.c.owner_pid, plans.c.owner_started)

_Found = TypeVar("_Found")


class SqlReader:
    """Implements LedgerReader over a store that has the ledger's tables."""

    def __init__(self, engine: Engine, shown: str) -> None:
        self._engine = engine
        self.shown = shown
        """The address as errors may name it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._engine.dispose()

    def now(self) -> datetime:
        found: datetime = self._fetch_all(select(store_now()))[0][0]
        return found

    def watermarks(self, pipeline: str, flows: Sequence[str] | None = None) -> list[Watermark]:
        query = _filter_flows(
            select(watermarks), watermarks.c.flow_key, watermarks.c.pipeline_key, pipeline, flows
        )
        found = [watermark_of(row.pipeline, row.flow, mark_of(row)) for row in self._fetch_all(query)]
        return sorted(found, key=lambda mark: (mark.flow, mark.input))

    def status(self, pipeline: str, flows: Sequence[str] | None = None) -> list[FlowStatus]:
        query, values = _status_query(pipeline, flows)
        return sorted(map(_status, self._fetch_all(query, values)), key=lambda status: status.flow)

    def tallies(self, pipeline: str, flows: Sequence[str]) -> dict[str, Tally]:
        query = select(_heads).where(_heads.c.flow_key.in_([flow_key(pipeline, flow) for flow in flows]))
        return {
            row.flow: replace(tallies_of(row)[0], created_at=row.created_at, updated_at=row.updated_at)
            for row in self._fetch_all(query)
        }

    def history(
        self,
        pipeline: str,
        *,
        flow: str | None = None,
        failed: bool = False,
        events: Sequence[str] | None = None,
        limit: int = 20,
    ) -> list[HistoryEvent]:
        query = select(history).order_by(history.c.id.desc()).limit(limit)
        if flow is None:
            query = query.where(history.c.pipeline_key == pipeline_key(pipeline))
        else:
            query = query.where(history.c.flow_key == flow_key(pipeline, flow))
        kinds = kinds_of(events, failed=failed)
        if kinds is None:
            return [_event(row) for row in self._fetch_all(query)]
        # One walk down an index for each kind, instead of one past the events of all other kinds.
        rows = [row for kind in kinds for row in self._fetch_all(query.where(history.c.event == kind))]
        return [_event(row) for row in sorted(rows, key=lambda row: row.id, reverse=True)[:limit]]

    def runs(
        self,
        pipeline: str,
        *,
        since: datetime = datetime.min,
        flow: str | None = None,
        run_id: str | None = None,
        limit: int | None = None,
    ) -> list[RunRecord]:
        query = select(_runs).order_by(_runs.c.id.desc()).limit(limit)
        if flow is not None:
            query = query.where(_runs.c.flow_key == flow_key(pipeline, flow))
        elif run_id is not None:
            query = query.where(_runs.c.pipeline == pipeline)
        else:
            query = query.join(flows, flows.c.flow_key == _runs.c.flow_key)
            query = query.where(flows.c.pipeline_key == pipeline_key(pipeline))
        if since != datetime.min:
            query = query.where(_runs.c.started_at >= since)
        if run_id is None:
            return [run_of(row) for row in self._fetch_all(query)]
        query = query.where(_runs.c.run_id == run_id)
        return [run_of(row) for row in self._find_rows_of_run(query)][:limit]

    def run_totals(self, pipeline: str) -> list[RunTotals]:
        sums = [func.coalesce(func.sum(_runs.c[name]), 0).label(name) for name in COUNTS]
        query = (
            select(func.max(_runs.c.flow).label("flow"), _runs.c.state, func.count().label("runs"), *sums)
            .join(flows, flows.c.flow_key == _runs.c.flow_key)
            .where(flows.c.pipeline_key == pipeline_key(pipeline))
            .group_by(_runs.c.flow_key, _runs.c.state)
        )
        found = [
            RunTotals(
                row.flow, State(row.state), row.runs, **{name: int(getattr(row, name)) for name in COUNTS}
            )
            for row in self._fetch_all(query)
        ]
        return sorted(found, key=lambda one: (one.flow, one.state))

    def event_totals(self, pipeline: str) -> list[EventTotals]:
        rows = func.coalesce(func.sum(history.c.row_count), 0)
        query = (
            select(func.max(history.c.flow), history.c.event, func.count(), rows)
            .where(history.c.pipeline_key == pipeline_key(pipeline))
            .group_by(history.c.flow_key, history.c.event)
        )
        found = [
            EventTotals(flow, event, many, int(count)) for flow, event, many, count in self._fetch_all(query)
        ]
        return sorted(found, key=lambda one: (one.flow, one.event))

    def pipelines(self) -> list[str]:
        return sorted({row.pipeline for row in self._fetch_all(select(flows.c.pipeline).distinct())})

    def ticks(self, pipeline: str) -> SchedulerRecords:
        query = select(_SCHEDULE).where(flows.c.flow_key == flow_key(pipeline, ALL))
        found = self._fetch_all(query)
        return schedule_of_tally(found[0].schedule_text if found else None)[1]

    def find_plan(self, plan_id: str) -> tuple[str, str, bool] | None:
        query = select(plans.c.pipeline, plans.c.flow, plans.c.active).where(plans.c.plan_id == plan_id)
        found = self._fetch_all(query)
        return (found[0].pipeline, found[0].flow, found[0].active == 1) if found else None

    def table_rows(self, table: str) -> list[dict[str, Any]]:
        """All rows of one of the ledger's tables, oldest first."""
        wanted = metadata.tables[table]
        return [
            row._asdict() for row in self._fetch_all(select(wanted).order_by(*wanted.primary_key.columns))
        ]

    def record_numbers(self) -> list[RecordNumber]:
        """Empty: the database's own view numbers the records."""
        return []

    def rows(self, sql: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """The rows of a query in the server's own SQL, with a NUL character in the place of each value."""
        query = sql.replace("%", "%%").replace("\0", "%s") if values else sql
        return self._read(
            lambda connection: [
                tuple(row) for row in connection.exec_driver_sql(query, tuple(values) or None)
            ]
        )

    def _fetch_all(self, query: Select[Any], values: Mapping[str, Any] | None = None) -> Sequence[Any]:
        """All rows of a query. The connection is given back at once: a server ends idle transactions."""
        return self._read(lambda connection: connection.execute(query, values).all())

    def _find_rows_of_run(self, query: Select[Any]) -> list[Row[Any]]:
        """The rows of one run, newest first. No index has them, but they lie close together, and mostly near
        the end of the table."""
        [[top]] = self._fetch_all(select(func.coalesce(func.max(_runs.c.id), 0)))
        found: list[Row[Any]] = []
        while top > 0:
            rows = self._fetch_all(query.where(_runs.c.id > top - _CHUNK, _runs.c.id <= top))
            if found and not rows:
                break
            found += rows
            top -= _CHUNK
        return found

    def _read(self, read: Callable[[Connection], _Found]) -> _Found:
        with translate_database_error(self.shown):
            try:
                return self._read_once(read)
            except DBAPIError as error:
                if not error.connection_invalidated:
                    raise
                self._drop_dead_connections()
                return self._read_once(read)

    def _read_once(self, read: Callable[[Connection], _Found]) -> _Found:
        with self._engine.connect() as connection:
            return read(connection)

    def _drop_dead_connections(self) -> None:
        """Drop all idle connections, after one of them was found dead: the server was restarted, or has ended
        idle sessions, so the others may be dead too. Connections in use stay as they are."""
        self._engine.dispose()


def _filter_flows(
    query: Select[Any], by_flow: Any, by_pipeline: Any, pipeline: str, names: Sequence[str] | None
) -> Select[Any]:
    if names is None:
        return query.where(by_pipeline == pipeline_key(pipeline))
    return query.where(by_flow.in_([flow_key(pipeline, name) for name in names]))


def _make_status_query() -> Select[Any]:
    # The newest run of a flow is one step into an index, however many there have been.
    newest = select(func.max(runs.c.id)).where(runs.c.flow_key == flows.c.flow_key).scalar_subquery()
    return (
        select(
            flows.c.pipeline,
            flows.c.flow,
            flows.c.idle_state,
            flows.c.fence,
            flows.c.override_body,
            flows.c.undo_body,
            _SCHEDULE,
            plans.c.plan_id,
            plans.c.state,
            plans.c.epoch,
            plans.c.first_seq,
            plans.c.done,
            plans.c.body,
            plans.c.completed,
            plans.c.created_at.label("planned_at"),
            plans.c.lease_until,
            *_OWNER,
            *(column.label(f"last_{column.name}") for column in _last.c),
        )
        .select_from(flows)
        .outerjoin(plans, and_(plans.c.flow_key == flows.c.flow_key, plans.c.active == 1))
        .outerjoin(_last, and_(_last.c.flow_key == flows.c.flow_key, _last.c.id == newest))
    )


# Made once: putting a statement together costs more than running it.
_STATUS = _make_status_query()
_STATUS_OF = _STATUS.where(flows.c.flow_key.in_(bindparam("keys", expanding=True)))


def _status_query(pipeline: str, names: Sequence[str] | None) -> tuple[Select[Any], dict[str, list[str]]]:
    if names is not None:
        return _STATUS_OF, {"keys": [flow_key(pipeline, name) for name in names]}
    query = _STATUS.where(flows.c.flow_key != flow_key(pipeline, ALL))
    return query.where(flows.c.pipeline_key == pipeline_key(pipeline)), {}


def _status(row: Row[Any]) -> FlowStatus:
    active = row.plan_id is not None
    return FlowStatus(
        pipeline=row.pipeline,
        flow=row.flow,
        state=State(row.state if active else row.idle_state),
        plan=plan_of(row) if active else None,
        fence=row.fence,
        owner=owner_of(row) if active else None,
        lease_until=row.lease_until,
        last_run=run_of(row, "last_") if row.last_id is not None else None,
        completed=completed_of(row) if active else frozenset(),
        planned_at=row.planned_at,
        override=override_of(row.override_body),
        undo=undo_of(row.undo_body),
        suspended=schedule_of_tally(row.schedule_text)[0],
    )


def _event(row: Row[Any]) -> HistoryEvent:
    return HistoryEvent(
        at=row.at,
        pipeline=row.pipeline,
        flow=row.flow,
        run_id=row.run_id,
        event=row.event,
        actor=row.actor,
        reason=row.reason,
        before=None if row.position_before is None else decode(row.position_before),
        after=None if row.position_after is None else decode(row.position_after),
        error=row.error,
        input=row.input,
        plan_id=row.plan_id,
        rows=row.row_count,
        seconds=row.seconds,
    )
