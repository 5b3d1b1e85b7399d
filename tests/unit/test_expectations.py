"""`expect:` of a flow: what each entry means, what is refused with its place, and how counts add up."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from tests.unit.test_config_flow_mistakes import IN, OUT, refused
from tests.unit.test_config_flows import flow, load
from tests.unit.test_declare import HEAD, _untouched, declared  # noqa: F401 - a fixture for every test
from tidegauge.config import values
from tidegauge.errors import ExpectationFailed, OutputDisagrees
from tidegauge.flows.transform_fingerprint import TransformFingerprint
from tidegauge.model.delta_flow import DeltaFlow, DeltaTable, Function, Sql, TableRef
from tidegauge.model.expectation import (
    Accepted,
    Action,
    CheckCount,
    Checks,
    ForeignKey,
    Fresh,
    InRange,
    Matches,
    NotNull,
    Predicate,
    RowCount,
    Unique,
    add_up,
)
from tidegauge.outputs.delta.quarantine import COLUMNS, Quarantine
from tidegauge.transform.predicates import check_expectations

WRITTEN = """
    id: not_null
    code: [not_null, unique, {matches: "[A-Z]+", action: warn}]
    status: {accepted: [open, 1], action: quarantine, max_fraction: 0.01}
    n: {range: {min: 0, max: 9.5}, not_null: true, action: drop}
    "n >= 0": {action: quarantine}
    "n <> 3": drop
    owner_known: {check: "owner IS NOT NULL", action: warn}
    owner: {check: not_null, action: warn}
    row_count: {min: 1, max: 1000, action: warn}
    fresh: {column: at, within: 1d}
    foreign_key: {columns: [a, b], table: silver.people, to: [x, y], action: drop}
"""
FAIL, QUARANTINE, DROP, WARN = Action
MEANT: list[tuple[str, Any, Action, float | None]] = [
    ("id: not_null", NotNull("id"), FAIL, None),
    ("code: not_null", NotNull("code"), FAIL, None),
    ("code: unique", Unique(("code",)), FAIL, None),
    ("code: matches", Matches("code", "[A-Z]+"), WARN, None),
    ("status: accepted", Accepted("status", ("open", "1")), QUARANTINE, 0.01),
    ("n: not_null", NotNull("n"), DROP, None),
    ("n: range", InRange("n", "0", "9.5"), DROP, None),
    ("n >= 0", Predicate("n >= 0"), QUARANTINE, None),
    ("n <> 3", Predicate("n <> 3"), DROP, None),
    ("owner_known", Predicate("owner IS NOT NULL"), WARN, None),
    ("owner: not_null", NotNull("owner"), WARN, None),
    ("row_count", RowCount(1, 1000), WARN, None),
    ("fresh", Fresh("at", timedelta(days=1)), FAIL, None),
    (
        "foreign_key: a, b",
        ForeignKey(("a", "b"), TableRef("silver.people"), ("x", "y"), "__tidegauge_expect_a_b"),
        DROP,
        None,
    ),
]
PYTHON = """
@tg.flow(a="t", output=tg.delta("u", key="k"), expect={
    "id": "not_null",
    "code": ["not_null", "unique", {"matches": "[A-Z]+", "action": "warn"}],
    "status": {"accepted": ["open", 1], "action": "quarantine", "max_fraction": 0.01},
    "n": {"range": {"min": 0, "max": 9.5}, "not_null": True, "action": "drop"},
    "n >= 0": {"action": "quarantine"},
    "n <> 3": "drop",
    "owner_known": {"check": "owner IS NOT NULL", "action": "warn"},
    "owner": {"check": "not_null", "action": "warn"},
    "row_count": {"min": 1, "max": 1000, "action": "warn"},
    "fresh": {"column": "at", "within": "1d"},
    "foreign_key": {"columns": ["a", "b"], "table": "silver.people", "to": ["x", "y"], "action": "drop"},
})
def f(a): return a
"""


def flow_of(folder: Path, expect: str) -> DeltaFlow:
    return load(folder, flow(f"{IN}, {OUT}, expect: {{{expect}}}"))[0]


def test_every_form_of_an_expectation_in_yaml_and_in_python(tmp_path: Path) -> None:
    text = f"pipeline: x\nflows:\n  f:\n   {IN}\n   {OUT}\n   expect:{WRITTEN}"
    in_yaml = load(tmp_path, text)[0]
    (in_python,) = declared(tmp_path, HEAD + PYTHON)
    for made in (in_yaml, in_python):
        assert [(one.name, one.rule, one.action, one.max_fraction) for one in made.expect] == MEANT
        lookup = made.inputs[-1]
        assert (lookup.table, lookup.snapshot, lookup.for_checks) == (TableRef("silver.people"), True, True)
        assert [part.name for part in made.read] == ["a"]
    first = in_yaml.expect[0].place
    assert first is not None
    assert (first.line, first.column) == (7, 5)


MISTAKES = {
    "text": ("expect: ▲not_null", "`expect` must be a mapping", "not_null"),
    "word": ("expect: {a: ▲nul}", "`nul` is no check on a column", "not_null"),
    "list": ("expect: {a: ▲[]}", "must not be empty", None),
    "in list": ("expect: {a: [not_null, ▲x]}", "`x` is no check", "one of"),
    "key": ("expect: {a: {▲acepted: [b]}}", "unknown key `acepted`", "`accepted`"),
    "action": ('expect: {"a > 1": {action: ▲quarantin}}', "`quarantin`", "`quarantine`"),
    "fraction": ('expect: {"a > 1": {action: warn, max_fraction: ▲2}}', "`2` is not a share", "`30%`"),
    "bare one": ('expect: {"a > 1": {action: warn, max_fraction: ▲1}}', "`1` is not a share", "`0.3`"),
    "big exponent": (
        'expect: {"a > 1": {action: warn, max_fraction: ▲1e3}}',
        "`1e3` is not a share",
        "`0.3`",
    ),
    "more than all": ('expect: {"a > 1": {action: warn, max_fraction: ▲9e-0}}', "0% to 100%", None),
    "fraction of fail": ('expect: {"a > 1": {max_fraction: ▲0.1}}', "needs an action", "quarantine"),
    "fraction of all": ("expect: {a: {unique: true, action: warn, max_fraction: ▲0.1}}", "counts rows", None),
    "unique aside": (
        "expect: {a: {unique: true, action: ▲drop}}",
        "so none can be set aside",
        "`warn`",
    ),
    "range": ("expect: {a: {range: ▲5}}", "`min`, `max` or both", None),
    "range key": ("expect: {a: {range: {▲least: 5}}}", "unknown key `least`", "`min`"),
    "no values": ("expect: {a: {accepted: ▲[]}}", "empty list", None),
    "not not null": ("expect: {a: {not_null: ▲false}}", "can only be `true`", None),
    "count": ("expect: {row_count: {min: ▲x}}", "whole number", None),
    "count ends": ("expect: {row_count: ▲{min: 3, max: 2}}", "more than `max`", None),
    "fresh": ("expect: {fresh: ▲{column: a}}", "`within` is missing", "24h"),
    "fresh within": ("expect: {fresh: {column: a, within: ▲x}}", "`x` is not a duration", None),
    "foreign": ("expect: {foreign_key: ▲{columns: a}}", "a foreign key names one table", "`path`"),
    "foreign to": ("expect: {foreign_key: {columns: a, table: t, to: ▲[b, c]}}", "1 and 2", None),
    "foreign columns": ("expect: {foreign_key: ▲{table: t}}", "`columns` is missing", None),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_in_an_expectation_is_named_with_its_place(tmp_path: Path, case: str) -> None:
    marked, message, hint = MISTAKES[case]
    error = refused(tmp_path, flow(f"{IN}, {OUT}, {marked}"))
    assert message in error.message
    assert hint is None or hint in (error.hint or "")


def test_one_check_stands_once(tmp_path: Path) -> None:
    error = refused(tmp_path, flow(f"{IN}, {OUT}, expect: {{▲a: [unique, unique]}}"))
    assert "`a: unique` is expected twice" in error.message


@pytest.mark.parametrize(
    ("written", "fraction"),
    [
        ("1%", 0.01),
        ("0.01", 0.01),
        ("100%", 1.0),
        ("1.0", 1.0),
        ("0", 0.0),
        ("0.5%", 0.005),
        ("1e-3", 0.001),
        ("1.5E-05", 0.000015),
    ],
)
def test_a_fraction_is_written_like_the_limit_of_deletes(
    tmp_path: Path, written: str, fraction: float
) -> None:
    made = flow_of(tmp_path, f'"a > 1": {{action: warn, max_fraction: {written}}}')
    assert made.expect[0].max_fraction == fraction
    assert values.share(written) == fraction


@pytest.mark.parametrize("fraction", [1.5e-40, 1e-05, 1 / 3, 0.01, 1.0])
def test_a_fraction_in_python_is_a_number(tmp_path: Path, fraction: float) -> None:
    expect = f'{{"a > 1": {{"action": "warn", "max_fraction": {fraction!r}}}}}'
    code = f'@tg.flow(a="t", output=tg.delta("u", key="k"), expect={expect})\ndef f(a): return a\n'
    (made,) = declared(tmp_path, HEAD + code)
    assert made.expect[0].max_fraction == fraction


def test_unique_has_no_meaning_where_a_key_has_many_rows(tmp_path: Path) -> None:
    scd2 = "output: {table: u, key: k, mode: scd2, sequence_by: s}"
    error = refused(tmp_path, flow(f"{IN}, {scd2}, expect: {{▲a: unique}}"))
    assert "keeps many rows of one key" in error.message


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("n >=", "cannot be read as a predicate"),
        ("n in (SELECT 1)", "reads another table"),
        ("count(*) > 3", "looks at several rows"),
        ("every(n > 3)", "looks at several rows"),
        ("some(n > 3)", "looks at several rows"),
        ("mean(n) > 3", "looks at several rows"),
        ("size(array_agg(n)) > 3", "looks at several rows"),
        ("row_number() OVER (ORDER BY n) = 1", "looks at several rows"),
        ("n > rand()", "gives another value in each run: rand()"),
        ("d < current_date()", "reads the clock"),
    ],
)
def test_a_predicate_is_told_by_one_row_alone(tmp_path: Path, sql: str, why: str) -> None:
    made = flow_of(tmp_path, f'a: {{check: "{sql}"}}')
    with pytest.raises(ExpectationFailed, match=why.replace("(", r"\(").replace(")", r"\)")) as caught:
        check_expectations(made, {"a": {"n": "int", "d": "date"}})
    assert caught.value.place is not None


@pytest.mark.parametrize(
    "sql",
    [
        *("d LIKE ANY ('2%', '3%')", "d NOT LIKE ALL ('2%')", "exists(l, x -> x > n)"),
        *("is_agg_ok(n)", "is_aggregated(n)"),  # functions of the user's
    ],
)
def test_a_predicate_may_look_at_many_values_of_one_row(tmp_path: Path, sql: str) -> None:
    made = flow_of(tmp_path, f'a: {{check: "{sql}"}}')
    check_expectations(made, {"a": {"n": "int", "d": "string", "l": "array<int>"}})


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        (None, {"a", "b"}),
        ("SELECT *, a + 1 AS c FROM a", {"a", "b", "c"}),
        ("SELECT a AS A1, b.c FROM a", {"a1", "c"}),
    ],
)
def test_a_column_that_is_not_there_is_told_at_plan_where_columns_are_known(
    tmp_path: Path, sql: str | None, names: set[str]
) -> None:
    inputs = {"a": {"a": "int", "b": "struct<c:int>"}}
    transform = None if sql is None else Sql(sql)
    for expect in (
        "fresh: {column: gone, within: 1h}",
        "gone: not_null",
        '"gone > 1": warn',
        "gone.x: unique",
    ):
        made = replace(flow_of(tmp_path, expect), transform=transform)
        with pytest.raises(ExpectationFailed, match="no column gone") as caught:
            check_expectations(made, inputs)
        assert caught.value.hint == f"they have {', '.join(sorted(names))}"
    for name in names:
        made = flow_of(tmp_path, f'{name.upper()}: not_null, "{name} IS NOT NULL": warn')
        check_expectations(replace(made, transform=transform), inputs)
    # What only Spark can tell is left to it.
    unknown = replace(flow_of(tmp_path, "gone: not_null"), transform=Function("m:f"))
    check_expectations(unknown, inputs)


def test_only_what_is_set_aside_changes_what_the_target_is_made_by(tmp_path: Path) -> None:
    plain, warned, dropped, aside, other = (
        TransformFingerprint.of(flow_of(tmp_path, expect))
        for expect in (
            "a: not_null",
            '"n > 1": warn',
            '"n > 1": drop',
            '"n > 1": quarantine',
            '"n > 2": drop',
        )
    )
    assert plain == warned != dropped == aside != other


def test_counts_of_batches_add_up_and_come_back_from_json() -> None:
    one = Checks(10, (CheckCount("a", WARN, 2), CheckCount("b", DROP, 1)), 0, 1)
    both = add_up([one, Checks(5, (CheckCount("a", WARN, 1),), 3, 0)])
    assert both == Checks(15, (CheckCount("a", WARN, 3), CheckCount("b", DROP, 1)), 3, 1)
    assert Checks.from_json(one.to_json()) == one
    assert one.tell() == "of 10 rows not as expected: a: 2 (warn); b: 1 (drop)"
    assert Checks(10, (CheckCount("a", WARN, 0),)).tell() is None
    assert add_up([]) is None


@pytest.mark.parametrize(
    ("table", "beside"),
    [
        (TableRef("silver.t"), "silver.t_quarantine"),
        (TableRef("silver.`t t`"), "silver.`t t_quarantine`"),
        (TableRef(path="/a/t"), "/a/t_quarantine"),
    ],
)
def test_the_table_for_rows_set_aside_stands_beside_the_target(table: TableRef, beside: str) -> None:
    assert str(table.quarantine) == beside


@pytest.mark.parametrize(
    ("column", "kind", "said"),
    [
        ("_window", None, "has no column _window"),
        ("_seq", pa.string(), "has a column _seq that is no bigint"),
        ("_reasons", pa.string(), "has a column _reasons that is no array<string>"),
        ("who", pa.field("who", pa.string(), nullable=False), "wants a value for who, which is NOT NULL"),
        ("who", pa.string(), None),
        ("_replay", pa.string(), None),
    ],
)
def test_a_quarantine_that_somebody_altered_takes_no_rows_and_says_why(
    tmp_path: Path, column: str, kind: pa.DataType | pa.Field | None, said: str | None
) -> None:
    moment = pa.timestamp("us", "UTC")
    types = {"bigint": pa.int64(), "array<string>": pa.list_(pa.string()), "timestamp": moment}
    fields = {name: pa.field(name, types.get(one, pa.string())) for name, one in COLUMNS.items()}
    if kind is None:
        del fields[column]
    else:
        fields[column] = kind if isinstance(kind, pa.Field) else pa.field(column, kind)
    flow = DeltaFlow("p", "f", (), DeltaTable(TableRef(path=str(tmp_path / "t")), key=("id",)))
    where = str(tmp_path / "t_quarantine")
    quarantine = Quarantine(flow, lambda: where)
    write_deltalake(where, pa.schema(list(fields.values())).empty_table())
    if said is None:
        assert quarantine.look() is not None
        return
    with pytest.raises(OutputDisagrees, match=said) as caught:
        quarantine.look()
    assert "move it away" in str(caught.value.hint)
