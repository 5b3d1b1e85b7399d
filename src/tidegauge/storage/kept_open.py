"""Whether files and connections may stay open for a moment after their last use, and for how long."""

from __future__ import annotations

import os

SWITCH = "TIDEGAUGE_KEEP_FILES_OPEN"
LINGER = 0.5
"""Seconds that an unused file stays open. Then a process that waits gets it, even while this one goes on."""


def may_stay_open() -> bool:
    return os.environ.get(SWITCH) != "off"
