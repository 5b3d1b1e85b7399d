"""A batch that is there already counts as the plan's only if it did the same to the same window."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from tests.support import delta_output
from tests.support.delta_log_table import LogTable
from tests.support.drafts import ME
from tests.support.output_parts import LAYOUT, batch, local_lake, staged, tag
from tests.support.warehouses import ORDERS, Yard, batch_to, loader, no_spark, read_batch, tag_of
from tidegauge.errors import OutputDisagrees, OutputUnreachable
from tidegauge.model.batch_data import BatchData, BatchRows
from tidegauge.model.claim import Claim
from tidegauge.model.plan import Batch, Draft, Plan, Receipt, Tag
from tidegauge.model.protocols.ledger import LedgerWriter
from tidegauge.model.protocols.output import Output
from tidegauge.model.spec import Lake
from tidegauge.model.staged import Staged
from tidegauge.outputs.lake.output import LakeOutput
from tidegauge.run.commit_batch import CommitResources, commit_batch

WINDOW = batch("2025-08-14 15:30:22.123456", after="2025-08-14 15:00:00.000000")


@dataclass
class _Noted:
    """A ledger that only notes which batches were advanced."""

    advanced: list[Receipt]

    def renew(self, claim: Claim, lease: timedelta, *, least: timedelta) -> None:
        pass

    def advance(self, claim: Claim, index: int, receipt: Receipt, *, ends: bool) -> None:
        self.advanced.append(receipt)


class _Answerless:
    """An output whose commits give no answer."""

    def __init__(self, output: Output) -> None:
        self._output = output

    def stage(self, batch_data: BatchData, spark: Callable[[], Any]) -> Staged:
        return Staged(0)

    def commit(self, *_: object, **__: object) -> Receipt:
        raise OutputUnreachable("the connection was reset")

    def discard(self, staged: Staged) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        return getattr(self._output, name)


def _go_on(output: Output, one: Tag, planned: Batch, *, attempt: int) -> list[Receipt]:
    """The receipts that the ledger gets of a plan with this batch."""
    plan = Plan("p", Draft(one.pipeline, one.flow, (), (planned,)), one.epoch, one.seq)
    claim = Claim(plan, ME, "r", 1, attempt, datetime.now(UTC))
    ledger = _Noted([])
    tools = CommitResources(
        ledger=cast("LedgerWriter", ledger),
        output=cast("Output", _Answerless(output)),
        spark=no_spark,
        tell=lambda _: None,
        lease=timedelta(minutes=1),
    )
    commit_batch(claim, 0, lambda _: BatchRows(ORDERS), tools)
    return ledger.advanced


def _check(output: Output, one: Tag, there: Batch, *others: Batch) -> None:
    for attempt in (1, 2):
        assert [receipt.tag for receipt in _go_on(output, one, there, attempt=attempt)] == [one]
        for other in others:
            with pytest.raises(OutputDisagrees, match="another window"):
                _go_on(output, one, other, attempt=attempt)


def test_b5_a_warehouse_tells_nulls_deletes_and_rows_of_one_window_apart(warehouse: Yard) -> None:
    orders = loader(warehouse)
    orders.rows(ORDERS, [(1, "a", None, 1)])
    nulls = batch_to(2, nulls=True)
    output = warehouse.output(orders.flow)
    rows = output.stage(read_batch(ORDERS, [(2, "b", None, 1)]), no_spark)
    output.commit(tag_of(orders.flow, 2), nulls, rows, layout=ORDERS, run_id="r")
    others = [batch_to(2), replace(batch_to(2), deletes=True), replace(batch_to(2), empties_output=True)]
    _check(warehouse.output(orders.flow), tag_of(orders.flow, 2), nulls, *others)


def test_b5_a_delta_table_tells_deletes_and_rows_of_one_window_apart(tmp_path: Path) -> None:
    table = LogTable(Lake("", str(tmp_path / "orders")))
    table.commit(1)
    there = delta_output.batch_of(1)
    _check(table.fresh(), delta_output.tag_of(1), there, replace(there, deletes=True))


def test_b5_a_lake_tells_nulls_and_rows_of_one_window_apart(tmp_path: Path) -> None:
    output = LakeOutput(local_lake(tmp_path / "lake"), "orders")
    output.commit(tag(1), WINDOW, staged(()), layout=LAYOUT, run_id="r")
    _check(output, tag(1), WINDOW, replace(WINDOW, nulls=True))
