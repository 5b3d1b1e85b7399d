"""A view over tables and other views, as the user asked for it: a flow without data of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tidegauge.errors import Place
from tidegauge.model.delta_flow import AnyFlow, DeltaFlow, DeltaInput, Sql, TableRef
from tidegauge.model.optimize_flow import OptimizeFlow
from tidegauge.model.spec import Project, Stage

VIEW = "view"
"""The `kind` of such a flow."""


@dataclass(frozen=True)
class ViewName:
    table: TableRef
    """By its name in Spark's catalogue."""
    place: Place | None = None


@dataclass(frozen=True)
class ViewFlow:
    """Has no watermark, and nothing of it is in the ledger: what there is of it is in Spark's catalogue."""

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
    """The flows of this project whose outputs it reads, views among them."""
    place: Place | None = None

    @property
    def target(self) -> str:
        return str(self.output.table)

    @property
    def on_s3(self) -> bool:
        return any(part.table.on_s3 for part in self.inputs)


WrittenInFlows = DeltaFlow | ViewFlow
"""Whatever stands under `flows:` and has an output."""
WithoutData = ViewFlow | OptimizeFlow
"""What has a place in the graph, and neither rows nor a watermark."""
GraphFlow = AnyFlow | WithoutData
"""Whatever has a place in the graph."""


def in_flows(project: Project) -> tuple[WrittenInFlows, ...]:
    """What stands under `flows:`, views last."""
    return (*project.delta_flows, *project.views)
