"""Resets, sets or refreshes a flow and kills itself, with SIGKILL, before or after a step of that.

python -m tests.crash.overriding PROJECT reset|refresh|TIMESTAMP before|after STEP
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from tidegauge.config.load import load_project
from tidegauge.flows.override.preview import OverrideRequest, Refresh, Reset, SetTo
from tidegauge.model.spec import Stage
from tidegauge.observe.events import RunEvent, StepBegun, StepDone
from tidegauge.operations.override import preview_override, run_override


def override_and_die(project: str, kind: str, side: str, step: str) -> int:
    def tell(event: RunEvent) -> None:
        at = StepBegun if side == "before" else StepDone
        if isinstance(event, at) and event.step == step:
            os.kill(os.getpid(), signal.SIGKILL)

    loaded = load_project(Path(project))
    if kind == "refresh":
        moves = preview_override(loaded, ["t"], Refresh(), stage=Stage.LOAD)
    else:
        wish: OverrideRequest = Reset() if kind == "reset" else SetTo(timestamp=kind)
        moves = preview_override(loaded, ["t"], wish)
    done = run_override(loaded, moves, reason="killed", tell=tell)
    return 1 if any(one.error for one in done) else 0


def main() -> None:
    sys.exit(override_and_die(*sys.argv[1:]))


if __name__ == "__main__":
    main()
