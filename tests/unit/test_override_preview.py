"""What a change by hand would do, in the words a person reads before he confirms it."""

from __future__ import annotations

from tidegauge.flows.override import Refresh
from tidegauge.flows.override_delta import DeltaOverridePreviewer
from tidegauge.model.delta_flow import DeltaFlow, DeltaInput, DeltaTable, TableRef


def test_a_full_refresh_of_a_delta_table_names_the_table_as_plan_does() -> None:
    table = DeltaTable(TableRef(path="/lake/silver"), key=("id",))
    flow = DeltaFlow("p", "silver", (DeltaInput("orders", TableRef(path="/lake/orders")),), table)
    made = DeltaOverridePreviewer(flow, None, []).preview(Refresh(), [flow])
    assert made.notes == ("every row of /lake/silver is deleted",)
    assert made.flow.target == "/lake/silver"
