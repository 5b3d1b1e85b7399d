"""Newest versions and checkpoints → ranges; and whether a frozen plan can still be read. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tidegauge.errors import SourceError, SourceUnreachable, TableMissing, TidegaugeError
from tidegauge.model.plan import Draft, Plan
from tidegauge.model.position import VersionPosition
from tidegauge.model.run import FlowStatus
from tidegauge.model.state import State
from tidegauge.model.watermark import Watermark
from tidegauge.tracker import WatermarkTracker
from tidegauge.tracker.latest import Latest
from tidegauge.tracker.pipeline_state import PipelineState
from tidegauge.tracker.processing import build_plan
from tidegauge.tracker.ranges import check_active, draft_ranges

DOCS = Path(__file__).parents[2] / "docs"
AT = datetime(2025, 8, 14)


def mark(table: str, version: int | None, *, table_id: str = "", schema: str | None = None) -> Watermark:
    position = None if version is None else VersionPosition(version)
    return Watermark(
        "p",
        "p",
        table,
        "version",
        position,
        position,
        0,
        3,
        None,
        f"tracker:{table_id}",
        AT,
        fingerprint=schema,
    )


def standing(
    *marks: Watermark, plan: Draft | None = None, completed: frozenset[str] = frozenset()
) -> PipelineState:
    status = None
    if plan is not None:
        kept = Plan("id", plan, 0, 4)
        status = FlowStatus("p", "p", State.PLANNED, kept, 0, None, None, None, completed, AT)
    return PipelineState("p", status, {one.input: one for one in marks})


def drafted(where: PipelineState, latest: dict[str, Latest], *, late: bool = False) -> Draft:
    return draft_ranges(where, latest, baseline=0, allow_schema_change=False, schemas=["s"], late=late)


def test_a_range_goes_from_the_checkpoint_to_the_newest() -> None:
    where = standing(mark("s.a", 4), mark("s.b", 7), mark("s.gone", 2), mark("other.gone", 2))
    made = drafted(where, {"s.a": Latest(9), "s.b": Latest(7), "s.c": Latest(0)})
    plan = build_plan(standing(*where.marks.values(), plan=made))
    assert plan is not None
    assert plan.ranges == {"s.a": (5, 9), "s.c": (0, 0)}
    assert plan.notes == ("s.gone was processed up to version 2 and is not there any more",)
    assert plan.created_at == AT.replace(tzinfo=UTC)
    assert made.seen == (0, 3)


def test_what_is_not_known_today_is_taken_from_before() -> None:
    made = drafted(standing(mark("s.a", 4, table_id="x", schema="one")), {"s.a": Latest(9)})
    assert (made.inputs[0].source_id, made.inputs[0].fingerprint) == ("tracker:x", "one")


def test_a_lower_version_is_an_error_unless_it_may_be_an_older_look() -> None:
    where = standing(mark("s.a", 4))
    with pytest.raises(SourceError, match=r"s\.a is at version 3, below 4"):
        drafted(where, {"s.a": Latest(3)})
    assert drafted(where, {"s.a": Latest(3)}, late=True).batches == ()


@pytest.mark.parametrize(
    ("found", "error"),
    [
        ({}, TableMissing),
        ({"s.a": TableMissing("s.a: nothing there")}, TableMissing),
        ({"s.a": SourceUnreachable("s.a: no answer")}, SourceUnreachable),
        ({"s.a": Latest(3)}, SourceError),
        ({"s.a": Latest(9, table_id="other")}, SourceError),
    ],
)
def test_a_frozen_plan_says_what_it_cannot_read_any_more(
    found: dict[str, Latest | TidegaugeError], error: type[TidegaugeError]
) -> None:
    plan = drafted(standing(), {"s.a": Latest(4, table_id="one")})
    with pytest.raises(error, match=r"s\.a"):
        check_active(standing(plan=plan), found, looked=True, schemas=["s"])
    # Once it is completed, nobody asks for it.
    done = standing(plan=plan, completed=frozenset({"s.a"}))
    check_active(done, found, looked=True, schemas=["s"])


def test_numbers_from_the_caller_do_not_disturb_a_frozen_plan() -> None:
    plan = standing(plan=drafted(standing(), {"s.a": Latest(4)}))
    check_active(plan, {"s.a": Latest(3)}, looked=False, schemas=None)
    check_active(plan, {}, looked=False, schemas=["s"])


def test_every_public_name_is_on_the_documents_pages() -> None:
    pages = "\n".join(page.read_text() for page in DOCS.glob("tracker-*.md"))
    named = [name for name in vars(WatermarkTracker) if not name.startswith("_") and name != "close"]
    assert [name for name in named if f"`{name}(" not in pages and f"tracker.{name}(" not in pages] == []
    documents = (
        "startPipelineRun getDeltaWindow finalizePipelineRun WatermarkRecord prepareProcessingPlanForSchemas"
        " getLatestVersions markRunCompleted markCompleted loadCheckpoints loadVersionRanges"
        " fetchCurrentProcessingPlan get_last_processed_timestamp commit_processing_state"
    )
    assert [name for name in documents.split() if name not in pages] == []
