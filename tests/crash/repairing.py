"""A repair, in a process that kills itself at one of its steps."""

from __future__ import annotations

import json
import os
import signal
import threading
from pathlib import Path
from typing import Any

from tests.support.nursery import Ended, Kill, Nursery
from tidegauge.config.load import load_project
from tidegauge.observe.events import RunEvent, StepBegun, StepDone
from tidegauge.operations.repair import preview_repair, run_repair


def killed_repair(nursery: Nursery, project: Path, kill: Kill, *, deletes: bool = False) -> Ended:
    given = {"project": str(project), "kill": vars(kill), "deletes": deletes}
    nursery.start("call", function=f"{__name__}:repair", given=given)
    return nursery.end()


def repair(project: str, kill: dict[str, Any], deletes: bool) -> tuple[int, str]:
    wanted = Kill(**kill)

    def tell(event: RunEvent) -> None:
        if not isinstance(event, StepBegun if wanted.side == "before" else StepDone):
            return
        if (event.flow, event.step) == (wanted.flow, wanted.step):
            os.kill(os.getpid(), signal.SIGKILL)

    loaded = load_project(Path(project))
    found = preview_repair(loaded, ["t"], deletes=deletes)
    report = run_repair(loaded, found, reason="killed", tell=tell, stop=threading.Event())
    return 0, json.dumps(report.to_json())
