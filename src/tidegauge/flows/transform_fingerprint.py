"""Which transform made the rows of a Delta target.

The ledger keeps it as a text beside each watermark (`model.pending`): `DIGEST`, then optionally ` by KEY` and
` whole`. Only this module reads and writes that text.
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
class TransformFingerprint:
    """The transform that a plan evaluates, and how."""

    transform: str
    """A digest of the transform."""
    unique_checked_key: str | None = None
    """A digest of the key that was checked to be unique, as evaluation by rows needs; None: no check."""
    whole: bool = False
    """Whether the plan has to be evaluated whole, also when it is resumed."""

    @classmethod
    def of(cls, flow: DeltaFlow) -> TransformFingerprint:
        """What a plan of the flow, as it is now, writes into the target."""
        counted = flow.output.mode.one_row_per_key(OutputKind.DELTA) and not any(
            part.raw for part in flow.inputs
        )
        key = hashlib.sha256(json.dumps(flow.output.key).encode()).hexdigest()[:8]
        return cls(_digest(flow), key if counted else None)

    @classmethod
    def parse(cls, text: str) -> TransformFingerprint:
        transform, _, key = text.removesuffix(_WHOLE).partition(_BY)
        return cls(transform, key or None, text.endswith(_WHOLE))

    def __str__(self) -> str:
        key = f"{_BY}{self.unique_checked_key}" if self.unique_checked_key else ""
        return f"{self.transform}{key}{_WHOLE if self.whole else ''}"


@dataclass(frozen=True)
class TargetTransforms:
    """What the watermarks or the plan of a flow remember about the rows of its target."""

    made: tuple[TransformFingerprint, ...]
    set_back: bool
    """Whether a watermark was set back by hand, so that the target has later changes than it says."""

    @classmethod
    def read(cls, texts: Iterable[str | None]) -> TargetTransforms:
        found = [Pending(text) for text in sorted({text for text in texts if text})]
        made = tuple(TransformFingerprint.parse(one.made_by) for one in found if one.made_by is not None)
        return cls(made, any(one.is_set_back for one in found))

    @property
    def whole(self) -> bool:
        return any(one.whole for one in self.made)

    def is_of(self, now: TransformFingerprint) -> bool:
        """Whether this transform made all rows of the target."""
        return all(one.transform == now.transform for one in self.made)

    def has_duplicate_check(self, now: TransformFingerprint) -> bool:
        """Whether the key's values were checked to be unique; true also if no check is needed."""
        return now.unique_checked_key is None or all(
            one.unique_checked_key == now.unique_checked_key for one in self.made
        )

    def is_known(self, now: TransformFingerprint) -> bool:
        """Whether this transform made all rows of the target, and no other key was checked."""
        allowed = {replace(now, unique_checked_key=key) for key in (None, now.unique_checked_key)}
        return all(replace(one, whole=False) in allowed for one in self.made)


def _digest(flow: DeltaFlow) -> str:
    """A digest of the user's transform, as far as its source is known, and of checks that keep rows out."""
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
    # A check that sets rows aside keeps them out of the target, as a WHERE would.
    body += "".join(sorted(f"\n{_show(one.rule)}" for one in flow.expect if one.action.sets_aside))
    return hashlib.sha256(body.encode()).hexdigest()[:16]


def _show(rule: Rule) -> str:
    return f"{rule.columns} -> {rule.table} {rule.to}" if isinstance(rule, ForeignKey) else repr(rule)
