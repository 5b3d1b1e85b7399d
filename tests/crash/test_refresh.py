"""A full refresh that is killed between its steps: the next run ends it, and no row is appended twice."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.crash.houses import Build
from tests.crash.nursery import ROOT, Nursery

pytestmark = pytest.mark.crash

SYNC = "tables: [t], cursor: version, batch_rows: 3, parallel: 1, mode: append"
_DYING = """
import os, signal, sys
from pathlib import Path
from tidegauge.config.load import load_project
from tidegauge.engine import foresee, override
from tidegauge.engine.override import Refresh
from tidegauge.model.spec import Stage
from tidegauge.observe.events import StepBegun, StepDone

side, step = sys.argv[2:]

def tell(event):
    if isinstance(event, StepBegun if side == "before" else StepDone) and event.step == step:
        os.kill(os.getpid(), signal.SIGKILL)

project = load_project(Path(sys.argv[1]))
moves = foresee.preview(project, ("t",), Refresh(), stage=Stage.LOAD)
override.carry_out(project, moves, reason="a test", tell=tell)
"""


@pytest.mark.parametrize("step", ["begin_override", "open_epoch", "end_override"])
@pytest.mark.parametrize("side", ["before", "after"])
def test_b15_a_refresh_killed_at_any_step_empties_the_target_once(
    build: Build, nursery: Nursery, side: str, step: str
) -> None:
    house = build("sqlite", "local", "duckdb").write(SYNC)
    house.change(7, 0)
    assert nursery.run(house.file).code == 0
    dying = subprocess.run(
        [sys.executable, "-c", _DYING, str(house.file), side, step], cwd=ROOT, capture_output=True, text=True
    )
    assert dying.returncode == -9, dying.stderr
    house.change(2, 0)
    last = nursery.run(house.file)
    assert last.code == 0, last
    assert house.landed() == house.source(), "a row is there twice, or not at all"
    begun = (side, step) != ("before", "begin_override")
    assert house.marks()[house.load][0] == (1 if begun else 0)
