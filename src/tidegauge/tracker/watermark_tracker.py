"""The ledger by itself, inside your own job: time windows, version ranges and high-water marks.

Needs no YAML, and starts no Spark."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from tidegauge.config.durations import parse_duration
from tidegauge.errors import ConfigError
from tidegauge.ledger.open import open_ledger
from tidegauge.model.run import HistoryEvent
from tidegauge.model.secret import Secret
from tidegauge.tracker.address import look_up as locate_ledger
from tidegauge.tracker.address import parse_schema_name, register_tables
from tidegauge.tracker.completion import Processing, Records
from tidegauge.tracker.high_water import HighWater, HighWaterMarks
from tidegauge.tracker.latest import Names, Tables, look_up, raise_first
from tidegauge.tracker.ledger import Error, TrackerLedger
from tidegauge.tracker.moment import TimeLike, with_utc
from tidegauge.tracker.processing import ProcessingPlan, Range, TablePlan
from tidegauge.tracker.ranges import Baseline
from tidegauge.tracker.record import WatermarkRecord
from tidegauge.tracker.reset import reset
from tidegauge.tracker.versions import Versions
from tidegauge.tracker.window import TimeWindow
from tidegauge.tracker.windows import Run, Windows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "HighWater",
    "Processing",
    "ProcessingPlan",
    "Run",
    "TablePlan",
    "TimeWindow",
    "WatermarkRecord",
    "WatermarkTracker",
]


class WatermarkTracker:
    """Watermarks at any ledger address. Safe to share between threads; each process has its own.

    A heartbeat renews the leases of a tracker's runs until they are finalized, or until the tracker is closed
    or collected, or the process ends. `close`, or leaving its `with` block, gives back runs that are still
    open: the next runner has the same window at once.

    `delta:CATALOGUE.SCHEMA` is a ledger in the schema of that name; `spark` is asked once where it lies, and
    the ledger's tables are registered in its catalogue. No other address needs `spark`.

    A pipeline has either a point in time (time windows, high-water marks) or version ranges. Asking it for
    the other kind raises ConfigError.
    """

    def __init__(
        self,
        address: str | Secret,
        *,
        lease: str | timedelta = "60s",
        actor: str | None = None,
        spark: SparkSession | None = None,
    ) -> None:
        length = _duration(lease)
        if length < timedelta(seconds=1):
            raise ConfigError("a lease is a second at least", hint="leave it out, or write lease='60s'")
        schema = parse_schema_name(address)
        if spark is not None and schema is not None:
            address = locate_ledger(spark, schema)
            self._ledger = open_ledger(address, create=True)
            try:
                register_tables(spark, schema, address)
            except BaseException:
                self._ledger.close()
                raise
        else:
            self._ledger = open_ledger(address, create=True)
        self._tracker_ledger = TrackerLedger(self._ledger, lease=length, actor=actor)
        self._windows = Windows(self._tracker_ledger)
        self._versions = Versions(self._tracker_ledger)
        self._marks = HighWaterMarks(self._tracker_ledger)
        # This also runs at the end of the process, while the store's driver still works.
        self._end = weakref.finalize(self, self._tracker_ledger.stop_heartbeat)

    def close(self) -> None:
        self._tracker_ledger.close()
        self._ledger.close()

    def __enter__(self) -> WatermarkTracker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- time windows

    def start_pipeline_run(
        self,
        pipeline: str,
        job_id: str | None = None,
        *,
        end: TimeLike | None = None,
        allow_future: bool = False,
    ) -> WatermarkRecord:
        """Freeze a window and take the pipeline.

        The window begins where the last SUCCESS ended and ends now, by the ledger store's clock, or at `end`.
        A run that FAILED, or whose process is gone, is taken up again with its own window, and `end` is
        ignored. Raises FlowHeld, naming the holder, while another run is alive, and ConfigError for an `end`
        more than five minutes ahead of that clock, unless `allow_future` is given: rows that are written
        until then would be missed.
        """
        return self._windows.start(pipeline, job_id, end, allow_future=allow_future)

    def get_delta_window(self, pipeline: str) -> TimeWindow:
        """`(start, end)` of the run that is open, the same until it ends. Raises WrongState without one."""
        return self._windows.window(pipeline)

    def finalize_pipeline_run(
        self,
        record: WatermarkRecord,
        status: str = "SUCCESS",
        *,
        rows: int | None = None,
        error: Error | None = None,
    ) -> WatermarkRecord:
        """End the run as SUCCESS, FAILED or SKIPPED, in one change of the ledger.

        SUCCESS moves the watermark to the window's end and makes the READY record of the next run; after
        FAILED the next start has the same window; SKIPPED leaves the watermark where it is. Raises WrongState
        the second time, LeaseLost when another has taken the pipeline over.
        """
        return self._windows.finalize(record, status, rows=rows, error=error)

    def run(
        self,
        pipeline: str,
        job_id: str | None = None,
        *,
        end: TimeLike | None = None,
        allow_future: bool = False,
    ) -> AbstractContextManager[Run]:
        """Start a run, and finalize it after the block: SUCCESS, FAILED on an error, SKIPPED by `skip`."""
        return self._windows.run(pipeline, job_id, end, allow_future=allow_future)

    def records(self, pipeline: str | None = None) -> list[WatermarkRecord]:
        """Every record of a pipeline, or of all, oldest first, with the READY one of the next run."""
        return self._windows.records(pipeline)

    # --- version ranges

    def get_latest_versions(
        self,
        spark: SparkSession | None = None,
        schemas: Names | None = None,
        tables: Tables | None = None,
    ) -> dict[str, int]:
        """The newest version of each Delta table, from the tables' own logs, many at once."""
        return {name: found.version for name, found in raise_first(look_up(spark, schemas, tables)).items()}

    def prepare_processing_plan_for_schemas(
        self,
        pipeline: str,
        schemas: Names | None = None,
        *,
        spark: SparkSession | None = None,
        tables: Tables | None = None,
        latest_versions: Mapping[str, Any] | None = None,
        baseline: Baseline = 0,
        allow_schema_change: bool = False,
        by: str = "version",
    ) -> ProcessingPlan:
        """The plan that has not ended; else a new one over every table that has new versions.

        `baseline` is the first version to process of a table that was never completed. Two processes that
        prepare at once get the same plan. If nothing is new, its state is SKIPPED and it has no ranges.
        `by="timestamp"` ends every table at its last commit up to one moment, the ledger's now. Raises
        SourceError for a table that went back, was made anew or has other columns, and TableMissing for one
        that is gone.
        """
        return self._versions.prepare(
            pipeline,
            schemas,
            spark=spark,
            tables=tables,
            latest_versions=latest_versions,
            baseline=baseline,
            allow_schema_change=allow_schema_change,
            by=by,
        )

    def mark_run_completed(
        self,
        run_id: str,
        tables: Names | None = None,
        *,
        records: Records | None = None,
        pipeline: str | None = None,
    ) -> ProcessingPlan:
        """Move the checkpoints of all tables that are left, or of these; the plan ends with its last table.

        Raises WrongState for a plan or table that is completed already, ConfigError for a plan of another
        pipeline, FlowHeld while another process works on it.
        """
        return self._versions.complete(run_id, tables, records=records, pipeline=pipeline)

    def mark_run_failed(self, run_id: str, error: Error, *, pipeline: str | None = None) -> ProcessingPlan:
        """Record that the plan failed, with the message and the time; its ranges stay as they are."""
        return self._versions.fail(run_id, error, pipeline=pipeline)

    def retry(self, run_id: str, *, pipeline: str | None = None) -> ProcessingPlan:
        """Make a failed plan PLANNED again, with the same run_id and the same ranges."""
        return self._versions.retry(run_id, pipeline=pipeline)

    def load_checkpoints(self, tables: Names | None = None, *, pipeline: str) -> dict[str, int]:
        """The last completed version of each table; tables that were never completed are left out."""
        return self._versions.checkpoints(tables, pipeline=pipeline)

    def load_version_ranges(self, pipeline: str) -> dict[str, Range]:
        """What the current plan has left: `{table: (first, last)}`, both included."""
        return self._versions.ranges(pipeline)

    def fetch_current_processing_plan(self, pipeline: str) -> ProcessingPlan | None:
        """The plan that has not ended (PLANNED, RUNNING or FAILED); None if there is none."""
        return self._versions.current(pipeline)

    def stuck_plans(
        self, older_than: str | timedelta = "2h", *, pipeline: str | None = None
    ) -> list[ProcessingPlan]:
        """Plans that were made longer ago than `older_than` and have not ended, oldest first."""
        return self._versions.find_stuck(_duration(older_than), pipeline)

    def process(
        self,
        pipeline: str,
        schemas: Names | None = None,
        *,
        spark: SparkSession | None = None,
        tables: Tables | None = None,
        latest_versions: Mapping[str, Any] | None = None,
        baseline: Baseline = 0,
        allow_schema_change: bool = False,
        by: str = "version",
    ) -> AbstractContextManager[Processing]:
        """Prepare a plan, hold the pipeline during the block, then complete the plan; FAILED on an exception.

        `complete(table, records=n)` inside the block keeps what is done even if a later table fails.
        """
        return self._versions.process(
            pipeline,
            schemas,
            spark=spark,
            tables=tables,
            latest_versions=latest_versions,
            baseline=baseline,
            allow_schema_change=allow_schema_change,
            by=by,
        )

    # --- high-water marks

    def get_last_processed_timestamp(self, name: str) -> datetime | None:
        """The mark; None before the first commit."""
        return self._marks.last(name)

    def commit_processing_state(
        self,
        name: str,
        ts: TimeLike,
        *,
        rows: int | None = None,
        force: bool = False,
        reason: str | None = None,
    ) -> datetime:
        """Move the mark to `ts`. To move it back, or past the store's clock, give `force` and a reason."""
        return self._marks.commit(name, ts, rows=rows, force=force, reason=reason)

    def state(self, name: str) -> AbstractContextManager[HighWater]:
        """A block with the mark's `last` value, which may `commit(ts)` once. FAILED on an exception, SKIPPED
        if nothing was committed."""
        return self._marks.state(name)

    def lag(self, name: str | None = None) -> dict[str, float | None]:
        """Seconds between the store's clock and the mark, by pipeline; None before the first."""
        return self._marks.lag(name)

    # --- for every kind

    def history(self, pipeline: str, *, failed: bool = False, limit: int = 20) -> list[HistoryEvent]:
        """Who did what, newest first; `at` is in UTC, with its zone."""
        events = self._ledger.history(pipeline, failed=failed, limit=limit)
        return [replace(event, at=with_utc(event.at)) for event in events]

    def reset(self, pipeline: str, tables: Names | None = None, *, reason: str) -> None:
        """Let the whole pipeline, or these of its tables, begin again. An open plan is superseded."""
        reset(self._tracker_ledger, pipeline, tables, reason=reason)

    def prune(self, older_than: str | timedelta = "90d", *, pipeline: str | None = None) -> dict[str, int]:
        """Remove old history, runs and ended plans, but nothing that recovery needs. Returns how many of
        each."""
        before = self._ledger.now() - _duration(older_than)
        return self._ledger.prune(before=before, pipeline=pipeline)


def _duration(given: str | timedelta) -> timedelta:
    length = parse_duration(given) if isinstance(given, str) else given
    if not isinstance(length, timedelta) or length < timedelta(0):
        raise ConfigError(f"{given!r} is not a length of time", hint="write it as '30s', '5m', '2h' or '90d'")
    return length
