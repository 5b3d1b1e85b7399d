"""What every kind of flow can do. `flows.open` makes the right one; nobody else asks which kind it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from tidegauge.compare.frames import Difference
from tidegauge.flows.delta_places import Places, places_of
from tidegauge.flows.override import OverridePreview, OverrideRequest
from tidegauge.flows.recall import RecalledFlow
from tidegauge.flows.select import Sources
from tidegauge.model.batch_data import ReadBatch
from tidegauge.model.by_flow import gather_by_flow
from tidegauge.model.delta_flow import AnyFlow
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
from tidegauge.sources.direct import DirectReader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class PlannedWork:
    """What a plan of a flow is, and how the rows of its batches are read."""

    draft: Draft
    batch_data: ReadBatch
    """The rows of one of the draft's batches."""
    changes: tuple[str, ...] = ()
    """What changes about the output's columns or the flow's transform, for the history."""
    by_spark: bool = True
    """Whether a batch of it is work for Spark, as far as that can be known before."""
    by_tasks: bool = False
    """Whether a batch of it is work for tasks: Spark's, or processes of this machine in their place."""
    only_by_spark: bool = False
    """Whether the user wants every batch of it to go through Spark (`execute: spark`)."""
    inside: bool = False
    """Whether its rows never leave the database."""
    by_jdbc: bool = False
    """Whether its rows go through Java."""

    def foresee_mover(self, *, local: bool) -> MovedBy | None:
        """Who will move its rows; `local`: processes of this machine are there for tasks. None: no batch."""
        if not self.draft.batches:
            return None
        if self.inside:
            return MovedBy.DATABASE
        if self.by_spark or (self.by_tasks and not local):
            return MovedBy.SPARK
        return MovedBy.PROCESSES if self.by_tasks else MovedBy.PROCESS


class Flow(Protocol):
    """One flow with its output and what the ledger knows of it. Opening one connects to nothing."""

    @property
    def spec(self) -> AnyFlow:
        """What the user asked for."""

    @property
    def output(self) -> Output:
        """To ask; who writes takes one of his own from `open_output`."""

    @property
    def mark(self) -> Watermark | None:
        """The watermark of one of its inputs: epoch and batch are the same for all."""

    @property
    def stands(self) -> bool:
        """Whether its output was just seen, with those of others, to have all that the ledger says and to be
        ready (`flows.standing`): who plans need not ask it."""

    @property
    def fingerprint(self) -> str | None:
        """A digest of the user's transform; None where there is none."""

    def check_transform(self) -> tuple[str, ...]:
        """Remarks on the user's transform, from its text and the columns that its inputs have. Runs nothing.

        Raises TransformFailed, with the place, for what cannot run.
        """

    def check_source(self) -> None:
        """Raise what the next plan would refuse about a database table that it reads: a cursor, a key or a
        type that is not what it was, another table by that name. Asks the catalogue, and reads no row."""

    def plan(self, *, limit: int | None = None, confirm_deletes: bool = False) -> PlannedWork:
        """Find out what is new, after making sure that ledger and output agree. Reads only.

        `limit`: rows, where a plan can be cut. `confirm_deletes`: however many rows the source has lost may
        be deleted.
        """

    def resume(self, plan: Plan, *, confirm_deletes: bool = False) -> PlannedWork:
        """The work of a plan that an earlier run froze: its windows stay, its rows are read anew."""

    def open_output(self, plan: Plan) -> Output:
        """An output for who executes this plan."""

    def session(
        self, shared: Callable[[], SparkSession]
    ) -> AbstractContextManager[Callable[[], SparkSession]]:
        """The Spark session that its batches are written with, which is started when it is asked for."""

    def preview_override(
        self,
        request: OverrideRequest,
        status: FlowStatus | None,
        every: Sequence[AnyFlow],
        ledger: LedgerReader,
    ) -> OverridePreview:
        """What a change of its watermark by hand would do. Changes nothing.

        `every`: all flows of the project, of which some may read its output. Raises ConfigError for a request
        that means nothing here.
        """

    def recall(self) -> RecalledFlow | None:
        """Where it stands by what its output keeps; None: nothing was committed there."""

    def verify(self, ledger: LedgerReader, spark: Callable[[], SparkSession]) -> Difference:
        """What of its input, up to its watermark, is not in its output as it should be.

        Raises NotCompared, or what stands in the way.
        """

    def check_refillable(self) -> None:
        """Raise where its output could not be filled again from the beginning. Changes nothing."""


def open_reader(flow: TableFlow) -> Reader:
    return DirectReader(flow.source)


@dataclass(frozen=True)
class FlowResources:
    """What flows are opened with."""

    sources: Sources
    """The open databases of this thread."""
    delta_tables: Places
    marks: Mapping[str, Sequence[Watermark]] = field(default_factory=dict)
    """By flow, also of the flows that it reads from."""
    open_output: Callable[[TableFlow], Output] = open_output
    open_reader: Callable[[TableFlow], Reader] = open_reader
    restores_columns: bool = False
    """A column that a target has lost is added again, because its values are brought back (`backfill`)."""

    def mark(self, flow: str | None) -> Watermark | None:
        """The first of a flow's watermarks."""
        return next(iter(self.marks.get(flow or "", ())), None)


def resources_for(
    project: Project,
    flows: Sequence[GraphFlow],
    sources: Sources,
    marks: Sequence[Watermark] = (),
    *,
    debug: bool = False,
) -> FlowResources:
    """For a command that is not a run; Spark is started only if a table's name has to be looked up."""
    return FlowResources(sources, places_of(project, flows, debug=debug), gather_by_flow(marks))
