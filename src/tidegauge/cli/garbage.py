"""How often Python's garbage collector runs during a command."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def fewer_collections() -> Iterator[None]:
    """Let Python's garbage collector run less often in this block: imported modules and the plans of a
    thousand flows are no garbage.

    Gain: a run of 1,000 tables with nothing new, from 5.0 to 4.4 s of processor time; the imports of a run
    between Delta tables, from 2.1 to 1.9 s on a busy machine.
    Switch: `TIDEGAUGE_FEWER_COLLECTIONS=off` in the environment.
    """
    before = gc.get_threshold()
    if os.environ.get("TIDEGAUGE_FEWER_COLLECTIONS") != "off":
        gc.set_threshold(20_000, 20, 20)
    try:
        yield
    finally:
        gc.set_threshold(*before)
