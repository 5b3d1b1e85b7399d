"""The steps of the commit protocol, by name. The crash tests take their list from here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum

from tidegauge.observe.events import Listener, StepBegun, StepDone


class Step(StrEnum):
    PLAN = "plan"
    """Windows are frozen in the ledger."""
    CLAIM = "claim"
    """The runner takes the flow, raises its fence and begins the next batch."""
    BEGIN = "begin"
    """From here on this batch has only one meaning."""
    WRITE = "write"
    """Rows are read and written where nobody sees them."""
    PUBLISH = "publish"
    """The output takes rows and tag in one atomic commit."""
    CONFIRM = "confirm"
    """The output is asked whether the tag is there."""
    ADVANCE = "advance"
    """The watermark moves, by compare-and-set on the fence; past the last batch the attempt ends with it."""
    FINISH = "finish"
    """The attempt and its lease end, unless `ADVANCE` has ended them already."""


class OverrideStep(StrEnum):
    """A change by hand. If its process dies, the next run does the last two steps again."""

    BEGIN = "begin_override"
    """The fence is raised, so that nobody advances any more; the ledger keeps where the watermark will go."""
    OPEN = "open_epoch"
    """The output opens its next epoch; from here on readers follow that one."""
    END = "end_override"
    """The ledger moves the watermark, and the next plan may be made."""


@contextmanager
def step(name: Step | OverrideStep, flow: str, tell: Listener) -> Iterator[None]:
    """Tell the listener when a step begins, and when it has ended without an error."""
    tell(StepBegun(flow, name))
    yield
    tell(StepDone(flow, name))
