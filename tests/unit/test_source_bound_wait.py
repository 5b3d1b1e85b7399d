"""Who was open, and whether they have ended: looks made up for the purpose."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import chain, repeat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegauge.model.position import Value, ValueKind
from tidegauge.model.spec import TableOptions
from tidegauge.sources import bound_wait as bound_wait
from tidegauge.sources.bound_wait import BoundWait, ReadyBound
from tidegauge.sources.candidate import BoundCandidate, drop_ended, from_text, to_text
from tidegauge.sources.dialect import ClockReading, OpenWork

NOON = datetime(2025, 6, 1, 12)
SECOND = timedelta(seconds=1)
OPTIONS = TableOptions(cursor="id", settle=10 * SECOND)
NINE = Value(ValueKind.INT, "9")


def work(
    connection: str = "7", transaction: str = "", number: str = "", statement: str = "", *, age: float = 1
) -> OpenWork:
    return OpenWork(
        NOON - age * SECOND,
        f"connection {connection}",
        connection=connection,
        transaction=transaction,
        number=number,
        statement=statement,
    )


WAITS = work(statement="q1")


@pytest.mark.parametrize(
    ("before", "after", "still"),
    [
        (WAITS, (), False),
        (WAITS, (WAITS,), True),
        (WAITS, (work("8", statement="q1"),), False),
        (WAITS, (work(statement="q2"),), False),
        # The transaction that its connection has now may be the one it waited to begin.
        (WAITS, (work(transaction="12:00:05"),), True),
        (WAITS, (work(transaction="12:00:05", number="31", statement="q2"),), True),
        (work(transaction="11:00"), (work(transaction="11:00", statement="q9"),), True),
        (work(transaction="11:00"), (work(transaction="11:00", number="31"),), True),
        (work(transaction="11:00"), (work(transaction="11:01"),), False),
        (work(transaction="11:00", number="31"), (work(transaction="11:00", number="32"),), False),
        (work(transaction="11:00"), (work(statement="q2"),), False),
        # Prepared, and let go by its connection, which may be at something else by now.
        (work(transaction="11:00", number="31"), (work("", transaction="11:00", number="31"),), True),
        (work(transaction="11:00", number="31"), (work("", transaction="11:00", number="32"),), False),
        (WAITS, (work("", transaction="11:00", number="32"), work(statement="q2")), True),
        (work(transaction="11:00"), (work("", transaction="11:09", number="32"),), True),
        (work(transaction="11:00"), (work("", transaction="11:00", number="32"),), True),
        (work("", transaction="11:00", number="31"), (work("", transaction="11:30", number="31"),), True),
        (work("", transaction="11:00", number="31"), (work("", transaction="11:00", number="32"),), False),
    ],
)
def test_a27_who_was_open_is_known_again(before: OpenWork, after: tuple[OpenWork, ...], still: bool) -> None:
    candidate = BoundCandidate(None, NOON, (before,))
    assert bool(drop_ended(candidate, ClockReading(NOON, after)).open) is still


def test_a27_a_prepared_transaction_that_was_seen_before_is_nobody_elses() -> None:
    detached = work("", transaction="11:00", number="31")
    left = drop_ended(BoundCandidate(None, NOON, (WAITS, detached)), ClockReading(NOON, (detached,)))
    assert left.open == (detached,)


def test_a27_its_age_is_that_of_the_statement_that_waited() -> None:
    waited = BoundCandidate(None, NOON, (work(statement="q1", age=90),))
    (left,) = drop_ended(waited, ClockReading(NOON, (work(transaction="12:00", age=1),))).open
    assert left.started == NOON - 90 * SECOND


class Source:
    """Says one moment after the other, and the last one for ever."""

    def __init__(self, *moments: ClockReading) -> None:
        self._moments: Iterator[ClockReading] = chain(moments, repeat(moments[-1]))
        self._now: ClockReading | None = None
        self.looks = 0

    def __call__(self, *, fresh: bool) -> ClockReading:
        if fresh or self._now is None:
            self._now = replace(next(self._moments))
            self.looks += 1
        return self._now


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bound_wait, "SHORT", 0.05)
    monkeypatch.setattr(bound_wait, "LONG", 0.1)


def at(seconds: float, *works: OpenWork, blind: str | None = None) -> ClockReading:
    return ClockReading(NOON + seconds * SECOND, works, blind=blind, sure=False)


def moments(source: Source, *kept: BoundCandidate, options: TableOptions = OPTIONS) -> ReadyBound:
    return BoundWait(source).moments(options, kept)


def test_a27_with_nothing_open_the_clock_itself_is_safe() -> None:
    source = Source(at(0))
    found = moments(source)
    assert (found.candidate, found.waiting, source.looks) == (BoundCandidate(None, NOON, ()), (), 1)


def test_a27_short_transactions_are_waited_for() -> None:
    source = Source(at(0, work(transaction="1")), at(0.01, work(transaction="2")))
    found = moments(source)
    assert found.candidate is not None
    assert (found.candidate.seen, found.waiting, source.looks) == (NOON, (), 2)


def test_a27_what_does_not_end_is_remembered_and_an_earlier_look_serves() -> None:
    source = Source(at(0, work(transaction="1")))
    before = BoundCandidate(None, NOON - 60 * SECOND, (work("5", transaction="0"),))
    older = replace(before, seen=NOON - 90 * SECOND, open=())
    found = moments(source, older, before)
    assert found.candidate == replace(before, open=())
    assert [one.seen for one in found.waiting][:1] == [NOON]
    assert found.blockers == (work(transaction="1"),)


def test_a27_a_look_by_a_clock_that_was_ahead_is_no_bound() -> None:
    found = moments(Source(at(0)), BoundCandidate(None, NOON + 60 * SECOND, ()))
    assert found.candidate == BoundCandidate(None, NOON, ())


def test_a7_a_bound_of_timestamps_is_settle_below_its_look_already() -> None:
    found = moments(
        Source(
            at(0, work(transaction="1"), blind="a replica"),
            at(0.01, work(transaction="2"), blind="a replica"),
        )
    )
    assert found.candidate is not None
    assert found.candidate.seen == NOON


def test_a27_nobody_waits_for_what_has_been_open_for_long() -> None:
    source = Source(at(0, work(transaction="1", age=61)))
    found = moments(source)
    assert (found.candidate, source.looks) == (None, 1)


def test_a27_what_one_table_waited_for_the_next_does_not() -> None:
    source = Source(at(0, work(transaction="1")))
    one = BoundWait(source)
    assert one.moments(OPTIONS, ()).candidate is None
    looks = source.looks
    assert one.moments(OPTIONS, ()).candidate is None
    assert source.looks == looks


def test_a24_what_is_ignored_is_not_waited_for() -> None:
    options = replace(OPTIONS, ignore_transactions_after=10 * SECOND)
    source = Source(at(0, work(transaction="1", age=11)))
    found = moments(source, options=options)
    assert found.candidate is not None
    assert (found.candidate.seen, source.looks) == (NOON, 1)


def values(source: Source, *kept: BoundCandidate, options: TableOptions = OPTIONS) -> ReadyBound:
    return BoundWait(source).values(options, kept, NINE)


def three(seconds: float, *works: OpenWork) -> BoundCandidate:
    return BoundCandidate(Value(ValueKind.INT, "3"), NOON - seconds * SECOND, works)


def test_a25_with_nothing_open_the_highest_value_is_safe_at_once() -> None:
    assert values(Source(at(0))).candidate == BoundCandidate(NINE, NOON, ())


def test_a25_an_older_candidate_is_kept_until_it_is_safe() -> None:
    old = three(4, work(transaction="1"))
    found = values(Source(at(0, work(transaction="1"))), old)
    assert found.candidate is None
    assert [one.value for one in found.waiting] == [old.value, NINE]


def test_a25_an_older_candidate_that_is_safe_gives_way_to_the_new_one() -> None:
    found = values(Source(at(0, work(transaction="1"))), three(6, work(transaction="0")))
    assert found.candidate is not None
    assert found.candidate.value == Value(ValueKind.INT, "3")
    assert [one.value for one in found.waiting] == [NINE]


def test_a23_without_sight_settle_has_to_pass() -> None:
    source = Source(at(0, blind="cannot see"))
    assert values(source, three(9)).candidate is None
    found = values(source, three(10))
    assert found.candidate is not None
    assert found.candidate.value == Value(ValueKind.INT, "3")


def test_a25_a_source_with_one_writer_has_nobody_to_wait_for() -> None:
    assert values(Source(ClockReading(NOON))).candidate == BoundCandidate(NINE, NOON, ())


texts = st.text(max_size=8)
works = st.builds(
    lambda at, *parts: replace(work(*parts), started=at, who=f"connection {parts[0]}"),
    st.datetimes(),
    texts,
    texts,
    texts,
    texts,
)
candidates = st.builds(
    BoundCandidate,
    st.none() | st.integers().map(lambda number: Value(ValueKind.INT, str(number))),
    st.datetimes(),
    st.lists(works, max_size=3).map(tuple),
)


@given(candidates)
def test_a_candidate_survives_the_ledger(candidate: BoundCandidate) -> None:
    kind = candidate.value.kind if candidate.value else None
    text = to_text((candidate,))
    assert from_text(text, kind) == (candidate,)
    assert from_text(text, ValueKind.DECIMAL) == ()


def test_the_ledger_keeps_the_oldest_and_the_newest() -> None:
    many = [BoundCandidate(None, NOON + number * SECOND, (WAITS,)) for number in range(9)]
    kept = [one.seen.second for one in from_text(to_text(many), None)]
    assert kept == [0, 1, 2, 8]


def test_a27_a_list_too_long_for_the_ledger_is_forgotten_whole() -> None:
    many = tuple(work(str(number), transaction="12:00:00", number=str(number)) for number in range(2000))
    assert to_text((BoundCandidate(None, NOON, many),)) is None


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "nonsense",
        "{}",
        "[1]",
        '[{"seen": "2025-01-01", "value": null, "open": [["7"]]}]',
        '[{"seen": "never", "value": null, "open": []}]',
        # As versions before wrote it, who did not remember who was open.
        '{"kind": "int", "value": "4", "seen": "2025-01-01T00:00:00"}',
    ],
)
def test_a_reminder_of_something_else_is_dropped(text: str | None) -> None:
    assert from_text(text, ValueKind.INT) == ()
    assert from_text(text, None) == ()
