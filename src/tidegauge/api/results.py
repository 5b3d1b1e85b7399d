"""The typed results of plan, run, status, verify and watermarks; each is shown as a table."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

from tidegauge.api.tables import plan_table, run_table, status_table, verify_table, watermark_table
from tidegauge.errors import TidegaugeError
from tidegauge.model.secret import mask
from tidegauge.model.watermark import Watermark
from tidegauge.observe.tables import Table
from tidegauge.operations.plan import FlowPreview
from tidegauge.operations.status import FlowSummary
from tidegauge.operations.verify import TableVerification, is_proven
from tidegauge.operations.watermarks import watermark_to_json
from tidegauge.run.report import FlowReport, RunReport

_T = TypeVar("_T")


class ShownAsTable(ABC):
    """A result that is printed, or shown by a notebook, as a table."""

    @property
    @abstractmethod
    def table(self) -> Table:
        """The result as columns and rows, with notes to show below."""

    def __repr__(self) -> str:
        return "\n".join((self.table.to_text(), *map(mask, self.table.notes)))

    def _repr_html_(self) -> str:
        return self.table.to_html()


@dataclass(frozen=True, repr=False)
class PlanResult(ShownAsTable):
    """What a run would do, flow by flow. Nothing was written."""

    flows: tuple[FlowPreview, ...]
    notes: tuple[str, ...] = ()
    """Notes on parts of the project file that have no effect."""

    @property
    def errors(self) -> tuple[TidegaugeError, ...]:
        return tuple(flow.error for flow in self.flows if flow.error is not None)

    @property
    def ok(self) -> bool:
        return not self.errors

    @property
    def table(self) -> Table:
        return plan_table(self.flows, self.notes)

    def __iter__(self) -> Iterator[FlowPreview]:
        return iter(self.flows)

    def __getitem__(self, flow: str) -> FlowPreview:
        return _find(flow, {one.flow: one for one in self.flows})

    def to_json(self) -> dict[str, Any]:
        """Return what `tidegauge plan --json` prints."""
        flows = [flow.to_json() for flow in self.flows]
        return {"schema": "tidegauge/plan/1", "flows": flows, "notes": [mask(note) for note in self.notes]}


@dataclass(frozen=True, repr=False)
class RunResult(ShownAsTable):
    """What a run did, flow by flow."""

    report: RunReport
    told: dict[str, Any] = field(default_factory=dict)
    """The results of sending alerts and pushing metrics; empty if the project has neither."""

    @property
    def run_id(self) -> str:
        return self.report.run_id

    @property
    def state(self) -> str:
        return self.report.state.value

    @property
    def flows(self) -> tuple[FlowReport, ...]:
        return self.report.flows

    @property
    def errors(self) -> tuple[TidegaugeError, ...]:
        return tuple(self.report.errors)

    @property
    def ok(self) -> bool:
        return not self.report.errors

    @property
    def table(self) -> Table:
        return run_table(self.report)

    def __iter__(self) -> Iterator[FlowReport]:
        return iter(self.flows)

    def __getitem__(self, flow: str) -> FlowReport:
        """Return the flow's report: the later of two, if the run first finished an earlier plan."""
        return _find(flow, {one.flow: one for one in self.flows})

    def to_json(self) -> dict[str, Any]:
        """Return what `tidegauge run --json` prints."""
        return self.report.to_json() | self.told


@dataclass(frozen=True, repr=False)
class StatusResult(ShownAsTable):
    """Where every flow stands, according to the ledger."""

    at: datetime
    """When the ledger was read, on its own clock."""
    flows: tuple[FlowSummary, ...]

    @property
    def table(self) -> Table:
        return status_table(self.flows, self.at)

    def __iter__(self) -> Iterator[FlowSummary]:
        return iter(self.flows)

    def __getitem__(self, flow: str) -> FlowSummary:
        return _find(flow, {one.flow: one for one in self.flows})

    def to_json(self) -> dict[str, Any]:
        """Return what `tidegauge status --json` prints, without the warnings about Delta inputs."""
        return {"schema": "tidegauge/status/1", "flows": [one.to_json() for one in self.flows]}


@dataclass(frozen=True, repr=False)
class VerifyResult(ShownAsTable):
    """How source and target compare, table by table."""

    tables: tuple[TableVerification, ...]

    @property
    def equal(self) -> bool:
        """Whether every table that can be compared was compared and is equal."""
        return is_proven(self.tables)

    @property
    def table(self) -> Table:
        return verify_table(self.tables)

    def __iter__(self) -> Iterator[TableVerification]:
        return iter(self.tables)

    def __getitem__(self, table: str) -> TableVerification:
        return _find(table, {one.table: one for one in self.tables})

    def to_json(self) -> dict[str, Any]:
        """Return what `tidegauge verify --json` prints."""
        return {"schema": "tidegauge/verify/1", "tables": [one.to_json() for one in self.tables]}


@dataclass(frozen=True, repr=False)
class WatermarksResult(ShownAsTable):
    """The watermark of every input."""

    at: datetime
    """When the ledger was read, on its own clock."""
    watermarks: tuple[Watermark, ...]

    @property
    def table(self) -> Table:
        return watermark_table(self.watermarks, self.at)

    def __iter__(self) -> Iterator[Watermark]:
        return iter(self.watermarks)

    def __getitem__(self, flow: str) -> dict[str, Watermark]:
        """Return one flow's watermarks, by input."""
        found: dict[str, dict[str, Watermark]] = {}
        for one in self.watermarks:
            found.setdefault(one.flow, {})[one.input] = one
        return _find(flow, found)

    def to_json(self) -> dict[str, Any]:
        """Return what `tidegauge watermark list --json` prints."""
        marks = [watermark_to_json(one) for one in self.watermarks]
        return {"schema": "tidegauge/watermark-list/1", "watermarks": marks}


def _find(name: str, known: dict[str, _T]) -> _T:
    try:
        return known[name]
    except KeyError:
        raise KeyError(f"{name!r}; there are: {', '.join(sorted(known)) or 'none'}") from None
