"""What plan, run, status, verify and watermarks answer: typed, and a table wherever it is shown."""

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
from tidegauge.operations.plan import Preview
from tidegauge.operations.status import FlowSummary
from tidegauge.operations.verify import Verified, is_proven
from tidegauge.operations.watermarks import watermark_to_json
from tidegauge.run.report import FlowReport, RunReport

_T = TypeVar("_T")


class ShownAsTable(ABC):
    """A result that is printed, or shown by a notebook, as a table."""

    @property
    @abstractmethod
    def table(self) -> Table:
        """Columns, rows and the sentences below them."""

    def __repr__(self) -> str:
        return "\n".join((self.table.to_text(), *map(mask, self.table.notes)))

    def _repr_html_(self) -> str:
        return self.table.to_html()


@dataclass(frozen=True, repr=False)
class PlanResult(ShownAsTable):
    """What a run would do, flow by flow. Nothing was written."""

    flows: tuple[Preview, ...]
    notes: tuple[str, ...] = ()
    """Parts of the project file that have no effect."""

    @property
    def errors(self) -> tuple[TidegaugeError, ...]:
        return tuple(flow.error for flow in self.flows if flow.error is not None)

    @property
    def ok(self) -> bool:
        return not self.errors

    @property
    def table(self) -> Table:
        return plan_table(self.flows, self.notes)

    def __iter__(self) -> Iterator[Preview]:
        return iter(self.flows)

    def __getitem__(self, flow: str) -> Preview:
        return _find(flow, {one.flow: one for one in self.flows})

    def to_json(self) -> dict[str, Any]:
        """As `tidegauge plan --json` prints it."""
        flows = [flow.to_json() for flow in self.flows]
        return {"schema": "tidegauge/plan/1", "flows": flows, "notes": [mask(note) for note in self.notes]}


@dataclass(frozen=True, repr=False)
class RunResult(ShownAsTable):
    """What a run did, flow by flow."""

    report: RunReport
    told: dict[str, Any] = field(default_factory=dict)
    """What became of alerts and metrics, where the project asks for them."""

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
        """A flow whose earlier plan was ended first has two reports; this is the later one."""
        return _find(flow, {one.flow: one for one in self.flows})

    def to_json(self) -> dict[str, Any]:
        """As `tidegauge run --json` prints it."""
        return self.report.to_json() | self.told


@dataclass(frozen=True, repr=False)
class StatusResult(ShownAsTable):
    """Where every flow stands, by what the ledger says."""

    at: datetime
    """By the ledger's clock."""
    flows: tuple[FlowSummary, ...]

    @property
    def table(self) -> Table:
        return status_table(self.flows, self.at)

    def __iter__(self) -> Iterator[FlowSummary]:
        return iter(self.flows)

    def __getitem__(self, flow: str) -> FlowSummary:
        return _find(flow, {one.flow: one for one in self.flows})

    def to_json(self) -> dict[str, Any]:
        """As `tidegauge status --json` prints it, without the warnings of Delta inputs."""
        return {"schema": "tidegauge/status/1", "flows": [one.to_json() for one in self.flows]}


@dataclass(frozen=True, repr=False)
class VerifyResult(ShownAsTable):
    """Source against target, table by table."""

    tables: tuple[Verified, ...]

    @property
    def equal(self) -> bool:
        """Every table was compared and is equal, but for those that can never be compared."""
        return is_proven(self.tables)

    @property
    def table(self) -> Table:
        return verify_table(self.tables)

    def __iter__(self) -> Iterator[Verified]:
        return iter(self.tables)

    def __getitem__(self, table: str) -> Verified:
        return _find(table, {one.table: one for one in self.tables})

    def to_json(self) -> dict[str, Any]:
        """As `tidegauge verify --json` prints it."""
        return {"schema": "tidegauge/verify/1", "tables": [one.to_json() for one in self.tables]}


@dataclass(frozen=True, repr=False)
class WatermarksResult(ShownAsTable):
    """How far every input has got."""

    at: datetime
    """By the ledger's clock."""
    watermarks: tuple[Watermark, ...]

    @property
    def table(self) -> Table:
        return watermark_table(self.watermarks, self.at)

    def __iter__(self) -> Iterator[Watermark]:
        return iter(self.watermarks)

    def __getitem__(self, flow: str) -> dict[str, Watermark]:
        """Of one flow, by input."""
        found: dict[str, dict[str, Watermark]] = {}
        for one in self.watermarks:
            found.setdefault(one.flow, {})[one.input] = one
        return _find(flow, found)

    def to_json(self) -> dict[str, Any]:
        """As `tidegauge watermark list --json` prints it."""
        marks = [watermark_to_json(one) for one in self.watermarks]
        return {"schema": "tidegauge/watermark-list/1", "watermarks": marks}


def _find(name: str, known: dict[str, _T]) -> _T:
    try:
        return known[name]
    except KeyError:
        raise KeyError(f"{name!r}; there are: {', '.join(sorted(known)) or 'none'}") from None
