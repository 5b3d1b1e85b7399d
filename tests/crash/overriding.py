"""Resets or sets a flow's watermark and kills itself, with SIGKILL, before or after a step.

python -m tests.crash.overriding PROJECT reset|TIMESTAMP before|after STEP
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from tidegauge.config.load import load_project
from tidegauge.observe.events import RunEvent, StepBegun, StepDone
from tidegauge.operations.override import OverrideRequest, Reset, SetTo, carry_out
from tidegauge.operations.override_preview import preview


def main(project: str, kind: str, side: str, step: str) -> int:
    def tell(event: RunEvent) -> None:
        at = StepBegun if side == "before" else StepDone
        if isinstance(event, at) and event.step == step:
            os.kill(os.getpid(), signal.SIGKILL)

    loaded = load_project(Path(project))
    request: OverrideRequest = Reset() if kind == "reset" else SetTo(timestamp=kind)
    [done] = carry_out(loaded, preview(loaded, ["t"], request), reason="killed", tell=tell)
    return 1 if done.error else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
