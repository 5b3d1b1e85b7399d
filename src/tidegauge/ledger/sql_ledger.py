"""The ledger on a SQL database: SQLite, PostgreSQL, MySQL and MariaDB."""

from __future__ import annotations

import random
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import datetime
from typing import TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from tidegauge.errors import LedgerUnreachable
from tidegauge.ledger import plan_rules
from tidegauge.ledger.backup import FlowBackup, restore
from tidegauge.ledger.base import BaseLedger, Rule
from tidegauge.ledger.database_errors import may_succeed_again, translate_database_error
from tidegauge.ledger.flow_state import FlowState, StateChange
from tidegauge.ledger.prune import prune
from tidegauge.ledger.sql_connect import WRITE
from tidegauge.ledger.sql_load import load_many, load_one
from tidegauge.ledger.sql_reader import SqlReader
from tidegauge.ledger.sql_save import Change, save
from tidegauge.model.claim import Owner
from tidegauge.model.plan import Draft, Plan

T = TypeVar("T")

_TRIES = 20
"""A lost race means that somebody else won it, so nobody loses this many in a row by chance."""
_PAUSE = 0.05


class SqlLedger(SqlReader, BaseLedger):
    """Implements LedgerWriter. Safe to share between threads: each call has a connection of its own."""

    def __init__(self, engine: Engine, shown: str) -> None:
        super().__init__(engine, shown)
        self._writer = engine.execution_options(**WRITE)
        # SQLite has one writer at a time; threads that queue here do not have to poll the file's lock.
        self._turn = threading.Lock() if engine.dialect.name == "sqlite" else nullcontext()

    def plan(self, drafts: Sequence[Draft], *, owner: Owner, run_id: str) -> dict[str, Plan]:
        # Plan ids are one random part and a number: a call's rows stand side by side in the primary key.
        token = uuid.uuid4().hex

        def work(connection: Connection) -> dict[str, Plan]:
            loaded = load_many(connection, [(draft.pipeline, draft.flow) for draft in drafts])
            answer: dict[str, Plan] = {}

            def apply_rule() -> Iterator[Change]:
                for number, draft in enumerate(drafts):
                    flow_state = loaded.state(draft.pipeline, draft.flow)
                    name = f"{token}-{number}"
                    change, kept = plan_rules.plan(
                        flow_state, draft, plan_id=name, owner=owner, run_id=run_id, now=loaded.now
                    )
                    if kept is not None:
                        answer[draft.flow] = kept
                    if change is not None:
                        yield flow_state, change

            save(connection, apply_rule(), loaded.now)
            return answer

        return self._write(work)

    def restore(self, backups: Sequence[FlowBackup], *, owner: Owner, reason: str) -> None:
        """Import flows that this ledger does not know, all or none. Raises WrongState for a flow that it has
        in another state."""

        def work(connection: Connection) -> None:
            loaded = load_many(connection, [backup.name for backup in backups])
            found = [
                (state, change)
                for backup in backups
                for state in (loaded.state(*backup.name),)
                for change in (restore(state, loaded.now, backup, owner, reason),)
                if change is not None
            ]
            save(connection, [(state, replace(one, events=(), runs=())) for state, one in found], loaded.now)
            # Runs and events are numbered as they are inserted, so those of all flows go in together, in the
            # order of time.
            events = sorted((event for _, one in found for event in one.events), key=lambda event: event.at)
            runs = sorted((run for _, one in found for run in one.runs), key=lambda run: run.started_at)
            nobody = FlowState("", "")
            save(connection, [(nobody, StateChange(nobody, tuple(events), tuple(runs)))], loaded.now)

        self._write(work)

    def prune(self, *, before: datetime, pipeline: str | None = None) -> dict[str, int]:
        return self._write(lambda connection: prune(connection, before=before, pipeline=pipeline))

    def _change(
        self,
        pipeline: str,
        flow: str,
        rule: Rule,
        *,
        plan: Plan | None = None,
        marks: bool = True,
        run: bool = True,
        register: bool = True,
    ) -> FlowState:
        def work(connection: Connection) -> FlowState:
            make = register and plan is None
            flow_state, now = load_one(
                connection, pipeline, flow, make=make, known=plan, marks=marks, run=run
            )
            change = rule(flow_state, now)
            if change is None:
                return flow_state
            save(connection, [(flow_state, change)], now)
            return change.flow_state

        return self._write(work)

    def _write(self, work: Callable[[Connection], T]) -> T:
        """Do the work in one transaction. It is repeated from its beginning when another writer came between,
        and once when its connection was dead. If the connection is lost during the commit, nobody knows
        whether that is there, and nothing is repeated."""
        found_dead = committing = False

        def should_try_again(error: DBAPIError) -> bool:
            return may_succeed_again(error) or (
                error.connection_invalidated and not (committing or found_dead)
            )

        for _ in range(_TRIES):
            try:
                with (
                    translate_database_error(self.shown, but=should_try_again),
                    self._turn,
                    self._writer.begin() as connection,
                ):
                    committing = False
                    answer = work(connection)
                    committing = True
                return answer
            except DBAPIError as error:
                if error.connection_invalidated:
                    found_dead = True
                    self._drop_dead_connections()
                else:
                    time.sleep(random.uniform(0, _PAUSE))  # noqa: S311 - not a secret, only not in step
        raise LedgerUnreachable(
            f"the ledger at {self.shown} is changed by others faster than it can be read",
            hint="wait until there are fewer runners, and run again",
        )
