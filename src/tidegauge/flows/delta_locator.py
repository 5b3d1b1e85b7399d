"""Where the tables of Delta flows are, and the Spark session that each of these flows works in."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from tidegauge.errors import OutputUnsafe, TableMissing
from tidegauge.flows.spark_jars import find_jars
from tidegauge.model.delta_flow import DeltaFlow, TableRef
from tidegauge.model.expectation import CheckCount
from tidegauge.model.plan import Plan
from tidegauge.model.protocols.output import Output
from tidegauge.model.spec import Lake, Project, TableFlow
from tidegauge.model.view_flow import GraphFlow, WrittenInFlows
from tidegauge.sources.delta.catalogue import in_memory, locate, split_name
from tidegauge.spark.hadoop import configure_bucket
from tidegauge.spark.jars import JarSet
from tidegauge.spark.session import lend, open_session, sibling

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_LASTING = (
    "name a lasting one under `spark: conf:` (spark.sql.catalogImplementation, spark.sql.catalog.…), or the"
    " table's `path:`"
)


def make_locator(project: Project, flows: Sequence[GraphFlow], *, debug: bool = False) -> DeltaTableLocator:
    """Make the locator for a command that is not a run. Spark is started only to look up a table's name."""
    needs = {JarSet.JDBC} | find_jars(flows)
    return DeltaTableLocator(functools.cache(partial(open_session, project.spark, needs, debug=debug)))


@contextmanager
def own_session(spark: SparkSession, lakes: Iterable[Lake]) -> Iterator[SparkSession]:
    """Open a Spark session of its own, with the credentials of these lakes."""
    with lend(sibling(spark)) as session:
        for lake in lakes:
            configure_bucket(session, lake)
        yield session


class DeltaTableLocator:
    """Finds where Delta tables are. Names are looked up in Spark's catalogue, a whole schema at once."""

    def __init__(self, spark: Callable[[], SparkSession]) -> None:
        self._spark = spark
        self._schemas: dict[str, dict[str, str]] = {}
        self._lock = threading.Lock()

    def find(self, table: TableRef) -> str | None:
        """The table's location; None if the catalogue has no such table."""
        if table.path is not None:
            return table.path
        assert table.name is not None
        schema, name = split_name(table.name)
        with self._lock:
            if name.lower() not in self._schemas.get(schema.lower(), {}):
                self._schemas[schema.lower()] = self._listed(schema)
            return self._schemas[schema.lower()].get(name.lower())

    def location(self, table: TableRef) -> str:
        """The table's location. Raises TableMissing if the catalogue has no such table."""
        found = self.find(table)
        if found is None:
            raise TableMissing(
                f"Spark's catalogue has no Delta table {table}",
                hint=f"check the name. A catalogue in memory ends with its process: {_LASTING}",
            )
        return found

    def made(self, table: TableRef) -> str | None:
        """The location of a table that a flow writes; None until it is created.

        Raises OutputUnsafe if the catalogue is in memory: the table would be gone when this process ends.
        """
        found = self.find(table)
        if found is None and table.name is not None and in_memory(self._spark(), table.name):
            raise OutputUnsafe(
                f"Spark's catalogue is in memory: {table} would be gone when this process ends",
                hint=_LASTING,
            )
        return found

    def output(self, flow: DeltaFlow, plan: Plan | None = None) -> Output:
        """The output of a flow between Delta tables. `plan`: the one whose batches are written next."""
        from tidegauge.outputs.delta.output import DeltaOutput

        table = flow.output.table
        return DeltaOutput(
            flow,
            locate=lambda: self.made(table),
            locate_quarantine=lambda: self.find(table.quarantine),
            plan=plan,
        )

    def synced_output(self, flow: TableFlow, plan: Plan | None = None) -> Output:
        """The output of a sync's flow into a Delta table. `plan`: the one whose batches are written next."""
        from tidegauge.outputs.delta.synced import SyncedDeltaOutput, target_flow

        return SyncedDeltaOutput(
            flow,
            plan=plan,
            own_session=lambda: self.session(target_flow(flow)),
            count_repeated=_count_repeated,
        )

    def shared_session(self) -> SparkSession:
        """The session for looking things up. Code that changes settings uses a session of its own."""
        return self._spark()

    @contextmanager
    def session(self, flow: WrittenInFlows) -> Iterator[SparkSession]:
        """Open a session of the flow's own, so that other flows do not see its settings and views."""
        tables = [flow.output.table, *(part.table for part in flow.inputs)]
        with own_session(self._spark(), [table.at(table.path) for table in tables if table.path]) as session:
            context = getattr(session, "sparkContext", None)
            if context is not None:
                # Own scheduler pools: flows side by side share the cores evenly.
                context.setLocalProperty("spark.scheduler.pool", flow.name)
            yield session

    def _listed(self, schema: str) -> dict[str, str]:
        """By name in small letters, the locations of a schema's Delta tables."""
        spark = self._spark()
        schema = schema or spark.catalog.currentDatabase()
        try:
            found = locate(spark, schemas=[schema])
        except TableMissing:
            return {}
        return {name[len(schema) + 1 :].lower(): _strip_file_scheme(where) for name, where in found.items()}


def _count_repeated(
    flow: DeltaFlow, rows: DataFrame, target: DataFrame | None, touched: DataFrame | None
) -> tuple[CheckCount, ...]:
    # Imported late, because it loads the SQL parser.
    from tidegauge.transform.judge import count_repeated

    return count_repeated(flow, rows, target, touched)


def _strip_file_scheme(location: str) -> str:
    return "/" + location.removeprefix("file:").lstrip("/") if location.startswith("file:") else location
