"""The ledger on a SQL database: SQLite, PostgreSQL, MySQL and MariaDB."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from datetime import timedelta
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from tidegauge.errors import LedgerUnreachable
from tidegauge.ledger import claims, plans
from tidegauge.ledger.connect import WRITE
from tidegauge.ledger.faults import may_pass, translated
from tidegauge.ledger.reader import SqlReader
from tidegauge.model.plan import Draft, Plan, Receipt
from tidegauge.model.protocols import Claim, Owner
from tidegauge.model.state import State

T = TypeVar("T")

_TRIES = 20
"""Each lost race means that somebody else won it, so this many in a row do not happen by themselves."""
_PAUSE = 0.05


class SqlLedger(SqlReader):
    """Implements LedgerWriter. Safe to share between threads: each call has a connection of its own."""

    def __init__(self, engine: Engine, shown: str) -> None:
        super().__init__(engine, shown)
        self._writer = engine.execution_options(**WRITE)
        # SQLite has one writer at a time; threads that queue here do not have to poll the file's lock.
        self._turn = threading.Lock() if engine.dialect.name == "sqlite" else nullcontext()

    def plan(self, drafts: Sequence[Draft], *, owner: Owner, run_id: str) -> dict[str, Plan]:
        return self._write(lambda connection: plans.keep(connection, drafts, owner=owner, run_id=run_id))

    def refuse(self, pipeline: str, flow: str, error: dict[str, Any], *, owner: Owner, run_id: str) -> None:
        self._write(
            lambda connection: plans.refuse(connection, pipeline, flow, error, owner=owner, run_id=run_id)
        )

    def note(self, pipeline: str, flow: str, event: str, *, owner: Owner, reason: str) -> None:
        self._write(
            lambda connection: plans.note(connection, pipeline, flow, event, owner=owner, reason=reason)
        )

    def claim(
        self, plan: Plan, *, owner: Owner, run_id: str, lease: timedelta, dead: Owner | None = None
    ) -> Claim:
        return self._write(
            lambda connection: claims.claim(
                connection, plan, owner=owner, run_id=run_id, lease=lease, dead=dead
            )
        )

    def renew(self, claim: Claim, lease: timedelta) -> None:
        self._write(lambda connection: claims.renew(connection, claim, lease))

    def begin(self, claim: Claim, index: int) -> None:
        self._write(lambda connection: claims.begin(connection, claim, index))

    def advance(self, claim: Claim, index: int, receipt: Receipt) -> None:
        self._write(lambda connection: claims.advance(connection, claim, index, receipt))

    def finish(self, claim: Claim, state: State, error: dict[str, Any] | None = None) -> None:
        self._write(lambda connection: claims.finish(connection, claim, state, error))

    def _write(self, work: Callable[[Connection], T]) -> T:
        """One transaction; again from its beginning when another writer came between."""
        for _ in range(_TRIES):
            try:
                with translated(self.shown, but=may_pass), self._turn, self._writer.begin() as connection:
                    return work(connection)
            except (claims.Moved, DBAPIError):
                time.sleep(random.uniform(0, _PAUSE))  # noqa: S311 - not a secret, only not in step
        raise LedgerUnreachable(
            f"the ledger at {self.shown} is changed by others faster than it can be read",
            hint="wait until there are fewer runners, and run again",
        )
