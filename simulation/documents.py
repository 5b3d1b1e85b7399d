"""A document store in memory, under the real document ledger that JSON files and Delta tables use."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from functools import partial

from simulation.ledger import Watcher
from simulation.places import LEASE, NAME, PIPELINE
from simulation.world import Actor, Fault, World
from tidegauge.errors import LedgerUnreachable
from tidegauge.ledger.document_ledger import DocumentLedger
from tidegauge.ledger.document_store import (
    LOGS,
    AssignedNumbers,
    Entry,
    LoadedDocuments,
    NumberedRecord,
    OpenFlow,
    StoredFlow,
    WriterCameBetween,
)
from tidegauge.ledger.flow_document import FlowDocument
from tidegauge.ledger.flow_state import FlowState, StateChange
from tidegauge.ledger.stored_flow import document_of

LOGGED = "every entry of the logs is there once"


class _ImpatientLedger(DocumentLedger):
    def _tries(self) -> Iterable[int]:
        """Try again without pauses: only the seed decides who comes first."""
        yield from range(1000)


class Cabinet:
    """The flow's document and its logs, which all runners share."""

    def __init__(self, world: World, checker: Watcher) -> None:
        self.world = world
        self.stored_flow: StoredFlow | None = None
        self.logs: dict[str, dict[str, Entry]] = {log: {} for log in LOGS}
        self._checker = checker

    @property
    def flow_state(self) -> FlowState:
        return document_of(self.stored_flow).flow_state if self.stored_flow else FlowState(PIPELINE, NAME)

    def ledger(self, actor: Actor) -> DocumentLedger:
        return _ImpatientLedger(MemoryDocumentStore(self, actor))

    def save(self, seen: StoredFlow | None, stored_flow: StoredFlow, actor: Actor) -> bool:
        if self.stored_flow is not seen:
            self.world.tally["race lost, asked again"] += 1
            return False
        before = self.flow_state
        self.stored_flow = stored_flow
        after = document_of(stored_flow).flow_state
        if after != before:
            self._checker.ledger(before, StateChange(after), actor.owner, self._asked(before, after))
        return True

    def append(self, log: str, entries: Sequence[Entry]) -> None:
        there = self.logs[log]
        for entry in entries:
            kept = there.setdefault(entry["id"], entry)
            if kept != entry:
                self.world.violated(LOGGED, f"{log}: {entry} is not what was there: {kept}")
        numbers = sorted(entry["n"] for entry in there.values())
        if numbers and numbers != list(range(numbers[0], numbers[0] + len(numbers))):
            self.world.violated(LOGGED, f"{log}: there is a gap in {numbers}")

    def final(self) -> None:
        """Check that the logs and the document's pending entries together hold every entry."""
        if self.stored_flow is None:
            return
        document: FlowDocument = document_of(self.stored_flow)
        for log in LOGS:
            self.append(log, document.pending.get(log, ()))
            last = max((entry["n"] for entry in self.logs[log].values()), default=None)
            if last is not None and last != document.numbers[log]:
                self.world.violated(LOGGED, f"{log} ends at {last}, and {document.numbers[log]} were made")

    def _asked(self, before: FlowState, after: FlowState) -> datetime:
        """Find when the rule decided: a lease given by this change ends LEASE after that."""
        old, new = before.active, after.active
        if new is None or new.lease_until is None or (old and new.lease_until == old.lease_until):
            return self.world.now
        return new.lease_until - LEASE


class MemoryDocumentStore:
    """Implements DocumentStore for one actor."""

    shown = "feigned"

    def __init__(self, cabinet: Cabinet, actor: Actor) -> None:
        self._cabinet = cabinet
        self._actor = actor

    def now(self) -> datetime:
        return self._cabinet.world.now

    def pipelines(self) -> list[str]:
        return [PIPELINE]

    def load(self, pipeline: str, flows: Sequence[str] | None = None) -> LoadedDocuments:
        self._ask("load the leaf")
        stored_flow = self._cabinet.stored_flow
        return LoadedDocuments(pipeline, {NAME: stored_flow} if stored_flow else {}, stored_flow)

    def save(self, loaded: LoadedDocuments, stored_flows: Iterable[StoredFlow]) -> None:
        given = list(stored_flows)
        if not given:
            return
        [stored_flow] = given
        cabinet = self._cabinet
        fault = self._actor.turn("save the leaf")
        if fault is Fault.REFUSED:
            raise _unreachable("save the leaf", fault)
        if fault is Fault.LATE:
            late = partial(self._save_late, loaded.token, stored_flow)
            cabinet.world.later.append(("save the leaf", late))
            raise _unreachable("save the leaf", fault)
        saved = cabinet.save(loaded.token, stored_flow, self._actor)
        if not saved or fault is Fault.DOUBLED:
            raise WriterCameBetween  # a client that sent the request twice sees only the second answer
        if fault is Fault.LOST:
            raise _unreachable("save the leaf", fault)

    def append(self, log: str, entries: Sequence[Entry]) -> None:
        fault = self._actor.turn(f"append to {log}")
        if fault is Fault.REFUSED:
            raise _unreachable("append", fault)
        self._cabinet.append(log, entries)
        if fault in (Fault.LOST, Fault.LATE):
            raise _unreachable("append", fault)

    def show(
        self, pipeline: str, flows: Sequence[OpenFlow], logs: Sequence[str], *, whole: bool = False
    ) -> bool:
        """There are no tables for people here, and the protocol never reads them."""
        return True

    def numbers(self, log: str) -> AssignedNumbers:
        return AssignedNumbers()

    def records(self) -> list[NumberedRecord]:
        return []

    def read(
        self,
        log: str,
        pipeline: str,
        *,
        flow: str | None = None,
        kinds: Sequence[str] | None = None,
        limit: int | None = None,
    ) -> list[Entry]:
        self._ask(f"read {log}")
        return list(self._cabinet.logs[log].values())

    def prune(self, log: str, pipeline: str, before: datetime, *, keep: Collection[str] = ()) -> int:
        return 0

    def close(self) -> None:
        pass

    def _ask(self, what: str) -> None:
        fault = self._actor.turn(what)
        if fault is not None:
            raise _unreachable(what, fault)

    def _save_late(self, seen: StoredFlow | None, stored_flow: StoredFlow) -> None:
        if not self._cabinet.save(seen, stored_flow, self._actor):
            self._cabinet.world.changed("refused: the leaf has moved on")


def _unreachable(what: str, fault: Fault) -> LedgerUnreachable:
    return LedgerUnreachable(f"{what}: {fault}", hint="feigned")
