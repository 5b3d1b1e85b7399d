"""A point up to which it is safe to read once every transaction that was open when it was seen has ended."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from tidegauge.errors import PositionError
from tidegauge.model.pending import Pending
from tidegauge.model.position import Value, ValueKind
from tidegauge.sources.dialect import ClockReading, OpenWork

_ROUNDING = timedelta(seconds=2)
"""The start of one statement may seem to differ by less than this, if a server gives whole seconds."""
_KEPT = 4
_LONGEST = 60_000


@dataclass(frozen=True)
class BoundCandidate:
    """A point that is safe when nothing is left in `open`."""

    value: Value | None
    """The highest value of the cursor; None for a cursor of timestamps, for which `seen` is the point."""
    seen: datetime
    """The source's clock, read after the value and before the open work was listed."""
    open: tuple[OpenWork, ...]
    """Work that was open then and had not ended by the last look."""


def drop_ended(candidate: BoundCandidate, moment: ClockReading) -> BoundCandidate:
    """The candidate without the work that has ended by a later look.

    A work is the same while its connection has the same transaction, or the same statement and no
    transaction. A statement that waited may have begun the transaction that its connection now has. A
    transaction without a connection that was not seen before may be any work that had no number yet.
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
    """The work that is open at a look, to find in it the work that was open before."""

    def __init__(self, candidate: BoundCandidate, moment: ClockReading) -> None:
        self._by_connection = {work.connection: work for work in moment.open if work.connection}
        self._without = [work for work in moment.open if not work.connection]
        known = [old for old in candidate.open if not old.connection]
        self._new = [
            work for work in self._without if not any(_is_same_transaction(old, work) for old in known)
        ]

    def find(self, old: OpenWork) -> list[OpenWork]:
        """The open work that the old work is now, or may be; empty if it has ended."""
        here = self._by_connection.get(old.connection)
        if here is not None and _is_continued(old, here):
            return [here]
        if old.number or not old.connection:
            return [work for work in self._without if _is_same_transaction(old, work)]
        return self._new


def identity(work: OpenWork) -> tuple[str, ...]:
    return work.connection, work.transaction, work.number, work.statement


def _is_continued(old: OpenWork, work: OpenWork) -> bool:
    if old.transaction:
        return bool(work.transaction) and _is_same_transaction(old, work)
    if work.transaction:
        return True
    return old.statement == work.statement and work.started - old.started < _ROUNDING


def _is_same_transaction(old: OpenWork, work: OpenWork) -> bool:
    if old.connection and work.connection and old.connection != work.connection:
        return False
    if old.number and work.number:
        return old.number == work.number
    return old.transaction == work.transaction


def to_text(candidates: Iterable[BoundCandidate], waiting: int = 0) -> str | None:
    """Text for the ledger with the candidates and, for people, how many rows are dated in the future; None if
    there is nothing to keep. Of many candidates the oldest, which become safe first, and the newest stay."""
    kept = sorted(candidates, key=lambda one: one.seen)
    kept = [*kept[: _KEPT - 1], *kept[-1:]] if len(kept) > _KEPT else kept
    text = Pending.of_points([_to_body(one) for one in kept], waiting).text
    # Text that is too long is dropped, not cut: a candidate that lacks some open work would look safe.
    return text if (kept or waiting) and len(text) <= _LONGEST else None


def from_text(text: str | None, kind: ValueKind | None) -> tuple[BoundCandidate, ...]:
    """The candidates that an earlier survey kept in the ledger, without those of another kind of cursor.

    `kind` is the kind of the values, None for a cursor of timestamps.
    """
    try:
        found = [_from_body(body) for body in Pending(text or "").points]
    except (ValueError, KeyError, TypeError, PositionError):
        return ()
    return tuple(one for one in found if (one.value.kind if one.value else None) is kind)


def _to_body(candidate: BoundCandidate) -> dict[str, object]:
    value = candidate.value
    return {
        "seen": candidate.seen.isoformat(),
        "value": [value.kind.value, value.text] if value else None,
        "open": [[*identity(work), work.started.isoformat()] for work in candidate.open],
    }


def _from_body(body: object) -> BoundCandidate:
    match body:
        case {"seen": str(seen), "value": None, "open": [*works]}:
            value = None
        case {"seen": str(seen), "value": [str(kind), str(text)], "open": [*works]}:
            value = Value(ValueKind(kind), text)
        case _:
            raise ValueError("not a candidate")
    return BoundCandidate(value, datetime.fromisoformat(seen), tuple(_work(one) for one in works))


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
