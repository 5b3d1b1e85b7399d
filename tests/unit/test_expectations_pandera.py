"""A pandera schema in the place of `expect:`: what is taken over, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pandera.pandas  # noqa: F401 - before modules are noted: numpy cannot be imported twice
import pytest

from tests.unit.test_config_flow_mistakes import IN, OUT, refused
from tests.unit.test_config_flows import flow, load
from tests.unit.test_declare import HEAD, _untouched, declared  # noqa: F401 - a fixture for every test
from tidegauge.model.expectation import Accepted, Action, InRange, Matches, NotNull, Predicate, Unique

SCHEMA = """
import pandera.pandas as pa
Check, Column = pa.Check, pa.Column
schema = pa.DataFrameSchema({
    "id": Column(int, [Check.ge(0), Check.isin([1, 2], raise_warning=True)], unique=True),
    "name": Column(
        str, [Check.str_matches("x+"), Check.str_length(1, 3), Check.notin(["it's"])], nullable=True
    ),
    "part": Column(float, Check.in_range(0, 1, include_max=False), nullable=True),
})
class Model(pa.DataFrameModel):
    id: int = pa.Field(gt=3)
odd = pa.DataFrameSchema({"id": Column(int, Check(lambda one: one % 2 == 1))})
both = pa.DataFrameSchema({"id": Column(int)}, checks=Check(lambda frame: frame["id"] > 0))
"""
MEANT = [
    ("name: str_length", Predicate("length(`name`) >= 1 AND length(`name`) <= 3"), Action.FAIL),
    ("name: notin", Predicate("`name` NOT IN ('it\\'s')"), Action.FAIL),
    ("id: not_null", NotNull("id"), Action.FAIL),
    ("id: unique", Unique(("id",)), Action.FAIL),
    ("id: range", InRange("id", "0", None), Action.FAIL),
    ("id: accepted", Accepted("id", ("1", "2")), Action.WARN),
    ("name: matches", Matches("name", r"(?:x+)[\s\S]*"), Action.FAIL),
    ("part: in_range", Predicate("`part` >= 0 AND `part` < 1"), Action.FAIL),
]


def test_a_schema_is_taken_over_from_a_module_and_as_an_object(tmp_path: Path) -> None:
    (tmp_path / "schemas.py").write_text(SCHEMA)
    (made,) = load(tmp_path, flow(f"{IN}, {OUT}, expect: 'schemas:schema'"))
    code = SCHEMA + '@tg.flow(a="t", output=tg.delta("u", key="k"), expect=schema)\ndef f(a): return a\n'
    (in_python,) = declared(tmp_path, HEAD + code)
    for one in (made, in_python):
        found = [(each.name, each.rule, each.action) for each in one.expect]
        assert sorted(found, key=str) == sorted(MEANT, key=str)
    (model,) = load(tmp_path, flow(f"{IN}, {OUT}, expect: 'schemas:Model'"))
    assert [each.name for each in model.expect] == ["id: greater_than", "id: not_null"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("schemas:odd", "is none that can be taken over from pandera"),
        ("schemas:both", "checks on several columns"),
        ("schemas:nothing", "`schemas:nothing` is no pandera schema"),
        ("nowhere:schema", "there is no module `nowhere`"),
    ],
)
def test_what_cannot_be_taken_over_is_refused_with_its_place(tmp_path: Path, name: str, said: str) -> None:
    (tmp_path / "schemas.py").write_text(SCHEMA)
    error = refused(tmp_path, flow(f"{IN}, {OUT}, expect: ▲'{name}'"))
    assert said in error.message
