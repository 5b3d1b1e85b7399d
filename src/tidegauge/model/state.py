"""The states of a flow, and which event leads from which state to which. Pure: no clock, no I/O, no Spark."""

from __future__ import annotations

from enum import StrEnum

from tidegauge.errors import WrongState


class State(StrEnum):
    READY = "READY"
    PLANNED = "PLANNED"
    RUNNING = "RUNNING"
    SUCCESS = "SUCCESS"
    FAILED = "FAILED"
    SKIPPED = "SKIPPED"

    @classmethod
    def _missing_(cls, value: object) -> State | None:
        """Accept `COMPLETED` as another word for SUCCESS."""
        return cls.SUCCESS if value == "COMPLETED" else None


NOTHING_NEW = "nothing new"
"""Shown to people for SKIPPED, if nothing prevented the flow from running."""
SUSPENDED = "SUSPENDED"
"""Shown for a flow that was not run because a person has suspended it."""


def tell_state(state: State, *, suspended: bool = False, prevented: bool = False, gone: bool = False) -> str:
    """Return the state as people read it: not `SKIPPED`, which reads like a problem, if nothing is new.

    `suspended`: whether a person has suspended the flow; one that runs or has failed is shown as that.
    `prevented`: whether a flow that is SKIPPED had, or may have had, something to do.
    `gone`: whether a flow that is RUNNING does not run any more, because its runner is gone."""
    if suspended and state is not State.FAILED and (gone or state is not State.RUNNING):
        return SUSPENDED
    return NOTHING_NEW if state is State.SKIPPED and not prevented else state.value


class Event(StrEnum):
    PLAN = "plan"
    SKIP = "skip"
    REFUSE = "refuse"
    CLAIM = "claim"
    TAKE_OVER = "take_over"
    RENEW = "renew"
    BEGIN = "begin"
    ADVANCE = "advance"
    FINISH = "finish"
    FAIL = "fail"
    RELEASE = "release"
    SUPERSEDE = "supersede"


_IDLE = (State.READY, State.SUCCESS, State.SKIPPED)

_NEXT: dict[State, dict[Event, State]] = {
    **{
        idle: {Event.PLAN: State.PLANNED, Event.SKIP: State.SKIPPED, Event.REFUSE: State.READY}
        for idle in _IDLE
    },
    State.PLANNED: {Event.CLAIM: State.RUNNING, Event.SUPERSEDE: State.READY},
    State.RUNNING: {
        Event.TAKE_OVER: State.RUNNING,
        Event.RENEW: State.RUNNING,
        Event.BEGIN: State.RUNNING,
        Event.ADVANCE: State.RUNNING,
        Event.FINISH: State.SUCCESS,
        Event.SKIP: State.SKIPPED,
        Event.FAIL: State.FAILED,
        Event.RELEASE: State.PLANNED,
        Event.SUPERSEDE: State.READY,
    },
    State.FAILED: {Event.CLAIM: State.RUNNING, Event.SUPERSEDE: State.READY},
}

ACTIVE = frozenset({State.PLANNED, State.RUNNING, State.FAILED})
"""States in which a flow has a plan that must end before another is made."""


def step(state: State, event: Event) -> State:
    """Return the state after an event. Raises WrongState, naming both, if the event is not allowed."""
    try:
        return _NEXT[state][event]
    except KeyError:
        allowed = ", ".join(_NEXT[state])
        raise WrongState(
            f"a flow that is {state} cannot take the event '{event}'", hint=f"it can take: {allowed}"
        ) from None


def table() -> str:
    """Return the whole state machine as a Markdown table, for the documentation."""
    head = "| event | " + " | ".join(State) + " |"
    rule = "|---" * (len(State) + 1) + "|"
    rows = [
        f"| `{event}` | " + " | ".join(_NEXT[state].get(event, "·") for state in State) + " |"
        for event in Event
    ]
    return "\n".join([head, rule, *rows])
