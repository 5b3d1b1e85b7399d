"""What room is made in a Delta table for what comes, decided without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.delta_output import delta_flow_of
from tidegauge.errors import OutputDisagrees
from tidegauge.model.delta_flow import DeltaTable
from tidegauge.model.mode import Mode
from tidegauge.model.spec import Drift
from tidegauge.model.types import holds
from tidegauge.model.versions import FEED
from tidegauge.outputs.delta.conflicts import is_conflict, translate_conflict
from tidegauge.outputs.delta.target import (
    MADE,
    DeltaColumn,
    DeltaTarget,
    TargetAlterations,
    TargetColumn,
    plan_alterations,
    properties_for,
)
from tidegauge.outputs.delta.types import as_sql, bare, can_widen, fits, has_map, literal


def _output(mode: Mode = Mode.APPEND, **facts: Any) -> DeltaTable:
    return delta_flow_of(Path("/t"), mode, **facts).output


def _target(*columns: TargetColumn, **properties: str) -> DeltaTarget:
    return DeltaTarget("id", columns, (), {FEED: "true", **properties})


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        ("long", "integer"),
        ("short", "byte"),
        ("double", "float"),
        ("double", "integer"),
        ("decimal(12,2)", "decimal(10,2)"),
        ("decimal(12,4)", "decimal(10,2)"),
        ("decimal(10,0)", "integer"),
        ("decimal(20,0)", "long"),
        ("timestamp_ntz", "date"),
    ],
)
def test_a_wider_type_holds_all_of_a_narrower_one_and_not_the_other_way(wide: str, narrow: str) -> None:
    assert can_widen(wide, narrow)
    assert not can_widen(narrow, wide)
    assert can_widen(wide, wide)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("double", "long"),
        ("decimal(12,4)", "decimal(11,2)"),
        ("decimal(19,0)", "long"),
        ("string", "integer"),
        ("timestamp", "timestamp_ntz"),
        ("timestamp", "date"),
        ({"array": "long"}, {"array": "integer"}),
    ],
)
def test_types_that_would_lose_something_fit_neither_way(one: Any, other: Any) -> None:
    assert not can_widen(one, other)
    assert not can_widen(other, one)


def test_a_column_takes_what_it_holds_though_delta_could_not_widen_to_it() -> None:
    for held, brought in (("long", "decimal(18,0)"), ("decimal(19,0)", "long")):
        assert fits(held, brought)
        assert not can_widen(held, brought)
        room = plan_alterations(
            (TargetColumn("v", brought),), _target(TargetColumn("v", held)), _output(), Drift.FAIL
        )
        assert room == TargetAlterations((DeltaColumn("v", "v", held),))
    assert not fits("long", "decimal(19,0)")
    assert not fits({"array": "long"}, {"array": "integer"})


PLAIN = (
    *("byte", "short", "integer", "long", "float", "double", "boolean", "binary", "string"),
    *("date", "timestamp", "timestamp_ntz"),
    *("decimal(3,0)", "decimal(10,0)", "decimal(18,0)", "decimal(19,0)", "decimal(20,0)", "decimal(22,2)"),
)
ONLY_DELTA_WIDENS = {
    ("double", "byte"),
    ("double", "short"),
    ("double", "integer"),
    ("timestamp_ntz", "date"),
}
ONLY_HELD = {
    *(("decimal(3,0)", "byte"), ("decimal(19,0)", "long")),
    *(("short", "decimal(3,0)"), ("integer", "decimal(3,0)"), ("long", "decimal(3,0)")),
    *(("long", "decimal(10,0)"), ("long", "decimal(18,0)")),
}


def test_a_delta_column_takes_what_delta_widens_to_it_and_what_it_holds_and_nothing_else() -> None:
    pairs = [(wide, narrow) for wide in PLAIN for narrow in PLAIN if wide != narrow]
    held = {pair for pair in pairs if holds(*map(as_sql, pair))}
    widened = {pair for pair in pairs if can_widen(*pair)}
    assert widened - held == ONLY_DELTA_WIDENS
    assert held - widened == ONLY_HELD
    assert {pair for pair in pairs if fits(*pair)} == held | widened
    assert not any(fits(narrow, wide) for wide, narrow in held | widened)


def test_types_are_compared_without_what_only_decorates_them() -> None:
    struct = {
        "type": "struct",
        "fields": [{"name": "a`b", "type": "integer", "nullable": False, "metadata": {"x": 1}}],
    }
    nested = {"type": "map", "keyType": "varchar(3)", "valueType": struct, "valueContainsNull": False}
    found = bare({"type": "array", "elementType": nested, "containsNull": True})
    assert as_sql(found) == "array<map<string,struct<`a``b`:int>>>"
    assert has_map(found)
    assert not has_map(bare(struct))


def test_e1_values_and_names_cannot_leave_their_quotes() -> None:
    assert literal("it's \\ 1", "string") == "'it\\'s \\\\ 1'"
    assert literal("2024-01-01", "date") == "DATE'2024-01-01'"
    assert literal("2024-01-01 00:00:00.5", "timestamp") == "TIMESTAMP'2024-01-01 00:00:00.5 UTC'"
    assert literal("-5", "long") == "-5L"
    assert literal("1.50", "decimal(5,2)") == "CAST('1.50' AS decimal(5,2))"
    assert literal(None, "integer") == "CAST(NULL AS int)"
    with pytest.raises(ValueError, match="variant"):
        literal("x", "variant")


def test_a_target_that_fits_is_left_as_it_is() -> None:
    held = (TargetColumn("ID", "long"), TargetColumn("v", "string"))
    room = plan_alterations(
        (TargetColumn("id", "integer"), TargetColumn("v", "string")), _target(*held), _output(), Drift.FAIL
    )
    assert room == TargetAlterations((DeltaColumn("ID", "id", "long"), DeltaColumn("v", "v", "string")))


def test_drift_evolve_says_each_step() -> None:
    columns = (
        TargetColumn("id", "long"),
        TargetColumn("a b", "string"),
        TargetColumn("n", {"array": "long"}),
    )
    room = plan_alterations(columns, _target(TargetColumn("id", "integer")), _output(), Drift.EVOLVE)
    assert room.statements == (
        "SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
        "ADD COLUMNS (`a b` string, `n` array<bigint>)",
        "SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')",
        "ALTER COLUMN `id` TYPE bigint",
    )
    assert [one.name for one in room.columns] == ["id", "a b", "n"]


def test_a_feed_that_was_off_is_switched_on_and_said() -> None:
    room = plan_alterations(
        (TargetColumn("id", "long"),),
        DeltaTarget("", (TargetColumn("id", "long"),), (), {}),
        _output(),
        Drift.FAIL,
    )
    assert room.statements == ("SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')",)
    assert "feed" in room.notes[0]


@pytest.mark.parametrize(
    ("target", "mode", "said"),
    [
        (_target(TargetColumn("v", "string")), Mode.MERGE, "has no column id, which the output names"),
        (_target(TargetColumn("id", "string")), Mode.MERGE, r"column id of /t is string, .* gives bigint"),
        (
            _target(TargetColumn("id", "long"), TargetColumn("x", "long", required=True)),
            Mode.MERGE,
            "x that must not be",
        ),
        (
            _target(TargetColumn("id", "long"), TargetColumn("y", "date", made_by="now()")),
            Mode.MERGE,
            r"column y .*now",
        ),
        (_target(TargetColumn("id", "long"), **{"delta.appendOnly": "true"}), Mode.MERGE, "appendOnly"),
        (_target(TargetColumn("id", "long"), **{"delta.appendOnly": "TRUE"}), Mode.MERGE, "appendOnly"),
        (_target(TargetColumn("id", "long")), Mode.REPLACE_PARTITIONS, "partitioned by nothing"),
    ],
)
def test_a_target_that_somebody_changed_is_refused(target: DeltaTarget, mode: Mode, said: str) -> None:
    facts: dict[str, Any] = {"key": ("id",)} if mode is Mode.MERGE else {"partition_by": ("id",)}
    with pytest.raises(OutputDisagrees, match=said) as refused:
        plan_alterations((TargetColumn("id", "long"),), target, _output(mode, **facts), Drift.EVOLVE)
    assert refused.value.hint


def test_freeze_and_fail_never_widen() -> None:
    for drift in (Drift.FREEZE, Drift.FAIL):
        with pytest.raises(OutputDisagrees, match="is int, and the transform gives bigint") as refused:
            plan_alterations(
                (TargetColumn("id", "long"),), _target(TargetColumn("id", "integer")), _output(), drift
            )
        assert "evolve" in str(refused.value.hint)


def test_d14_what_a_merge_wrote_is_told_from_what_its_user_added() -> None:
    output = _output(Mode.MERGE, key=("a",))
    a, b, mine = TargetColumn("a", "long"), TargetColumn("b", "long"), TargetColumn("mine", "long")
    made = properties_for([a, b], output)
    assert plan_alterations((a, b), _target(a, b, mine, **made), output, Drift.EVOLVE) == TargetAlterations(
        (DeltaColumn("a", "a", "long"), DeltaColumn("b", "b", "long"))
    )
    gone = plan_alterations((a,), _target(a, TargetColumn("B", "long"), mine, **made), output, Drift.EVOLVE)
    assert gone.vanished == ("B",)
    assert gone.statements == ()
    [note] = gone.notes
    assert "no longer gives the column B" in note
    assert "NULL in the rows written from now on" in note
    # Made by an older version, or by its user: what comes is known from now on, and nothing else is ours.
    legacy = plan_alterations((a,), _target(a, b, mine), output, Drift.EVOLVE)
    assert legacy.vanished == ()
    assert legacy.statements == ("SET TBLPROPERTIES ('tidegauge.columns.0' = '[\"a\"]')",)
    # Left out as `drift: freeze` says, so it was never written.
    frozen = plan_alterations((a, b, TargetColumn("c", "long")), _target(a, b, **made), output, Drift.FREEZE)
    assert frozen.statements == ()


def test_d14_the_names_of_many_columns_are_kept_in_parts_that_a_catalogue_takes() -> None:
    output = _output(Mode.MERGE, key=("c0",))
    many = tuple(
        TargetColumn(f"c{number} it's \\ {'x' * 40}" if number else "c0", "long") for number in range(300)
    )
    made = properties_for(many, output)
    parts = [value for name, value in made.items() if name.startswith("tidegauge.columns.")]
    assert len(parts) > 4
    assert max(map(len, parts)) < 4_000
    assert plan_alterations(many, _target(*many, **made), output, Drift.EVOLVE).statements == ()
    assert len(plan_alterations(many[:1], _target(*many, **made), output, Drift.EVOLVE).vanished) == 299
    with pytest.raises(OutputDisagrees, match="not as they were written"):
        plan_alterations(many, _target(*many, **{**made, "tidegauge.columns.0": ""}), output, Drift.EVOLVE)


def test_a_new_target_gets_what_its_mode_and_names_need() -> None:
    plain, strange = TargetColumn("a", "long"), TargetColumn("s", {"struct": [["x y", "long"]]})
    written = {"tidegauge.columns.0": '["a"]'}
    assert properties_for([plain], _output()) == {FEED: "true", MADE: "true"} | written
    assert properties_for([plain], _output(Mode.OVERWRITE)) == {FEED: "true", MADE: "true"}
    merged = properties_for([plain, strange], _output(Mode.MERGE))
    assert merged == {
        FEED: "true",
        MADE: "true",
        "delta.enableDeletionVectors": "true",
        "delta.columnMapping.mode": "name",
        "tidegauge.columns.0": '["a", "s"]',
    }


def test_only_a_conflict_is_tried_again() -> None:
    conflict = RuntimeError(
        '[DELTA_CONCURRENT_APPEND.X] files were added. Conflicting commit: {"operation":"UPDATE"}'
    )
    other = RuntimeError(
        "[DELTA_X] no\n\tat org.DeltaErrors.mergeConcurrentOperationCachedSourceException(X:1)"
    )
    assert is_conflict(conflict)
    assert not is_conflict(other)
    assert "(UPDATE)" in translate_conflict(conflict, "t").message
    assert translate_conflict(other, "t").message == "t: no"


def test_a_struct_that_grows_at_its_end_is_followed_and_any_other_change_of_it_is_refused() -> None:
    inner = {"struct": [["c", "string"]]}
    held = _target(TargetColumn("s", {"struct": [["a", "string"], ["b", inner]]}))
    wider = {
        "struct": [["a", "string"], ["b", {"struct": [["c", "string"], ["d", "long"]]}], ["e f", "date"]]
    }

    room = plan_alterations((TargetColumn("s", wider),), held, _output(), Drift.EVOLVE)

    assert room.columns == (DeltaColumn("s", "s", wider),)
    assert room.statements == (
        "SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
        "ADD COLUMNS (`s`.`b`.`d` bigint, `s`.`e f` date)",
    )
    for other in (
        {"struct": [["a", "string"]]},
        {"struct": [["b", inner], ["a", "string"], ["e", "date"]]},
        {"struct": [["a", "long"], ["b", inner], ["e", "date"]]},
        {"struct": [["a", "string"], ["b", {"struct": []}], ["e", "date"]]},
    ):
        with pytest.raises(OutputDisagrees, match="does not fit"):
            plan_alterations((TargetColumn("s", other),), held, _output(), Drift.EVOLVE)
    for drift in (Drift.FREEZE, Drift.FAIL):
        with pytest.raises(OutputDisagrees, match="does not fit"):
            plan_alterations((TargetColumn("s", wider),), held, _output(), drift)
