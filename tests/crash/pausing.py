"""The real command, which stops itself with SIGSTOP when a step of the protocol happens for the n-th time.

python -m tests.crash.pausing before|after|within STEP N tidegauge-words…

`within` is for publishing into a warehouse: rows and tag are written but not committed.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TextIO
from unittest.mock import patch

from tests.support.nursery import Forked, own_nursery
from tests.support.project import Process, Project, until
from tidegauge.cli.main import main as command
from tidegauge.ledger.sql_ledger import SqlLedger
from tidegauge.model.claim import Claim
from tidegauge.model.plan import Receipt
from tidegauge.observe import progress as view
from tidegauge.observe.events import Listener, RunEvent, StepBegun, StepDone
from tidegauge.outputs.warehouse.commits import Commits
from tidegauge.outputs.warehouse.warehouse import WarehouseSession


def start_pausing(project: Project, side: str, step: str, times: int, *words: str) -> Forked:
    """Start the command; return when the process has stopped at that step."""
    words = ("run", "--json", "--project", str(project.file), *words)
    process = own_nursery().main(side, step, times, *words, module=__name__)
    await_stop(process)
    return process


def await_stop(process: Process) -> None:
    def stopped() -> bool:
        assert process.poll() is None, process.communicate()
        return stands_still(process.pid)

    until(stopped)


def stands_still(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def pausing(side: str, step: str, times: int, *words: str) -> list[str]:
    return [sys.executable, "-m", "tests.crash.pausing", side, step, str(times), *words]


def _watch_and_stop(side: str, step: str, times: int) -> None:
    watch = view.watch
    left = times
    quiet = threading.Lock()
    renew = SqlLedger.renew

    def renew_in_turn(
        ledger: SqlLedger, claim: Claim, lease: timedelta, *, least: timedelta | None = None
    ) -> None:
        # A heartbeat stopped inside its transaction would hold SQLite's lock on the whole file.
        with quiet:
            renew(ledger, claim, lease, least=least)

    def stop_in_time() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            with quiet:
                os.kill(os.getpid(), signal.SIGSTOP)
                # Any thread may take the signal; this one must not run on until all threads have stopped.
                time.sleep(0.3)

    record = Commits.record

    def record_and_stop(commits: Commits, session: WarehouseSession, receipt: Receipt, *rest: str) -> None:
        record(commits, session, receipt, *rest)
        stop_in_time()

    patch.object(SqlLedger, "renew", renew_in_turn).start()
    if side == "within":
        patch.object(Commits, "record", record_and_stop).start()
        return

    @contextmanager
    def stopping(stream: TextIO) -> Iterator[Listener]:
        with watch(stream) as tell:

            def both(event: RunEvent) -> None:
                tell(event)
                if isinstance(event, StepBegun if side == "before" else StepDone) and event.step == step:
                    stop_in_time()

            yield both

    view.watch = stopping


def main() -> None:
    _watch_and_stop(sys.argv[1], sys.argv[2], int(sys.argv[3]))
    del sys.argv[1:4]
    command()


if __name__ == "__main__":
    main()
