"""What is true of each write mode, for whoever plans, transforms, compares or overrides."""

from __future__ import annotations

import pytest

from tidegauge.model.mode import MODES, Mode, OutputKind
from tidegauge.outputs.warehouse.modes import APPLY

APPEND, MERGE, OVERWRITE = Mode.APPEND, Mode.MERGE, Mode.OVERWRITE
SCD2, PARTITIONS = Mode.SCD2, Mode.REPLACE_PARTITIONS


@pytest.mark.parametrize(
    ("fact", "modes"),
    [
        ("only_adds", {APPEND}),
        ("keeps_history", {SCD2}),
        ("keeps_every_change", {APPEND, SCD2}),
        ("replaces_all", {OVERWRITE}),
        ("replaces_partitions", {PARTITIONS}),
    ],
)
def test_each_fact_holds_for_just_these_modes(fact: str, modes: set[Mode]) -> None:
    assert {mode for mode in Mode if getattr(mode.facts, fact)} == modes


def test_an_overwritten_table_is_written_by_its_key_in_a_warehouse_alone() -> None:
    assert {mode for mode in Mode if mode.needs_key(OutputKind.WAREHOUSE)} == {MERGE, OVERWRITE, SCD2}
    assert {mode for mode in Mode if mode.needs_key(OutputKind.DELTA)} == {MERGE, SCD2}
    assert {mode for mode in Mode if mode.one_row_per_key(OutputKind.WAREHOUSE)} == {MERGE, OVERWRITE}
    assert {mode for mode in Mode if mode.one_row_per_key(OutputKind.DELTA)} == {MERGE}


def test_a_warehouse_carries_out_every_mode_that_it_is_said_to_have() -> None:
    assert {*MODES[OutputKind.WAREHOUSE]} == {*APPLY}
    assert {*MODES[OutputKind.DELTA]} == {*Mode}
    assert MODES[OutputKind.LAKE] == (APPEND,)
