"""What `plan` shows of a flow that no run takes, because a person has suspended it."""

from __future__ import annotations

from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

from tests.contract.test_rebuild import shop
from tests.support.project import Project, Ran, here

WHY = ("--reason", "the table moves")
DRY = pytest.mark.parametrize("words", [("plan",), ("run", "--dry-run")], ids=["plan", "run --dry-run"])


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Two stages that ran, and one more row."""
    made = shop(tmp_path)
    assert made.here("run").code == 0
    made.database.insert("orders", [(6, 60, "2025-01-06 12:00:00")])
    return made


def _states(ran: Ran) -> dict[str, str]:
    assert ran.code == 0, ran.said
    return {one["flow"]: one["state"] for one in ran.json["flows"]}


@DRY
def test_a_suspended_flow_is_planned_as_a_run_reports_it(project: Project, words: tuple[str, ...]) -> None:
    assert project.here("schedule", "suspend", "orders/extract", *WHY).code == 0
    planned = project.here(*words, "--json")
    assert _states(planned) == {"orders/extract": "SUSPENDED", "orders/load": "SKIPPED"}
    extract = planned.flow("orders/extract")
    assert (extract["rows"], extract["batches"], extract["windows"], extract["error"]) == (None, 0, [], None)
    [note] = extract["notes"]
    assert note.startswith("orders/extract was suspended by ")
    assert "the table moves; `tidegauge schedule resume orders/extract" in note
    assert planned.flow("orders/load")["notes"] == [], "nothing comes from a flow that does not run"
    shown = project.here(*words).out
    line = next(line for line in shown.splitlines() if line.lstrip().startswith("orders/extract "))
    assert "SUSPENDED" in line
    assert "orders/extract: orders/extract was suspended by " in shown
    assert _states(project.here("run", "--json")) == _states(planned)


@DRY
def test_a_suspended_pipeline_is_planned_as_that(project: Project, words: tuple[str, ...]) -> None:
    assert project.here("schedule", "suspend", "test", *WHY).code == 0
    (project.folder / "warehouse.duckdb").unlink()
    planned = project.here(*words, "--json")
    assert set(_states(planned).values()) == {"SUSPENDED"}, "what it writes to is not looked at"
    assert "orders/extract, orders/load: the pipeline test was suspended by" in project.here(*words).out
    assert _states(project.here("run", "--json")) == _states(planned)


def test_a_graph_and_an_explanation_say_so_too(project: Project) -> None:
    assert project.here("schedule", "suspend", "orders/load", *WHY).code == 0
    for words in (("plan", "--graph"), ("explain",)):
        said = project.here(*words).out
        [line] = [line for line in said.splitlines() if "SUSPENDED" in line]
        assert line.lstrip(" │├└─").startswith("orders/load "), said


def test_a_suspended_pipeline_optimizes_nothing_and_doctor_still_checks_its_flows(tmp_path: Path) -> None:
    deltalake.write_deltalake(str(tmp_path / "bronze"), pa.table({"id": [1, 2]}))
    (tmp_path / "tidegauge.yml").write_text(
        "pipeline: test\nledger: 'sqlite:///ledger.db'\nflows:\n"
        "  silver: {inputs: {orders: {path: bronze}}, output: {path: silver, mode: merge, key: nobody}}\n"
        "  tidy: {kind: optimize, select: silver}\n"
    )
    assert here("plan", "--project", tmp_path).code == 1
    assert here("schedule", "suspend", "test", *WHY, "--project", tmp_path).code == 0
    planned = here("plan", "--json", "--project", tmp_path)
    assert _states(planned) == {"silver": "SUSPENDED", "tidy": "SUSPENDED"}
    findings = {one["about"]: one for one in here("doctor", "--json", "--project", tmp_path).json["findings"]}
    assert "nobody" in findings["flow silver"]["says"]
