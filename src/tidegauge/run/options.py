"""How the user wants a run to go."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from tidegauge.model.delta_flow import AnyFlow
from tidegauge.model.spec import Stage, Strategy


@dataclass(frozen=True)
class RunOptions:
    selection: tuple[str, ...] = ()
    stage: Stage | None = None
    """Only this stage of tables that have two."""
    parallel: int = 2
    """Flows side by side; with `intra-table`, readers inside one table."""
    strategy: Strategy | None = None
    """None: tables side by side, each with as many readers as its `parallel` says."""
    limit: int | None = None
    """Rows of each flow after which it stops, at the end of a batch."""
    wait: timedelta = timedelta(0)
    confirm_deletes: bool = False
    """Take from the outputs what the sources no longer have, however much that is."""
    remarks: bool = True
    """Say which parts of the project file have no effect."""
    restores_columns: bool = False
    """See `FlowResources`."""
    debug: bool = False

    @property
    def side_by_side(self) -> int:
        return self.parallel if self.strategy in (None, Strategy.INTER_TABLE) else 1

    def with_readers(self, flow: AnyFlow) -> AnyFlow:
        """The flow with as many readers as the strategy gives a table."""
        if self.strategy is None:
            return flow
        return flow.with_readers(self.parallel if self.strategy is Strategy.INTRA_TABLE else 1)

    def strategy_of(self, flow: AnyFlow, tables: int) -> Strategy:
        """The strategy by which a flow was really run."""
        if self.strategy is not None:
            return self.strategy
        if tables > 1 and self.parallel > 1:
            return Strategy.INTER_TABLE
        return Strategy.INTRA_TABLE if flow.readers > 1 else Strategy.SEQUENTIAL
