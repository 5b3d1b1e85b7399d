"""A `verify`, in a process that kills itself before or after it records its result in the ledger."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.support.nursery import Ended, Nursery
from tidegauge.config.load import load_project
from tidegauge.operations import proofs
from tidegauge.operations import verify as verifying


def killed_verify(nursery: Nursery, project: Path, side: str) -> Ended:
    given = {"project": str(project), "side": side}
    nursery.start("call", function=f"{__name__}:verify", given=given)
    return nursery.end()


def verify(project: str, side: str) -> tuple[int, str]:
    def keep(*given: Any) -> str | None:
        if side == "after":
            proofs.keep_proof(*given)
        os.kill(os.getpid(), signal.SIGKILL)
        return None

    with patch.object(verifying, "keep_proof", keep):
        found = verifying.verify(load_project(Path(project)), ["t"])
    return 0, json.dumps([one.to_json() for one in found])
