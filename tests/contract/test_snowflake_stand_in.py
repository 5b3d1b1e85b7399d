"""The stand-in for Snowflake ends when it is asked to."""

from __future__ import annotations

import threading
import time

import pytest

from tests.support.snowflake_server import start_snowflake


def test_it_ends_also_if_a_test_has_set_the_clock_by_which_it_sleeps(monkeypatch: pytest.MonkeyPatch) -> None:
    real, before, asked = time.monotonic, threading.enumerate(), threading.Semaphore(0)
    with start_snowflake(), monkeypatch.context() as clock:
        [thread] = [one for one in threading.enumerate() if one not in before]

        def tell_time() -> float:
            if threading.current_thread() is not thread:
                return real()
            asked.release()
            return 0.0

        clock.setattr(time, "monotonic", tell_time)
        # It asks as it wakes, and then for how long to sleep: until its next look, by the real clock.
        asked.acquire()
        asked.acquire(timeout=1)
    assert not thread.is_alive()
