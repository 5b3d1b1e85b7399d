"""What every kind of flow can do. Only `flows.open` tells the kinds apart; all others use this Protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from tidegauge.compare.frames import Difference
from tidegauge.flows.delta_locator import DeltaTableLocator, make_locator
from tidegauge.flows.override.preview import OverridePreview, OverrideRequest
from tidegauge.flows.recall import RecalledFlow
from tidegauge.model.batch_data import ReadBatch
from tidegauge.model.by_flow import gather_by_flow
from tidegauge.model.delta_flow import DataFlow
from tidegauge.model.moved_by import MovedBy
from tidegauge.model.plan import Draft, Plan
from tidegauge.model.protocols.ledger import LedgerReader
from tidegauge.model.protocols.output import Output
from tidegauge.model.protocols.source import Reader
from tidegauge.model.run import FlowStatus
from tidegauge.model.spec import Project, TableFlow
from tidegauge.model.view_flow import GraphFlow
from tidegauge.model.watermark import Watermark
from tidegauge.outputs.open import open_output
from tidegauge.sources.connections import SourceConnections
from tidegauge.sources.direct import DirectReader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class PlannedWork:
    """The draft of a flow's plan, and how the rows of its batches are read."""

    draft: Draft
    read_batch: ReadBatch
    """Reads the rows of one of the draft's batches."""
    changes: tuple[str, ...] = ()
    """Changes of the output's columns or of the transform, as the ledger's history records them."""
    by_spark: bool = True
    """Whether a batch needs Spark, as far as that is known before it is read."""
    by_tasks: bool = False
    """Whether a batch needs parallel tasks: Spark's, or local processes in their place."""
    only_by_spark: bool = False
    """Whether the user wants every batch to go through Spark (`execute: spark`)."""
    inside: bool = False
    """Whether the rows never leave the database."""
    through_jvm: bool = False
    """Whether the rows go through the JVM."""

    def foresee_mover(self, *, local: bool) -> MovedBy | None:
        """Say who will move the rows; None: there is no batch. `local`: local processes can do the tasks."""
        if not self.draft.batches:
            return None
        if self.inside:
            return MovedBy.DATABASE
        if self.by_spark or (self.by_tasks and not local):
            return MovedBy.SPARK
        return MovedBy.PROCESSES if self.by_tasks else MovedBy.PROCESS


class Flow(Protocol):
    """One flow, with its output and its watermarks. Opening a flow connects to nothing."""

    @property
    def spec(self) -> DataFlow:
        """The flow as the project file defines it."""

    @property
    def output(self) -> Output:
        """The output, for questions only. To write, open another with `open_output`."""

    @property
    def mark(self) -> Watermark | None:
        """The watermark of one of the inputs, or None. Epoch and batch are the same for all inputs."""

    @property
    def target_checked(self) -> bool:
        """Whether one look at many outputs (`flows.table.target_check`) has just shown that this one is ready
        and agrees with the ledger. Then planning need not ask it again."""

    @property
    def fingerprint(self) -> str | None:
        """A digest of the user's transform; None if there is none."""

    def check_transform(self) -> tuple[str, ...]:
        """Return remarks on the user's transform, from its text and its inputs' columns. Runs nothing.

        Raises TransformFailed, with the place in the file, for a transform that cannot run.
        """

    def check_source(self) -> None:
        """Raise the error that the next plan would raise about the database table that it reads: a changed
        cursor, key or type, or another table of the same name. Asks the catalogue, and reads no row."""

    def plan(self, *, limit: int | None = None, confirm_deletes: bool = False) -> PlannedWork:
        """Find out what is new, after checking that ledger and output agree. Reads only.

        `limit`: how many rows the plan may have, for flows whose plans can be cut. `confirm_deletes`: any
        number of rows that the source no longer has may be deleted.
        """

    def resume(self, plan: Plan, *, confirm_deletes: bool = False) -> PlannedWork:
        """Make the work of a plan that an earlier run froze: same windows, rows read again."""

    def open_output(self, plan: Plan) -> Output:
        """Open an output to write this plan's batches to."""

    def session(
        self, shared: Callable[[], SparkSession]
    ) -> AbstractContextManager[Callable[[], SparkSession]]:
        """Open the Spark session that the flow's batches use; it starts when called.

        `shared` returns the session of the whole run.
        """

    def preview_override(
        self,
        request: OverrideRequest,
        status: FlowStatus | None,
        every: Sequence[DataFlow],
        ledger: LedgerReader,
    ) -> OverridePreview:
        """Tell what a change of the watermark by hand would do, but not who holds the flow. Changes nothing.

        `every`: all flows of the project, to find those that read this flow's output. Raises ConfigError for
        a request that makes no sense for this flow.
        """

    def recall(self) -> RecalledFlow | None:
        """Find the flow's watermarks from what its output keeps; None: nothing was committed there."""

    def verify(self, ledger: LedgerReader, spark: Callable[[], SparkSession]) -> Difference:
        """Compare the output with the inputs up to the watermark.

        Raises NotCompared where that is not possible, or the error that stopped it.
        """

    def check_refillable(self) -> None:
        """Raise if the output could not be filled again from the beginning. Changes nothing."""


def open_reader(flow: TableFlow) -> Reader:
    return DirectReader(flow.source)


@dataclass(frozen=True)
class FlowResources:
    """What is needed to open flows."""

    sources: SourceConnections
    """The open databases of this thread."""
    delta_tables: DeltaTableLocator
    """Where Delta tables are."""
    marks: Mapping[str, Sequence[Watermark]] = field(default_factory=dict)
    """The watermarks by flow, including those of the flows that it reads from."""
    open_output: Callable[[TableFlow], Output] = open_output
    open_reader: Callable[[TableFlow], Reader] = open_reader
    restores_columns: bool = False
    """Whether a column that a target has lost may be added again: a backfill brings its values back."""

    def mark(self, flow: str | None) -> Watermark | None:
        """The first of a flow's watermarks; None if it has none."""
        return next(iter(self.marks.get(flow or "", ())), None)


def resources_for(
    project: Project,
    flows: Sequence[GraphFlow],
    sources: SourceConnections,
    marks: Sequence[Watermark] = (),
    *,
    debug: bool = False,
) -> FlowResources:
    """Make the resources of a command that is not a run. Spark is started only to look up a table's name."""
    return FlowResources(sources, make_locator(project, flows, debug=debug), gather_by_flow(marks))
