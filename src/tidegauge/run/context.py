"""What the planner, the job runner and the executor of one run share."""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidegauge.errors import TidegaugeError, WrongState
from tidegauge.flows.delta_locator import DeltaTableLocator
from tidegauge.flows.flow import Flow, FlowResources, PlannedWork
from tidegauge.flows.open import open_flow
from tidegauge.flows.spark_jars import find_jars
from tidegauge.ledger.heartbeat import Heartbeat
from tidegauge.model.by_flow import gather_by_flow
from tidegauge.model.delta_flow import DataFlow
from tidegauge.model.error_json import error_to_json
from tidegauge.model.moved_by import MovedBy
from tidegauge.model.protocols.ledger import LedgerWriter
from tidegauge.model.protocols.output import Output
from tidegauge.model.spec import Project
from tidegauge.model.state import State
from tidegauge.model.view_flow import GraphFlow
from tidegauge.model.watermark import Watermark
from tidegauge.observe.events import FlowEnded, Listener, SparkStarting
from tidegauge.run.environment import Environment
from tidegauge.run.options import RunOptions
from tidegauge.run.report import FlowReport
from tidegauge.sources.connections import SourceConnections
from tidegauge.spark.jars import JarSet
from tidegauge.spark.local_tasks import LocalTasks, open_local_tasks
from tidegauge.spark.on_demand import SparkOnDemand
from tidegauge.spark.pyspark_private import is_at_hand

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass
class RunContext:
    project: Project
    options: RunOptions
    ledger: LedgerWriter
    heartbeat: Heartbeat
    tell: Listener
    stop: threading.Event
    environment: Environment = field(default_factory=Environment)
    run_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    tables: int = 0
    """How many tables the run is about; the two stages of a table count as one."""

    def __post_init__(self) -> None:
        self.spark = SharedSpark(self)
        self.delta_tables = DeltaTableLocator(self.spark.start)

    def open_flows(self, specs: Sequence[DataFlow], sources: SourceConnections) -> list[Flow]:
        """Open the flows, with their watermarks as the ledger has them now."""
        names = sorted({name for spec in specs for name in (spec.name, *spec.upstreams)})
        marks = self.ledger.watermarks(self.project.pipeline, names)
        resources = self._resources(sources, marks)
        return [open_flow(spec, resources) for spec in specs]

    def open_output(self, spec: DataFlow) -> Output:
        return open_flow(spec, self._resources(SourceConnections(), ())).output

    def _resources(self, sources: SourceConnections, marks: Sequence[Watermark]) -> FlowResources:
        environment = self.environment
        return FlowResources(
            sources,
            self.delta_tables,
            gather_by_flow(marks),
            environment.output,
            environment.reader,
            self.options.restores_columns,
        )

    def clock(self) -> float:
        return self.environment.clock()

    def since(self, began: float) -> float:
        return self.environment.clock() - began

    def refuse(self, flow: str, error: TidegaugeError, began: float) -> FlowReport:
        """Record in the ledger that a flow cannot be planned, and report it as FAILED."""
        # WrongState: another runner has a plan for the flow. Then only this run's report has the error.
        with contextlib.suppress(WrongState):
            self.ledger.refuse(
                self.project.pipeline,
                flow,
                error_to_json(error),
                owner=self.environment.owner,
                run_id=self.run_id,
            )
        return self.end(FlowReport(flow, State.FAILED, self.since(began), error=error))

    def end(self, report: FlowReport) -> FlowReport:
        error = report.error.message if report.error else None
        rows, counts = report.rows, report.counts
        self.tell(
            FlowEnded(
                report.flow,
                report.state,
                rows,
                report.seconds,
                error,
                counts,
                report.reason,
                report.suspended,
            )
        )
        return report


class SharedSpark:
    """The Spark session of a run. It is started when it is first needed."""

    def __init__(self, run: RunContext) -> None:
        self._run = run
        self._needs = {JarSet.JDBC}
        self._session: SparkSession | None = None
        self._starting = threading.Lock()
        self.by_jdbc = False
        """Whether rows of any flow go through the JVM; otherwise Spark is started with lighter settings."""
        self._local_tasks = open_local_tasks(run.project.spark)

    def local_tasks(self) -> LocalTasks | None:
        """The local processes that take the place of Spark tasks; None where there are none or Spark runs."""
        return None if self._session is not None or is_at_hand() else self._local_tasks

    def foresee_mover(self, work: PlannedWork) -> MovedBy | None:
        return work.foresee_mover(local=self.local_tasks() is not None)

    def for_work(self, work: PlannedWork, start: Callable[[], SparkSession]) -> SparkOnDemand:
        """Make the Spark of a planned flow, started when needed. `start` returns the flow's session."""
        return SparkOnDemand(start, self.local_tasks, always=work.only_by_spark)

    def close(self) -> None:
        """End the local processes of this run. Spark keeps running, for later runs in this process."""
        if self._local_tasks is not None:
            self._local_tasks.close()

    def prepare_for(self, flows: Sequence[GraphFlow]) -> None:
        self._needs |= find_jars(flows)

    def start(self) -> SparkSession:
        with self._starting:
            if self._session is None:
                self._run.tell(SparkStarting())
                self._session = self._run.environment.spark(
                    self._run.project.spark, self._needs, not self.by_jdbc, self._run.options.debug
                )
            return self._session
