"""What a change by hand would do, in the words a person reads before he confirms it."""

from __future__ import annotations

from datetime import datetime

import pytest

from tidegauge.errors import ConfigError
from tidegauge.flows.override.delta import DeltaOverridePreviewer
from tidegauge.flows.override.preview import Import, Imported, OverridePreview, Refresh
from tidegauge.model.delta_flow import DeltaFlow, DeltaInput, DeltaTable, TableRef
from tidegauge.model.mode import Mode
from tidegauge.model.position import Position, VersionPosition
from tidegauge.model.watermark import Watermark


def test_a_full_refresh_of_a_delta_table_names_the_table_as_plan_does() -> None:
    table = DeltaTable(TableRef(path="/lake/silver"), key=("id",))
    flow = DeltaFlow("p", "silver", (DeltaInput("orders", TableRef(path="/lake/orders")),), table)
    made = DeltaOverridePreviewer(flow, None, [], version_at=lambda *_: 0).preview(Refresh(), [flow])
    assert made.notes == ("every row of /lake/silver is deleted",)
    assert made.flow.target == "/lake/silver"


def preview_import(mode: Mode = Mode.MERGE, **versions: int | None) -> OverridePreview:
    """Of a flow with two inputs, both read up to version 5, and a pinned one."""
    names = {"orders": False, "items": False, "shops": True}
    inputs = tuple(DeltaInput(name, TableRef(path=f"/{name}"), snapshot=pin) for name, pin in names.items())
    flow = DeltaFlow("p", "silver", inputs, DeltaTable(TableRef(path="/silver"), mode, key=("id",)))
    marks = [
        Watermark(
            "p", "silver", name, "version", VersionPosition(5), None, 0, 1, None, None, datetime(2026, 1, 1)
        )
        for name in names
    ]
    there: dict[str, Position | None] = {
        name: None if one is None else VersionPosition(one) for name, one in versions.items()
    }
    request = Import({"silver": Imported(next(iter(there.values())), None, there)}, "marks.json")
    return DeltaOverridePreviewer(flow, None, marks, version_at=lambda *_: 0).preview(request, [flow])


def test_an_import_moves_every_input_that_is_followed() -> None:
    made = preview_import(shops=1, items=3, orders=5)
    assert made.positions == {"orders": VersionPosition(5), "items": VersionPosition(3)}
    assert (made.unchanged, made.dangers) == (False, ())
    assert preview_import(shops=1, items=5, orders=5).unchanged


def test_an_import_needs_every_input_that_is_followed() -> None:
    with pytest.raises(ConfigError, match="does not hold the version of each of its inputs"):
        preview_import(orders=5, shops=1)


def test_an_import_names_what_the_second_input_would_lose_or_bring_twice() -> None:
    assert preview_import(orders=5, items=9).dangers == ("changes up to version 9 never reach /silver",)
    [danger] = preview_import(Mode.APPEND, orders=5, items=None).dangers
    assert danger == "what is read again is appended to /silver a second time"
