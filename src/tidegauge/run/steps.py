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
    """The flow is ours, the fence is raised, and its first batch is begun."""
    BEGIN = "begin"
    """From here on this batch has only one meaning."""
    WRITE = "write"
    """Rows are read and written where nobody sees them."""
    PUBLISH = "publish"
    """The output takes rows and tag in one atomic commit."""
    SETTLE = "settle"
    """The output is asked whether the tag is there."""
    ADVANCE = "advance"
    """The watermark moves, by compare-and-set on the fence; past the last batch the attempt ends with it."""
    FINISH = "finish"
    """The attempt ends, unless it has, and the lease with it."""


class OverrideStep(StrEnum):
    """A change by hand. If its process dies, the next run does the last two steps again."""

    BEGIN = "begin_override"
    """The fence is raised: nobody advances any more, and where the watermark goes is kept."""
    OPEN = "open_epoch"
    """The output begins its next epoch; readers follow that one from here on."""
    END = "end_override"
    """The ledger moves the watermark, and the next plan may be made."""


@contextmanager
def step(name: Step | OverrideStep, flow: str, tell: Listener) -> Iterator[None]:
    tell(StepBegun(flow, name))
    yield
    tell(StepDone(flow, name))
