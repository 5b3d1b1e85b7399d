"""How far might be read once everything that was open at one look has ended, and whether it has."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from tidegauge.errors import PositionError
from tidegauge.model.position import Value, ValueKind
from tidegauge.sources.dialect import Moment, OpenWork

_ROUNDING = timedelta(seconds=2)
"""By less than this the start of one statement may seem to differ, where a server tells whole seconds."""
_KEPT = 4
_LONGEST = 60_000


@dataclass(frozen=True)
class Candidate:
    """A point that is safe when nothing is left in `open`."""

    value: Value | None
    """The highest value of the cursor; None for a cursor of moments, which `seen` itself is a point of."""
    seen: datetime
    """The source's clock: after the value was seen, and before what is open was listed."""
    open: tuple[OpenWork, ...]
    """What was open then, as far as it had not ended at the last look."""


def followed(candidate: Candidate, moment: Moment) -> Candidate:
    """The candidate as a later look leaves it: without what has ended in between.

    A work is the same while its connection has the same transaction, or the same statement and no
    transaction. A statement that waited may have begun the transaction that its connection now has. And a
    transaction that no connection holds, and that was not seen before, may be any that had no number yet.
    """
    left: dict[tuple[str, ...], OpenWork] = {}
    held = {work.connection: work for work in moment.open if work.connection}
    loose = [work for work in moment.open if not work.connection]
    known = [old for old in candidate.open if not old.connection]
    fresh = [work for work in loose if not any(_same(old, work) for old in known)]
    for old in candidate.open:
        here = held.get(old.connection)
        if here is not None and _goes_on(old, here):
            found = [here]
        elif old.number or not old.connection:
            found = [work for work in loose if _same(old, work)]
        else:
            found = fresh
        for work in found:
            began = min(old.started, work.started)
            other = left.get(identity(work))
            left[identity(work)] = replace(work, started=min(began, other.started) if other else began)
    return replace(candidate, open=tuple(left.values()))


def identity(work: OpenWork) -> tuple[str, ...]:
    return work.connection, work.transaction, work.number, work.statement


def _goes_on(old: OpenWork, work: OpenWork) -> bool:
    if old.transaction:
        return bool(work.transaction) and _same(old, work)
    if work.transaction:
        return True
    return old.statement == work.statement and work.started - old.started < _ROUNDING


def _same(old: OpenWork, work: OpenWork) -> bool:
    if old.connection and work.connection and old.connection != work.connection:
        return False
    if old.number and work.number:
        return old.number == work.number
    return old.transaction == work.transaction


def to_text(candidates: Iterable[Candidate]) -> str | None:
    """For the ledger. The oldest are kept, that they may grow ripe, and the newest."""
    kept = sorted(candidates, key=lambda one: one.seen)
    kept = [*kept[: _KEPT - 1], *kept[-1:]] if len(kept) > _KEPT else kept
    text = json.dumps([_to_body(one) for one in kept], ensure_ascii=False)
    # Forgotten, never cut: a candidate whose list lacks one who was open would be taken for ripe.
    return text if kept and len(text) <= _LONGEST else None


def from_text(text: str | None, kind: ValueKind | None) -> tuple[Candidate, ...]:
    """What an earlier survey asked to be reminded of; nothing where it is not of this kind of cursor.

    `kind` is that of the values, None for a cursor of moments.
    """
    try:
        found = [_from_body(body) for body in json.loads(text or "[]")]
    except (ValueError, KeyError, TypeError, PositionError):
        return ()
    return tuple(one for one in found if (one.value.kind if one.value else None) is kind)


def _to_body(candidate: Candidate) -> dict[str, object]:
    value = candidate.value
    return {
        "seen": candidate.seen.isoformat(),
        "value": [value.kind.value, value.text] if value else None,
        "open": [[*identity(work), work.started.isoformat()] for work in candidate.open],
    }


def _from_body(body: object) -> Candidate:
    match body:
        case {"seen": str(seen), "value": None, "open": [*works]}:
            value = None
        case {"seen": str(seen), "value": [str(kind), str(text)], "open": [*works]}:
            value = Value(ValueKind(kind), text)
        case _:
            raise ValueError("not a candidate")
    return Candidate(value, datetime.fromisoformat(seen), tuple(_work(one) for one in works))


def _work(body: object) -> OpenWork:
    match body:
        case [str(connection), str(transaction), str(number), str(statement), str(started)]:
            return OpenWork(
                datetime.fromisoformat(started),
                f"connection {connection}",
                connection=connection,
                transaction=transaction,
                number=number,
                statement=statement,
            )
        case _:
            raise ValueError("not a work")
