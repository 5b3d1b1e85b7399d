"""A flow that compacts the tables of other flows and has no data of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from tidegauge.errors import Place
from tidegauge.model.delta_flow import DeltaFlow
from tidegauge.model.spec import Stage

OPTIMIZE = "optimize"
"""The `kind` of an optimize flow."""


@dataclass(frozen=True)
class OptimizeFlow:
    """Has no watermark and nothing in the ledger: what it did is in the tables' own logs."""

    uses_delta: ClassVar[bool] = True
    stages: ClassVar[tuple[Stage, ...]] = ()
    skip_hint: ClassVar[str] = ""
    kind_of_flow: ClassVar[str] = "an optimize flow"
    pipeline: str
    name: str
    select: tuple[str, ...]
    """The selection as written; empty: every flow that writes a Delta table."""
    vacuum: bool = True
    tags: tuple[str, ...] = ()
    looks_after: tuple[DeltaFlow, ...] = ()
    """The flows whose tables are compacted."""
    readers: tuple[str, ...] = ()
    """Names of the flows that read those tables: a vacuum asks how far they are, so it runs after them."""
    place: Place | None = None
    select_place: Place | None = None

    def look_after(self, meant: Sequence[DeltaFlow], delta_flows: Sequence[DeltaFlow]) -> OptimizeFlow:
        """Set the flows to compact, and find the readers of their tables in `delta_flows`.

        `meant` may include flows that fill Delta tables from a database.
        """
        names = {flow.name for flow in meant}
        readers = (
            flow.name for flow in delta_flows if flow.name not in names and names & set(flow.upstreams)
        )
        return replace(self, looks_after=tuple(meant), readers=tuple(readers))

    @property
    def target(self) -> str:
        return self.name

    @property
    def upstreams(self) -> tuple[str, ...]:
        return tuple(flow.name for flow in self.looks_after)

    @property
    def waits_for(self) -> tuple[str, ...]:
        """Names of the flows that have to end before this one begins: a vacuum asks how far readers are."""
        return (*self.upstreams, *self.readers)

    @property
    def on_s3(self) -> bool:
        return any(flow.output.table.on_s3 for flow in self.looks_after)
