"""By which transform a Delta target was made, in the text that ledgers keep."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

from tidegauge.flows.transform_fingerprint import TargetTransforms, TransformFingerprint
from tidegauge.model.delta_flow import DeltaFlow, DeltaInput, DeltaTable, Sql, TableRef
from tidegauge.model.mode import Mode
from tidegauge.model.pending import Pending

FLOW = DeltaFlow(
    "p",
    "silver",
    (DeltaInput("orders", TableRef(path="/orders")),),
    DeltaTable(TableRef(path="/silver"), key=("id",)),
    Sql("SELECT * FROM orders"),
)
TRANSFORM = hashlib.sha256(b"SELECT * FROM orders").hexdigest()[:16]
KEY = hashlib.sha256(json.dumps(["id"]).encode()).hexdigest()[:8]
APPENDS = replace(FLOW, output=replace(FLOW.output, mode=Mode.APPEND))


def test_the_text_is_the_one_that_ledgers_have() -> None:
    made = TransformFingerprint.of(FLOW)
    assert str(made) == f"{TRANSFORM} by {KEY}"
    assert str(replace(made, whole=True)) == f"{TRANSFORM} by {KEY} whole"
    assert str(TransformFingerprint.of(APPENDS)) == TRANSFORM
    for text in (TRANSFORM, f"{TRANSFORM} whole", f"{TRANSFORM} by {KEY}", f"{TRANSFORM} by {KEY} whole"):
        assert str(TransformFingerprint.parse(text)) == text


def test_what_the_marks_of_a_flow_remember() -> None:
    now = TransformFingerprint.of(FLOW)
    nothing = TargetTransforms.read([None, None])
    assert (nothing.made, nothing.set_back, nothing.whole) == ((), False, False)
    assert nothing.is_of(now)
    assert nothing.has_duplicate_check(now)
    back = TargetTransforms.read([Pending.SET_BACK, str(now)])
    assert back.set_back
    assert back.made == (now,)
    uncounted = TargetTransforms.read([f"{TRANSFORM} whole"])
    assert uncounted.whole
    assert uncounted.is_of(now)
    assert uncounted.is_known(now)
    assert not uncounted.has_duplicate_check(now)
    assert uncounted.has_duplicate_check(TransformFingerprint.of(APPENDS)), (
        "who counts no key needs none counted"
    )
    other = TargetTransforms.read([str(replace(now, unique_checked_key="0" * 8))])
    assert other.is_of(now)
    assert not other.is_known(now)
    assert not TargetTransforms.read(["0" * 16, str(now)]).is_of(now)
