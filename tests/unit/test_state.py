"""The state machine: total, pure, and one table."""

from __future__ import annotations

import itertools

import pytest

from tidegauge.errors import WrongState
from tidegauge.model.state import ACTIVE, Event, State, step, table

R, P, X, S, F, K = State.READY, State.PLANNED, State.RUNNING, State.SUCCESS, State.FAILED, State.SKIPPED

# Written out by hand from the blueprint's drawing, not taken from the code.
EXPECTED: dict[tuple[State, Event], State] = {
    **{(idle, Event.PLAN): P for idle in (R, S, K)},
    **{(idle, Event.SKIP): K for idle in (R, S, K)},
    **{(idle, Event.REFUSE): R for idle in (R, S, K)},
    (P, Event.CLAIM): X,
    (F, Event.CLAIM): X,
    (X, Event.TAKE_OVER): X,
    (X, Event.RENEW): X,
    (X, Event.BEGIN): X,
    (X, Event.ADVANCE): X,
    (X, Event.FINISH): S,
    (X, Event.SKIP): K,
    (X, Event.FAIL): F,
    (X, Event.RELEASE): P,
    **{(active, Event.SUPERSEDE): R for active in (P, X, F)},
}


@pytest.mark.parametrize(("state", "event"), list(itertools.product(State, Event)))
def test_every_pair_has_an_answer(state: State, event: Event) -> None:
    if (state, event) in EXPECTED:
        assert step(state, event) is EXPECTED[state, event]
        return
    with pytest.raises(WrongState) as caught:
        step(state, event)
    assert state in caught.value.message
    assert event in caught.value.message
    assert caught.value.hint is not None
    allowed = [other for (start, other) in EXPECTED if start is state]
    assert allowed
    assert all(other in caught.value.hint for other in allowed)
    assert not caught.value.retryable


def test_a_plan_is_made_only_where_none_is_active() -> None:
    for state in State:
        if state in ACTIVE:
            with pytest.raises(WrongState):
                step(state, Event.PLAN)
        else:
            assert step(state, Event.PLAN) in ACTIVE


def test_a_retry_never_passes_through_planning() -> None:
    """From FAILED or an abandoned RUNNING the only ways on keep the plan, or give it up by name."""
    for state in (F, X):
        ways = {event for (start, event), end in EXPECTED.items() if start is state and end not in ACTIVE}
        assert ways <= {Event.FINISH, Event.SKIP, Event.SUPERSEDE}


def test_every_state_but_the_first_can_be_reached_and_left() -> None:
    assert set(EXPECTED.values()) == set(State)
    assert {start for start, _ in EXPECTED} == set(State)


def test_completed_is_another_word_for_success() -> None:
    assert State("COMPLETED") is State.SUCCESS
    with pytest.raises(ValueError, match="COMPLETE"):
        State("COMPLETE")


def test_the_printed_table_says_what_the_machine_does() -> None:
    head, _, *rows = table().splitlines()
    states = [State(cell.strip()) for cell in head.strip("|").split("|")[1:]]
    assert states == list(State)
    assert len(rows) == len(Event)
    for row in rows:
        event, *cells = [cell.strip() for cell in row.strip("|").split("|")]
        for state, cell in zip(states, cells, strict=True):
            expected = EXPECTED.get((state, Event(event.strip("`"))))
            assert cell == (expected or "·")
