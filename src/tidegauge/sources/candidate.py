"""A point up to which it is safe to read once every transaction that was open when it was seen has ended."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from tidegauge.errors import PositionError
from tidegauge.model.pending import Pending
from tidegauge.model.position import Value, ValueKind
from tidegauge.sources.dialect import Moment, OpenWork

_ROUNDING = timedelta(seconds=2)
"""By less than this the start of one statement may seem to differ, where a server gives whole seconds."""
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
    """What was open then, without what had ended by the last look."""


def drop_ended(candidate: Candidate, moment: Moment) -> Candidate:
    """The candidate after a later look: without what has ended in between.

    A work is the same while its connection has the same transaction, or the same statement and no
    transaction. A statement that waited may have begun the transaction that its connection now has. And a
    transaction that no connection holds, and that was not seen before, may be any that had no number yet.
    """
    left: dict[tuple[str, ...], OpenWork] = {}
    open_now = _OpenNow(candidate, moment)
    for old in candidate.open:
        for work in open_now.find(old):
            other = left.get(identity(work), work)
            began = min(old.started, work.started, other.started)
            left[identity(work)] = replace(work, started=began)
    return replace(candidate, open=tuple(left.values()))


class _OpenNow:
    """What is open at a look, to be compared with what was open before."""

    def __init__(self, candidate: Candidate, moment: Moment) -> None:
        self._by_connection = {work.connection: work for work in moment.open if work.connection}
        self._without = [work for work in moment.open if not work.connection]
        known = [old for old in candidate.open if not old.connection]
        self._new = [work for work in self._without if not any(_same(old, work) for old in known)]

    def find(self, old: OpenWork) -> list[OpenWork]:
        """What the old work is now, or may be; nothing once it has ended."""
        here = self._by_connection.get(old.connection)
        if here is not None and _goes_on(old, here):
            return [here]
        if old.number or not old.connection:
            return [work for work in self._without if _same(old, work)]
        return self._new


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


def to_text(candidates: Iterable[Candidate], waiting: int = 0) -> str | None:
    """For the ledger. The oldest are kept, since they become safe first, and the newest; and how many rows
    wait in the future, for people."""
    kept = sorted(candidates, key=lambda one: one.seen)
    kept = [*kept[: _KEPT - 1], *kept[-1:]] if len(kept) > _KEPT else kept
    text = Pending.of_points([_to_body(one) for one in kept], waiting).text
    # Forgotten, never cut: a candidate whose list lacks something open would be taken for safe.
    return text if (kept or waiting) and len(text) <= _LONGEST else None


def from_text(text: str | None, kind: ValueKind | None) -> tuple[Candidate, ...]:
    """What an earlier survey kept in the ledger; nothing where it is not of this kind of cursor.

    `kind` is that of the values, None for a cursor of moments.
    """
    try:
        found = [_from_body(body) for body in Pending(text or "").points]
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
