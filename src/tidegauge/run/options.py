"""How the user wants a run to go."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from tidegauge.model.delta_flow import DataFlow
from tidegauge.model.spec import Stage, Strategy


@dataclass(frozen=True)
class RunOptions:
    selection: tuple[str, ...] = ()
    stage: Stage | None = None
    """Run only this stage of tables that have two; None: both."""
    parallel: int = 2
    """How many flows run side by side; with `intra-table`, how many readers one table has."""
    strategy: Strategy | None = None
    """None: run tables side by side, each with as many readers as its own `parallel` says."""
    limit: int | None = None
    """Rows after which each flow stops, at the end of a batch; None: no limit."""
    wait: timedelta = timedelta(0)
    """How long to wait for a flow that another runner holds."""
    confirm_deletes: bool = False
    """Delete from the outputs the rows that the sources no longer have, however many they are."""
    remarks: bool = True
    """Report the parts of the project file that have no effect."""
    restores_columns: bool = False
    """See `FlowResources.restores_columns`."""
    debug: bool = False

    @property
    def side_by_side(self) -> int:
        return self.parallel if self.strategy in (None, Strategy.INTER_TABLE) else 1

    def with_readers(self, flow: DataFlow) -> DataFlow:
        """The flow with as many readers as the strategy gives a table."""
        if self.strategy is None:
            return flow
        return flow.with_readers(self.parallel if self.strategy is Strategy.INTRA_TABLE else 1)

    def strategy_of(self, flow: DataFlow, tables: int) -> Strategy:
        """The strategy that a run of so many tables really uses for a flow."""
        if self.strategy is not None:
            return self.strategy
        if tables > 1 and self.parallel > 1:
            return Strategy.INTER_TABLE
        return Strategy.INTRA_TABLE if flow.readers > 1 else Strategy.SEQUENTIAL
