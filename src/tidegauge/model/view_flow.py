"""A flow that creates a view over tables and other views, and has no data of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tidegauge.errors import Place
from tidegauge.model.delta_flow import DataFlow, DeltaFlow, DeltaInput, Sql, TableRef
from tidegauge.model.optimize_flow import OptimizeFlow
from tidegauge.model.spec import Project, Stage

VIEW = "view"
"""The `kind` of a view."""


@dataclass(frozen=True)
class ViewName:
    table: TableRef
    """The view's name in Spark's catalogue."""
    place: Place | None = None


@dataclass(frozen=True)
class ViewFlow:
    """Has no watermark and nothing in the ledger: it exists only in Spark's catalogue."""

    uses_delta: ClassVar[bool] = True
    stages: ClassVar[tuple[Stage, ...]] = ()
    skip_hint: ClassVar[str] = ""
    kind_of_flow: ClassVar[str] = "a view"
    pipeline: str
    name: str
    inputs: tuple[DeltaInput, ...]
    output: ViewName
    transform: Sql
    tags: tuple[str, ...] = ()
    upstreams: tuple[str, ...] = ()
    """Names of the flows of this project whose outputs it reads, including views."""
    place: Place | None = None

    @property
    def target(self) -> str:
        return str(self.output.table)

    @property
    def waits_for(self) -> tuple[str, ...]:
        """Names of the flows that have to end before this one begins."""
        return self.upstreams

    @property
    def on_s3(self) -> bool:
        return any(part.table.on_s3 for part in self.inputs)


WrittenInFlows = DeltaFlow | ViewFlow
"""Any entry of `flows:` that has an output."""
WithoutData = ViewFlow | OptimizeFlow
"""Any flow of the graph that has no rows and no watermark."""
GraphFlow = DataFlow | WithoutData
"""Any flow of the graph."""


def in_flows(project: Project) -> tuple[WrittenInFlows, ...]:
    """Return the flows of `flows:` that have an output, views last."""
    return (*project.delta_flows, *project.views)
