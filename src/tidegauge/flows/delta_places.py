"""Where the tables of Delta flows are, and the Spark session that each flow works in."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from tidegauge.errors import OutputUnsafe, TableMissing
from tidegauge.flows.select import needs_of
from tidegauge.model.delta_flow import DeltaFlow, TableRef
from tidegauge.model.expectation import CheckCount
from tidegauge.model.plan import Plan
from tidegauge.model.protocols.output import Output
from tidegauge.model.spec import Lake, Project, TableFlow
from tidegauge.model.view_flow import GraphFlow, WrittenInFlows
from tidegauge.sources.delta.catalogue import in_memory, locate, split_name
from tidegauge.spark.hadoop import configure_bucket
from tidegauge.spark.jars import Needs
from tidegauge.spark.session import lend, open_session, sibling

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_LASTING = (
    "name a lasting one under `spark: conf:` (spark.sql.catalogImplementation, spark.sql.catalog.…), or the"
    " table's `path:`"
)


def places_of(project: Project, flows: Sequence[GraphFlow], *, debug: bool = False) -> Places:
    """For a command that is not a run; Spark is started only if a name has to be looked up."""
    needs = {Needs.JDBC} | needs_of(flows)
    return Places(functools.cache(partial(open_session, project.spark, needs, debug=debug)))


@contextmanager
def own_session(spark: SparkSession, lakes: Iterable[Lake]) -> Iterator[SparkSession]:
    """A session that nobody else has, with the keys to these."""
    with lend(sibling(spark)) as session:
        for lake in lakes:
            configure_bucket(session, lake)
        yield session


class Places:
    """Paths are known as they are; a name is looked up in Spark's catalogue, a whole schema at a time."""

    def __init__(self, spark: Callable[[], SparkSession]) -> None:
        self._spark = spark
        self._schemas: dict[str, dict[str, str]] = {}
        self._lock = threading.Lock()

    def find(self, table: TableRef) -> str | None:
        """The location; None while the catalogue has no such table."""
        if table.path is not None:
            return table.path
        assert table.name is not None
        schema, name = split_name(table.name)
        with self._lock:
            if name.lower() not in self._schemas.get(schema.lower(), {}):
                self._schemas[schema.lower()] = self._listed(schema)
            return self._schemas[schema.lower()].get(name.lower())

    def location(self, table: TableRef) -> str:
        """Raises TableMissing."""
        found = self.find(table)
        if found is None:
            raise TableMissing(
                f"Spark's catalogue has no Delta table {table}",
                hint=f"check the name. A catalogue in memory ends with its process: {_LASTING}",
            )
        return found

    def made(self, table: TableRef) -> str | None:
        """The location of a table that is written; None until it is made. Raises OutputUnsafe where it would
        be gone with the process that makes it."""
        found = self.find(table)
        if found is None and table.name is not None and in_memory(self._spark(), table.name):
            raise OutputUnsafe(
                f"Spark's catalogue is in memory: {table} would be gone when this process ends",
                hint=_LASTING,
            )
        return found

    def output(self, flow: DeltaFlow, plan: Plan | None = None) -> Output:
        """`plan`: the one whose batches are written next."""
        from tidegauge.outputs.delta.output import DeltaOutput

        table = flow.output.table
        return DeltaOutput(
            flow,
            locate=lambda: self.made(table),
            locate_quarantine=lambda: self.find(table.quarantine),
            plan=plan,
        )

    def synced_output(self, flow: TableFlow, plan: Plan | None = None) -> Output:
        """Of a database table's flow. `plan`: the one whose batches are written next."""
        from tidegauge.outputs.delta.synced import SyncedDeltaOutput, target_flow

        return SyncedDeltaOutput(
            flow,
            plan=plan,
            own_session=lambda: self.session(target_flow(flow)),
            count_repeated=_count_repeated,
        )

    def shared_session(self) -> SparkSession:
        """To look things up in; whoever sets anything takes one of his own."""
        return self._spark()

    @contextmanager
    def session(self, flow: WrittenInFlows) -> Iterator[SparkSession]:
        """A session of the flow's own, so that no setting and no view of one is seen by another."""
        tables = [flow.output.table, *(part.table for part in flow.inputs)]
        with own_session(self._spark(), [table.at(table.path) for table in tables if table.path]) as session:
            context = getattr(session, "sparkContext", None)
            if context is not None:
                # Flows side by side share the cores evenly, instead of one after the other.
                context.setLocalProperty("spark.scheduler.pool", flow.name)
            yield session

    def _listed(self, schema: str) -> dict[str, str]:
        spark = self._spark()
        schema = schema or spark.catalog.currentDatabase()
        try:
            found = locate(spark, schemas=[schema])
        except TableMissing:
            return {}
        return {name[len(schema) + 1 :].lower(): _plain(where) for name, where in found.items()}


def _count_repeated(
    flow: DeltaFlow, rows: DataFrame, target: DataFrame | None, touched: DataFrame | None
) -> tuple[CheckCount, ...]:
    # Not before it is needed: it brings a parser of SQL.
    from tidegauge.transform.judge import count_repeated

    return count_repeated(flow, rows, target, touched)


def _plain(location: str) -> str:
    return "/" + location.removeprefix("file:").lstrip("/") if location.startswith("file:") else location
