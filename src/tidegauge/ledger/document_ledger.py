"""The ledger on a store of documents: JSON files or Delta tables."""

from __future__ import annotations

import contextlib
import random
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial

from tidegauge.errors import LedgerError, LedgerUnreachable
from tidegauge.ledger import plan_rules
from tidegauge.ledger.backup import FlowBackup, restore
from tidegauge.ledger.base import BaseLedger, Rule
from tidegauge.ledger.document_reader import DocumentReader, mark_of
from tidegauge.ledger.document_store import (
    LOGS,
    DocumentStore,
    LoadedDocuments,
    StoredFlow,
    WriterCameBetween,
)
from tidegauge.ledger.flow_document import FlowDocument, apply_change, drop_moved, new_document
from tidegauge.ledger.flow_state import FlowState
from tidegauge.ledger.open_flow import OpenFlowVersion, name_of, open_flow_of, standing_of
from tidegauge.ledger.stored_flow import document_of, stored_flow_of
from tidegauge.model.claim import Owner
from tidegauge.model.plan import Draft, Plan
from tidegauge.model.suspension import ALL

_PATIENCE = 30.0
"""Seconds to go on trying. A lost race means that somebody else won it, so nobody loses for that long by
chance."""
_PAUSE = 0.05
"""The longest pause between two tries, in seconds."""
_SKEW = timedelta(seconds=5)
_MANY = 64
"""From so many pending entries on, a flow's entries are moved to the logs before its run has ended."""


_STANDING = ("runs", "plans")
"""The logs whose tables for people are updated whenever something begins or ends. The history's table follows
when entries are moved to its log."""
_KNOWN = 50_000
"""How many flows are remembered as shown."""


class DocumentLedger(DocumentReader, BaseLedger):
    """Implements LedgerWriter. Each flow is one document of the store, saved by compare-and-set.

    A change, its events, and the runs and plans that it ends are one save: they wait in the flow's document
    as pending log entries, and are moved to the logs when a run has ended. If a process dies during the move,
    the next one repeats it.
    """

    def __init__(self, documents: DocumentStore) -> None:
        super().__init__(documents)
        self._shown: dict[tuple[str, str], OpenFlowVersion] = {}

    def plan(self, drafts: Sequence[Draft], *, owner: Owner, run_id: str) -> dict[str, Plan]:
        groups: dict[str, dict[str, Draft]] = {}
        for draft in drafts:
            groups.setdefault(draft.pipeline, {})[draft.flow] = draft
        answer: dict[str, Plan] = {}
        for pipeline, group in groups.items():
            answer |= self._plan(pipeline, group, owner=owner, run_id=run_id)
        return {draft.flow: answer[draft.flow] for draft in drafts if draft.flow in answer}

    def restore(self, backups: Sequence[FlowBackup], *, owner: Owner, reason: str) -> None:
        """Import flows that this ledger does not know. Raises WrongState, before anything is written, for a
        flow that it has in another state. After a crash the next import skips the flows that are there."""
        known = {
            (state.pipeline, state.flow): state
            for pipeline in {backup.name[0] for backup in backups}
            for state in self.flow_states(pipeline)
        }
        for backup in backups:
            restore(known.get(backup.name, FlowState(*backup.name)), self.now(), backup, owner, reason)
        for backup in backups:
            self._change(*backup.name, partial(restore, backup=backup, owner=owner, reason=reason))

    def prune(self, *, before: datetime, pipeline: str | None = None) -> dict[str, int]:
        counts = dict.fromkeys(LOGS, 0)
        for name in self._documents.pipelines() if pipeline is None else [pipeline]:
            self._move_all(name)
            flow_documents = [
                document_of(stored_flow) for stored_flow in self._documents.load(name).stored_flows.values()
            ]
            for log in LOGS:
                keep = {entry for document in flow_documents for entry in document.pinned.get(log, ())}
                counts[log] += self._documents.prune(log, name, before, keep=keep)
        return counts

    # --- parts

    def _change(
        self,
        pipeline: str,
        flow: str,
        rule: Rule,
        *,
        plan: Plan | None = None,  # noqa: ARG002 - the document has the plan
        marks: bool = True,  # noqa: ARG002 - the document has the watermarks
        run: bool = True,  # noqa: ARG002 - the document has the attempt
        register: bool = True,
    ) -> FlowState:
        for _ in self._tries():
            loaded, read_at = self._documents.load(pipeline, [flow]), self._documents.now()
            document = _find_or_make_document(loaded, flow, read_at)
            now = _choose_change_time(document, read_at)
            change = rule(document.flow_state, now)
            if change is None:
                return document.flow_state
            after = apply_change(document, change, now, known=register and flow != ALL)
            if self._save(loaded, stored_flow_of(after)):
                if after.waiting >= _MANY or any(run.ended_at for run in change.runs) or change.ended:
                    self._move(pipeline, [flow])
                else:
                    self._show(pipeline, [after])
                return after.flow_state
        raise AssertionError

    def _plan(
        self, pipeline: str, drafts: Mapping[str, Draft], *, owner: Owner, run_id: str
    ) -> dict[str, Plan]:
        answer: dict[str, Plan] = {}
        left = dict(drafts)
        for _ in self._tries():
            loaded, read_at = self._documents.load(pipeline, list(left)), self._documents.now()
            rule = _PlanRule(loaded, read_at, owner, run_id)
            try:
                self._documents.save(loaded, rule.apply(left))
                saved = frozenset(left)
            except WriterCameBetween as moved:
                saved = moved.saved | {flow for flow in left if flow not in rule.changed}
            answer |= {flow: plan for flow, plan in rule.kept.items() if flow in saved}
            left = {flow: draft for flow, draft in left.items() if flow not in saved}
            kept_documents = [document for flow, document in rule.changed.items() if flow in saved]
            self._show(pipeline, kept_documents)
            long = [one.flow_state.flow for one in kept_documents if one.waiting >= _MANY]
            self._move(pipeline, long)
            if not left:
                return answer
        raise AssertionError

    def _plan_id(self, draft: Draft) -> str:
        return _name_plan(super()._plan_id(draft), draft)

    def _save(self, loaded: LoadedDocuments, stored_flow: StoredFlow) -> bool:
        """Save one flow; False when another writer came between."""
        try:
            self._documents.save(loaded, [stored_flow])
        except WriterCameBetween:
            return False
        except LedgerUnreachable:
            # The answer was lost, which proves nothing about the save.
            with contextlib.suppress(LedgerError):
                found = self._documents.load(stored_flow.pipeline, [stored_flow.flow]).stored_flows.get(
                    stored_flow.flow
                )
                if found is not None and found.body["save"] == stored_flow.body["save"]:
                    return True
            raise
        return True

    def _move_all(self, pipeline: str) -> None:
        waiting = [
            flow
            for flow, stored_flow in self._documents.load(pipeline).stored_flows.items()
            if any(stored_flow.body["outbox"].values())
        ]
        self._move(pipeline, waiting)

    def _move(self, pipeline: str, flows: Sequence[str]) -> None:
        """Append the flows' pending entries to the logs, and only then drop them from their documents.

        The changes themselves are saved already, so errors are ignored here: the next move repeats this one.
        """
        if not flows:
            return
        with contextlib.suppress(LedgerError, WriterCameBetween):
            loaded = self._documents.load(pipeline, flows)
            flow_documents = [document_of(stored_flow) for stored_flow in loaded.stored_flows.values()]
            self._show(pipeline, flow_documents, logs=LOGS)
            for log in LOGS:
                entries = [entry for document in flow_documents for entry in document.pending.get(log, ())]
                if entries:
                    self._documents.append(log, entries)
            emptied = [
                drop_moved(document, document.numbers) for document in flow_documents if document.waiting
            ]
            self._documents.save(loaded, [stored_flow_of(document) for document in emptied])

    def _show(
        self, pipeline: str, flow_documents: Sequence[FlowDocument], *, logs: Sequence[str] = _STANDING
    ) -> None:
        """Bring the store's tables for people up to date with these documents, where that is due: at the
        beginning and the end of plans and runs, and not with each batch. Errors are ignored: the flow's next
        change makes up for them."""
        due = [
            one for one in flow_documents if logs == LOGS or self._shown.get(name_of(one)) != standing_of(one)
        ]
        if not due:
            return
        with contextlib.suppress(LedgerError):
            if not self._documents.show(pipeline, [open_flow_of(one) for one in due], logs):
                due = [document_of(one) for one in self._documents.load(pipeline).stored_flows.values()]
                self._documents.show(pipeline, [open_flow_of(one) for one in due], logs, whole=True)
            if len(self._shown) > _KNOWN:
                self._shown.clear()
            self._shown |= {name_of(one): standing_of(one) for one in due}

    def _tries(self) -> Iterable[int]:
        """Yield a number for each try, with pauses between; raise LedgerUnreachable after `_PATIENCE`."""
        end = time.monotonic() + _PATIENCE
        number = 0
        while time.monotonic() < end:
            yield number
            number += 1
            time.sleep(random.uniform(0, _PAUSE))  # noqa: S311 - not a secret, only not in step
        raise LedgerUnreachable(
            f"the ledger at {self.shown} is changed by others faster than it can be read",
            hint="wait until there are fewer runners, and run again",
        )


class _PlanRule:
    """Plans flows one by one. The documents are kept, but not their JSON, so that a thousand flows take
    little memory."""

    def __init__(self, loaded: LoadedDocuments, read_at: datetime, owner: Owner, run_id: str) -> None:
        self._loaded = loaded
        self._read_at = read_at
        self._owner = owner
        self._run_id = run_id
        self._token = uuid.uuid4().hex
        self.kept: dict[str, Plan] = {}
        """By flow: the plans that will be active."""
        self.changed: dict[str, FlowDocument] = {}
        """By flow: the documents that are to be saved."""

    def apply(self, drafts: Mapping[str, Draft]) -> Iterator[StoredFlow]:
        for number, (flow, draft) in enumerate(drafts.items()):
            document = _find_or_make_document(self._loaded, flow, self._read_at)
            now = _choose_change_time(document, self._read_at)
            change, plan = plan_rules.plan(
                document.flow_state,
                draft,
                plan_id=_name_plan(f"{self._token}-{number}", draft),
                owner=self._owner,
                run_id=self._run_id,
                now=now,
            )
            if plan is not None:
                self.kept[flow] = plan
            if change is not None:
                after = apply_change(document, change, now, known=True)
                self.changed[flow] = after
                yield stored_flow_of(after)


def _name_plan(token: str, draft: Draft) -> str:
    return token + mark_of(draft.pipeline, draft.flow)


def _find_or_make_document(loaded: LoadedDocuments, flow: str, now: datetime) -> FlowDocument:
    stored_flow = loaded.stored_flows.get(flow)
    return new_document(loaded.pipeline, flow, now) if stored_flow is None else document_of(stored_flow)


def _choose_change_time(document: FlowDocument, now: datetime) -> datetime:
    """A time that is not before the flow's last change, so that its history stays in order.

    Each process knows the clock of S3 only to a second or two, and always a little early; so the later of two
    times is nearer to the truth. A larger difference means that the clock was set, and then the new time
    counts."""
    return document.updated_at if timedelta(0) < document.updated_at - now < _SKEW else now
