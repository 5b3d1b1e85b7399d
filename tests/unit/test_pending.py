"""The text that a watermark remembers for the next plan: two meanings, each read only as itself."""

from __future__ import annotations

from datetime import datetime

import pytest

from tidegauge.flows.transform_fingerprint import TargetTransforms, TransformFingerprint
from tidegauge.model.pending import Pending
from tidegauge.model.position import Value, ValueKind
from tidegauge.sources.candidate import BoundCandidate, from_text, to_text
from tidegauge.sources.dialect import OpenWork

POINT = BoundCandidate(
    Value(ValueKind.INT, "7"),
    datetime(2026, 1, 2, 3, 4, 5),
    (OpenWork(datetime(2026, 1, 1), "connection 1", connection="1", transaction="t"),),
)
MADE = TransformFingerprint("0123456789abcdef", "01234567", whole=True)


def test_points_come_back_as_they_were() -> None:
    text = to_text([POINT])
    assert text is not None
    assert from_text(text, ValueKind.INT) == (POINT,)


def test_what_a_target_was_made_by_comes_back_as_it_was() -> None:
    assert TargetTransforms.read([Pending.of_target(MADE).text, None]) == TargetTransforms(
        (MADE,), set_back=False
    )
    assert TargetTransforms.read([Pending.SET_BACK]) == TargetTransforms((), set_back=True)


@pytest.mark.parametrize(
    "text", [None, "", str(MADE), Pending.SET_BACK, "{}", "[", "7", '[{"seen": 1}]', "null"]
)
def test_a_survey_forgets_what_it_did_not_write(text: str | None) -> None:
    assert from_text(text, ValueKind.INT) == ()


def test_a_text_of_another_meaning_is_no_transform_that_is_known() -> None:
    origin = TargetTransforms.read([to_text([POINT])])
    assert not origin.set_back
    assert not origin.is_of(MADE)
