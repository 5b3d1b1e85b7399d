"""How `health` and `status` call flows that a person has suspended."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract.test_rebuild import shop


@pytest.mark.parametrize("what", ["orders/load", "test"], ids=["the flow", "the pipeline"])
def test_a_suspended_flow_with_nothing_new_is_called_suspended(tmp_path: Path, what: str) -> None:
    project = shop(tmp_path)
    for _ in range(2):
        assert project.here("run").code == 0
    commands = [["health"], ["status"]]
    for words in commands:
        assert "nothing new" in _line(project.here(*words).out)
    assert project.here("schedule", "suspend", what, "--reason", "the table moves").code == 0
    page = tmp_path / "health.html"
    for words in (*commands, ["health", "--report", str(page)]):
        said = _line(project.here(*words).out)
        assert "SUSPENDED" in said
        assert "nothing new" not in said
    assert "SUSPENDED" in page.read_text()


def _line(out: str) -> str:
    return next(line for line in out.splitlines() if "orders/load" in line)
