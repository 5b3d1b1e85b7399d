"""How `health` and `status` call flows that a person has suspended."""

from __future__ import annotations

from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from tests.contract.test_rebuild import shop
from tests.support.project import Project, here
from tidegauge.config.load import load_project
from tidegauge.dashboard.app import make_app


@pytest.mark.parametrize("what", ["orders/load", "test"], ids=["the flow", "the pipeline"])
def test_a_suspended_flow_with_nothing_new_is_called_suspended(tmp_path: Path, what: str) -> None:
    project = shop(tmp_path)
    for _ in range(2):
        assert project.here("run").code == 0
    commands = [["health"], ["status"]]
    for words in commands:
        assert "nothing new" in _line(project.here(*words).out)
    assert _finding(project) == "nothing new, as it should be"
    assert project.here("schedule", "suspend", what, "--reason", "the table moves").code == 0
    assert _finding(project) == "SUSPENDED, as it should be"
    page = tmp_path / "health.html"
    for words in (*commands, ["health", "--report", str(page)]):
        said = _line(project.here(*words).out)
        assert "SUSPENDED" in said
        assert "nothing new" not in said
    assert "SUSPENDED, as it should be" in page.read_text()
    assert "SKIPPED" not in page.read_text()


@pytest.mark.parametrize("what", ["orders/load", "test"], ids=["the flow", "the pipeline"])
def test_another_project_on_the_same_ledger_sees_the_suspension(tmp_path: Path, what: str) -> None:
    project = shop(tmp_path)
    assert project.here("run").code == 0
    other = tmp_path / "other"
    other.mkdir()
    text = project.file.read_text().replace("pipeline: test", "pipeline: other")
    (other / "tidegauge.yml").write_text(text.replace("ledger.db", str(project.ledger_file)))
    assert project.here("schedule", "suspend", what, "--reason", "the table moves").code == 0
    ran = here("status", "--pipeline", "test", "--project", other)
    assert "SUSPENDED" in _line(ran.out)
    assert "the table moves" in ran.out
    found = here("status", "--pipeline", "test", "--json", "--project", other)
    assert found.flow("orders/load")["suspended"]["reason"] == "the table moves"
    page = TestClient(make_app(load_project(other / "tidegauge.yml")), base_url="http://127.0.0.1:1").get("/")
    many = 1 if what == "orders/load" else 2
    assert page.text.count('<span class="pill s-SUSPENDED">suspended</span>') == many
    assert f"<b>{many}</b> suspended" in page.text


def _finding(project: Project) -> str:
    """What the check of the status says of the load."""
    checks = project.here("health", "--json").json["checks"]
    [said] = [one["says"] for one in checks if (one["flow"], one["check"]) == ("orders/load", "status")]
    return str(said)


def _line(out: str) -> str:
    return next(line for line in out.splitlines() if "orders/load" in line)
