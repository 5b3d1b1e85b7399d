"""Runs a project's flows and kills itself, with SIGKILL, before or after a step happens for the n-th time.

python -m tests.crash.child PROJECT before|after STEP N

Without a step it runs the flows twice and ends normally.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

from tidegauge.config.load import load_project
from tidegauge.observe.events import RunEvent, StepBegun, StepDone
from tidegauge.run.options import RunOptions
from tidegauge.run.run import run


def run_twice_or_die(project: str, side: str = "", step: str = "", times: str = "1") -> int:
    left = int(times)

    def tell(event: RunEvent) -> None:
        nonlocal left
        at = StepBegun if side == "before" else StepDone
        if side and isinstance(event, at) and event.step == step:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    good = True
    for _ in range(1 if side else 2):
        report = run(load_project(Path(project)), RunOptions(), tell=tell, stop=threading.Event())
        for flow in report.flows:
            good &= flow.ok
            sys.stdout.write(f"{flow.flow} {flow.state} {flow.rows} {flow.error or ''}\n")
    return 0 if good else 1


def main() -> None:
    sys.exit(run_twice_or_die(*sys.argv[1:]))


if __name__ == "__main__":
    main()
