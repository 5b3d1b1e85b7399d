"""By which transform a Delta target was made.

The ledger keeps it as a text beside each watermark (`model.pending`): `DIGEST`, then ` by KEY` and ` whole`
where they hold. Only this module knows what is in that text.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Iterable
from dataclasses import dataclass, replace

from tidegauge.model.delta_flow import DeltaFlow, Function, Sql
from tidegauge.model.expectation import ForeignKey, Rule
from tidegauge.model.mode import OutputKind
from tidegauge.model.pending import Pending

_BY, _WHOLE = " by ", " whole"


@dataclass(frozen=True)
class MadeBy:
    transform: str
    """A digest of it."""
    counted_key: str | None = None
    """A digest of the key of which each value was seen to come once, which evaluation by rows builds upon."""
    whole: bool = False
    """The plan has to be evaluated whole, also by who resumes it."""

    @classmethod
    def of(cls, flow: DeltaFlow) -> MadeBy:
        """What a plan of the flow makes, as the flow is now."""
        counted = flow.output.mode.one_row_per_key(OutputKind.DELTA) and not any(
            part.raw for part in flow.inputs
        )
        key = hashlib.sha256(json.dumps(flow.output.key).encode()).hexdigest()[:8]
        return cls(_digest(flow), key if counted else None)

    @classmethod
    def parse(cls, text: str) -> MadeBy:
        transform, _, key = text.removesuffix(_WHOLE).partition(_BY)
        return cls(transform, key or None, text.endswith(_WHOLE))

    def __str__(self) -> str:
        key = f"{_BY}{self.counted_key}" if self.counted_key else ""
        return f"{self.transform}{key}{_WHOLE if self.whole else ''}"


@dataclass(frozen=True)
class Origin:
    """What the watermarks or the plan of a flow remember of what is in its target."""

    made: tuple[MadeBy, ...]
    set_back: bool
    """The target is of a later version than its watermark says."""

    @classmethod
    def read(cls, texts: Iterable[str | None]) -> Origin:
        found = [Pending(text) for text in sorted({text for text in texts if text})]
        made = tuple(MadeBy.parse(one.made_by) for one in found if one.made_by is not None)
        return cls(made, any(one.is_set_back for one in found))

    @property
    def whole(self) -> bool:
        return any(one.whole for one in self.made)

    def is_of(self, now: MadeBy) -> bool:
        """Whether everything was made by this transform."""
        return all(one.transform == now.transform for one in self.made)

    def is_counted(self, now: MadeBy) -> bool:
        """Whether each value of the flow's key was seen to come once, where that is of use."""
        return now.counted_key is None or all(one.counted_key == now.counted_key for one in self.made)

    def is_known(self, now: MadeBy) -> bool:
        """Whether everything was made by this transform, counted by this key or not at all."""
        allowed = {replace(now, counted_key=key) for key in (None, now.counted_key)}
        return all(replace(one, whole=False) in allowed for one in self.made)


def _digest(flow: DeltaFlow) -> str:
    """Changes with the user's transform, as far as it can be seen, and with what its rows are kept out by."""
    match flow.transform:
        case Sql(text):
            body = text
        case Function(name, _, call):
            try:
                body = inspect.getsource(call) if call is not None else name
            except OSError:
                body = name
        case None:
            body = ""
    # What is set aside is not in the target, as if a WHERE left it out.
    body += "".join(sorted(f"\n{_show(one.rule)}" for one in flow.expect if one.action.sets_aside))
    return hashlib.sha256(body.encode()).hexdigest()[:16]


def _show(rule: Rule) -> str:
    return f"{rule.columns} -> {rule.table} {rule.to}" if isinstance(rule, ForeignKey) else repr(rule)
