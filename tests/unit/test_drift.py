"""What is decided when a table's columns have changed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegauge.errors import OutputDisagrees
from tidegauge.model.position import ValueKind
from tidegauge.model.spec import Drift, TableName, TableOptions
from tidegauge.model.table import Field, Layout, OrderedColumn, SourceColumn, SourceTable
from tidegauge.model.types import holds
from tidegauge.plan.drift import ChangeKind, ColumnChange, DriftDecision, decide, narrow

TYPES = [
    *("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "binary", "date"),
    *("timestamp", "timestamp_ntz", "decimal(3,0)", "decimal(12,2)", "decimal(20,0)", "decimal(38,10)"),
]
COLUMNS = st.dictionaries(st.sampled_from("abcdef"), st.sampled_from(TYPES), max_size=6)


def fields(**types: str) -> tuple[Field, ...]:
    return tuple(Field(name, kind, kind) for name, kind in types.items())


def layout(key: str = "id", **types: str) -> Layout:
    return Layout(TableName("shop", "orders"), fields(id="bigint", **types), (key,), "timestamp", "at")


def judge(
    policy: Drift,
    held: tuple[Field, ...] | None,
    new: Layout,
    *,
    key: tuple[str, ...] | None = None,
    columns_unchanged: bool = False,
) -> DriftDecision:
    return decide(policy, held, new, place="dw: orders", key=key, columns_unchanged=columns_unchanged)


def kinds(decision: DriftDecision) -> dict[str, ChangeKind]:
    return {change.column: change.kind for change in decision.changes}


@pytest.mark.parametrize("policy", Drift)
def test_the_same_columns_in_any_order_are_no_change(policy: Drift) -> None:
    held = fields(at="timestamp", name="string", id="bigint")
    new = layout(name="string", at="timestamp")
    assert judge(policy, held, new) == DriftDecision(new)


@pytest.mark.parametrize("policy", Drift)
def test_an_output_that_holds_nothing_yet_takes_anything(policy: Drift) -> None:
    new = layout(name="string")
    assert judge(policy, None, new) == DriftDecision(new)


def test_evolve_adds_widens_and_keeps() -> None:
    held = fields(id="bigint", n="int", gone="string", price="decimal(10,2)")
    new = layout(n="bigint", price="decimal(12,2)", discount="decimal(5,2)", at="timestamp")
    decision = judge(Drift.EVOLVE, held, new)
    assert decision.layout == new
    assert kinds(decision) == {
        "n": ChangeKind.WIDENED,
        "price": ChangeKind.WIDENED,
        "discount": ChangeKind.ADDED,
        "at": ChangeKind.ADDED,
        "gone": ChangeKind.DROPPED,
    }
    assert "column n was int and is the wider bigint now: the output's column is widened" in decision.summary
    assert set(decision.notes) == {change.sentence for change in decision.changes}


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ("int", "string"),
        ("string", "int"),
        ("date", "timestamp_ntz"),
        ("timestamp", "timestamp_ntz"),
        ("int", "double"),
        ("double", "decimal(38,10)"),
        ("decimal(10,2)", "decimal(11,4)"),
        ("bigint", "decimal(20,2)"),
        ("boolean", "tinyint"),
        ("binary", "string"),
    ],
)
def test_a_type_that_cannot_be_held_stops_every_policy(before: str, now: str) -> None:
    for policy in Drift:
        with pytest.raises(OutputDisagrees) as caught:
            judge(policy, fields(id="bigint", x=before), layout(x=now))
        message = caught.value.message
        assert f"column x was {before} and is {now} now" in message
        assert "shop.orders" in message
        assert caught.value.hint
        assert not caught.value.retryable


def test_a_narrower_source_leaves_the_target_wide() -> None:
    held, new = fields(id="bigint", n="bigint"), layout(n="int")
    assert judge(Drift.FAIL, held, new).changes == ()
    # An output that gives types back as they were written knows it for a change.
    for policy in (Drift.EVOLVE, Drift.FREEZE):
        decision = decide(policy, held, new, place="lake", lands=str)
        assert kinds(decision) == {"n": ChangeKind.NARROWED}
        assert decision.layout == new
    with pytest.raises(OutputDisagrees, match="n is int now, and bigint in the output"):
        decide(Drift.FAIL, held, new, place="lake", lands=str)


def test_what_a_target_makes_of_a_type_is_no_change() -> None:
    held, new = fields(id="bigint", small="smallint", day="string"), layout(small="tinyint", day="date")
    made = {"tinyint": "smallint", "date": "string"}
    decision = decide(Drift.FAIL, held, new, place="dw", lands=lambda name: made.get(name, name))
    assert decision == DriftDecision(new)


def test_a_target_that_folds_names_does_not_get_a_column_twice() -> None:
    held, new = fields(id="bigint", name="string"), layout(Name="string")
    assert decide(Drift.FAIL, held, new, place="dw", named=str.lower) == DriftDecision(new)
    kept = fields(ID="bigint", NAME="string", Gone="int")
    decision = decide(Drift.FREEZE, kept, layout(Name="string", come="int"), place="dw", named=str.lower)
    assert kinds(decision) == {"Gone": ChangeKind.DROPPED, "come": ChangeKind.ADDED}
    assert decision.left_out == ("come",)
    assert "Gone may have been renamed to come" in " ".join(decision.notes)
    assert kinds(judge(Drift.EVOLVE, held, new)) == {"Name": ChangeKind.ADDED, "name": ChangeKind.DROPPED}


def test_an_output_with_types_of_its_own_says_what_holds_what() -> None:
    words = {"at": "holds", "text": "widen", "odd": "narrow", "id": "holds"}

    def fit(held: Field, field: Field, *, key: bool) -> str:
        assert key == (field.name == "id")
        return words[field.name]

    held = (
        *fields(id="bigint", at="timestamp_ntz"),
        Field("text", "string", "varchar(20)"),
        Field("odd", "decimal(10,0)", "decimal(10,0)"),
    )
    new = replace(
        layout(),
        fields=(
            *fields(id="bigint", at="timestamp", odd="decimal(10,2)"),
            Field("text", "string", "varchar(40)"),
        ),
    )
    decision = decide(Drift.EVOLVE, held, new, fit=fit)
    assert kinds(decision) == {"text": ChangeKind.WIDENED, "odd": ChangeKind.TIGHT}
    assert "column text was varchar(20) and is the wider varchar(40) now" in decision.summary
    assert "a value that it cannot hold stops the batch" in decision.summary
    with pytest.raises(OutputDisagrees, match="text was varchar"):
        decide(Drift.FREEZE, held, new, fit=fit)
    words["at"] = "refused"
    with pytest.raises(OutputDisagrees, match="column at was timestamp_ntz and is timestamp now"):
        decide(Drift.EVOLVE, held, new, fit=fit)


def test_freeze_leaves_new_columns_out_and_counts_them() -> None:
    held = fields(id="bigint", a="int", b="int")
    decision = judge(Drift.FREEZE, held, layout(a="int", new="string", at="timestamp"))
    assert decision.layout.fields == fields(id="bigint", a="int")
    assert decision.layout.cursor_column is None
    assert decision.left_out == ("new", "at")
    assert kinds(decision) == {"new": ChangeKind.ADDED, "at": ChangeKind.ADDED, "b": ChangeKind.DROPPED}
    assert "2 new columns are left out, as `drift: freeze` says: new, at" in decision.notes


def test_freeze_stops_at_a_type_that_the_old_one_cannot_hold() -> None:
    with pytest.raises(OutputDisagrees, match="column n was int and is the wider bigint now") as caught:
        judge(Drift.FREEZE, fields(id="bigint", n="int", m="int"), layout(n="bigint", m="int"))
    assert "drift: evolve" in str(caught.value.hint)
    assert judge(Drift.FREEZE, fields(id="bigint", n="bigint"), layout(n="int")).changes == ()


def test_fail_lists_every_change() -> None:
    with pytest.raises(OutputDisagrees) as caught:
        judge(Drift.FAIL, fields(id="bigint", gone="int", n="int"), layout(n="bigint", new="string"))
    for part in ("column new (string) is new", "gone (int) is gone", "n was int and is the wider bigint"):
        assert part in caught.value.message


@pytest.mark.parametrize("policy", [Drift.EVOLVE, Drift.FREEZE])
def test_another_key_stops_the_flow(policy: Drift) -> None:
    held = fields(id="bigint", code="string")
    with pytest.raises(OutputDisagrees, match=r"the key was \(id\) and is \(code\) now"):
        judge(policy, held, layout("code", code="string"), key=("id",))
    with pytest.raises(OutputDisagrees, match="column region"):
        judge(policy, held, layout("region", code="string", region="string"))
    both = replace(layout(code="string"), key=("code", "id"))
    assert judge(policy, held, both, key=("id", "code")).changes == ()


def test_a_rename_is_a_guess_and_loses_nothing() -> None:
    held = fields(id="bigint", name="string", total="int", note="string")
    decision = judge(Drift.EVOLVE, held, layout(full_name="string", total="int", at="string"))
    assert kinds(decision)["name"] is ChangeKind.DROPPED
    assert kinds(decision)["full_name"] is ChangeKind.ADDED
    assert [note for note in decision.notes if "may have been renamed" in note] == [
        "name may have been renamed to full_name: taken for one column that is gone and one that is new",
        "note may have been renamed to at: taken for one column that is gone and one that is new",
    ]
    other = judge(Drift.EVOLVE, held, layout(total="int", note="string", full_name="string"))
    assert not [note for note in other.notes if "renamed" in note]


def test_what_was_decided_before_is_not_told_again() -> None:
    held, new = fields(id="bigint", gone="int"), layout()
    assert judge(Drift.EVOLVE, held, new, columns_unchanged=True) == DriftDecision(new)
    assert judge(Drift.FAIL, held, new, columns_unchanged=True) == DriftDecision(new)
    frozen = judge(Drift.FREEZE, held, layout(new="int"), columns_unchanged=True)
    assert frozen.changes == ()
    assert frozen.left_out == ("new",)
    assert len(frozen.notes) == 1
    # Somebody took the column away from the target.
    assert kinds(judge(Drift.EVOLVE, held, layout(new="int"), columns_unchanged=True)) == {
        "new": ChangeKind.ADDED
    }


def test_columns_of_the_outputs_own_are_nobodys_loss() -> None:
    held = fields(id="bigint", valid_from="timestamp", is_current="boolean")
    decision = decide(Drift.FAIL, held, layout(), place="dw", own=("valid_from", "is_current"))
    assert decision == DriftDecision(layout())


@given(one=st.sampled_from(TYPES), two=st.sampled_from(TYPES), three=st.sampled_from(TYPES))
def test_what_holds_what_is_an_order(one: str, two: str, three: str) -> None:
    assert holds(one, one)
    if one != two:
        assert not (holds(one, two) and holds(two, one))
    if holds(one, two) and holds(two, three):
        assert holds(one, three)


@given(held=COLUMNS, new=COLUMNS)
def test_evolve_never_loses_a_column_or_a_value(held: dict[str, str], new: dict[str, str]) -> None:
    old, come = fields(id="bigint", **held), layout(**new)
    try:
        decision = judge(Drift.EVOLVE, old, come)
    except OutputDisagrees:
        shared = set(held) & set(new)
        assert any(not holds(held[n], new[n]) and not holds(new[n], held[n]) for n in shared)
        return
    assert decision.layout == come
    found = kinds(decision)
    for name in set(held) | set(new):
        if name not in held:
            assert found[name] is ChangeKind.ADDED
        elif name not in new:
            assert found[name] is ChangeKind.DROPPED
        elif name in found:
            assert found[name] is ChangeKind.WIDENED
            assert holds(new[name], held[name])
        else:
            assert holds(held[name], new[name])
    # Once the target has what was decided, the same look finds nothing left to do.
    after = {**held, **{n: t for n, t in new.items() if n not in held or holds(t, held[n])}}
    assert judge(Drift.EVOLVE, fields(id="bigint", **after), come, columns_unchanged=True).changes == ()


@given(held=COLUMNS, new=COLUMNS)
def test_freeze_writes_only_what_the_target_has_and_holds(held: dict[str, str], new: dict[str, str]) -> None:
    try:
        decision = judge(Drift.FREEZE, fields(id="bigint", **held), layout(**new))
    except OutputDisagrees:
        assert any(not holds(held[name], new[name]) for name in set(held) & set(new))
        return
    written = {field.name: field.type for field in decision.layout.fields}
    assert set(written) == {"id"} | (set(held) & set(new))
    assert all(holds(held[name], kind) for name, kind in written.items() if name != "id")
    assert set(decision.left_out) == set(new) - set(held)


def test_a_shape_is_narrowed_to_the_columns_that_are_written() -> None:
    columns = tuple(SourceColumn(name, "int", "int", name, "int", "{}") for name in ("id", "a", "b"))
    ordered = OrderedColumn("b", "b", "b", ValueKind.INT, nullable=False)
    source_table = SourceTable(
        table=TableName(None, "t"),
        options=TableOptions(cursor="b"),
        columns=columns,
        cursor=ordered,
        cursor_kind="value",
        key=(OrderedColumn("id", "id", "id", ValueKind.INT, nullable=False),),
        key_proven=True,
        source_id="x",
    )
    small = narrow(source_table, {"id", "a"})
    assert [column.name for column in small.columns] == ["id", "a"]
    assert small.cursor == ordered
    assert small.layout.cursor_column is None


def test_a_change_says_what_it_is_and_what_is_done() -> None:
    change = ColumnChange(
        ChangeKind.ADDED, "x", None, "int", "it is added, and NULL in the rows already there"
    )
    assert change.sentence == "column x (int) is new: it is added, and NULL in the rows already there"
