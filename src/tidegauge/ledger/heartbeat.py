"""Renew the leases of claimed flows while their batches run."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from tidegauge.errors import LeaseLost, LedgerError
from tidegauge.model.claim import Claim
from tidegauge.model.protocols.ledger import LedgerWriter


class Heartbeat:
    """One thread that renews all claims of a run, every third of the lease."""

    def __init__(self, ledger: LedgerWriter, lease: timedelta) -> None:
        self._ledger = ledger
        self._lease = lease
        self._held: dict[int, Claim] = {}
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._keep_beating, name="tidegauge-heartbeat", daemon=True)

    def __enter__(self) -> Heartbeat:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    @contextmanager
    def hold(self, claim: Claim) -> Iterator[None]:
        """Renew this claim during the block."""
        with self._lock:
            self._held[id(claim)] = claim
        try:
            yield
        finally:
            with self._lock:
                self._held.pop(id(claim), None)

    def beat(self) -> None:
        """Renew every held claim once."""
        with self._lock:
            held = dict(self._held)
        for name, claim in held.items():
            try:
                self._ledger.renew(claim, self._lease)
            except LeaseLost:
                # The flow's own thread finds out at its next step, which the fence refuses.
                with self._lock:
                    self._held.pop(name, None)
            except LedgerError:
                # A passing fault of the store: the lease still runs, and the next beat tries again.
                continue

    def _keep_beating(self) -> None:
        while not self._over.wait(self._lease.total_seconds() / 3):
            self.beat()
