"""Version ranges on every store: plans over many tables."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from tests.support.ledgers import needs_fresh_process
from tests.support.processes import KILLED, start
from tests.support.processes import run as in_a_process
from tests.support.project import until
from tidegauge import WatermarkTracker
from tidegauge.errors import ConfigError, FlowHeld, SourceError, WrongState
from tidegauge.model.secret import Secret
from tidegauge.model.state import State

MANY = {f"bronze.t{number:03}": number for number in range(120)}
COMMITTED = datetime(2025, 8, 14, 12, 0, 0, 123000, tzinfo=UTC)


@dataclass(frozen=True)
class Look:
    """As read/delta_log answers it."""

    version: int
    table_id: str = "one"
    schema_version: str = "s1"
    commit_timestamp: datetime = COMMITTED


@pytest.mark.shown_on("sqlite")
def test_the_first_plan_begins_at_the_beginning(store_address: str) -> None:
    with WatermarkTracker(store_address) as tracker:
        plan = tracker.prepare_processing_plan_for_schemas("silver", latest_versions={"bronze.orders": 7})
        assert plan.state is State.PLANNED
        assert plan.ranges == {"bronze.orders": (0, 7)} == tracker.load_version_ranges("silver")
        part = plan.tables["bronze.orders"]
        assert (part.start_version, part.end_version, part.last_processed_version) == (0, 7, None)
        assert part.status == "PLANNED"
        assert tracker.load_checkpoints(["bronze.orders"], pipeline="silver") == {}
        now = datetime.now(UTC)
        assert now - timedelta(minutes=5) < plan.created_at < now + timedelta(minutes=5)


def test_a_plan_is_reused_until_it_ends_and_then_a_new_one_goes_on(store_address: str) -> None:
    with WatermarkTracker(store_address) as tracker:
        prepare = tracker.prepare_processing_plan_for_schemas
        plan = prepare("silver", latest_versions={"a": 3, "b": 0})
        assert prepare("silver", latest_versions={"a": 9, "b": 9, "c": 9}) == plan
        assert tracker.fetch_current_processing_plan("silver") == plan
        done = tracker.mark_run_completed(plan.run_id, records={"a": 5})
        assert (done.state, done.status, done.ranges) == (State.SUCCESS, "SUCCESS", {})
        assert done.tables["a"].records_processed == 5
        assert done.tables["b"].records_processed is None
        assert tracker.fetch_current_processing_plan("silver") is None
        assert tracker.load_checkpoints(pipeline="silver") == {"a": 3, "b": 0}
        following = prepare("silver", latest_versions={"a": 9, "b": 0, "c": 2})
        assert following.run_id != plan.run_id
        assert following.ranges == {"a": (4, 9), "c": (0, 2)}
        assert following.tables["a"].last_processed_version == 3


@pytest.mark.shown_on("sqlite")
def test_nothing_new_is_a_skipped_plan_with_no_ranges(store_address: str) -> None:
    with WatermarkTracker(store_address) as tracker:
        prepare = tracker.prepare_processing_plan_for_schemas
        tracker.mark_run_completed(prepare("silver", latest_versions={"a": 3}).run_id)
        plan = prepare("silver", latest_versions={"a": 3})
        assert (plan.state, plan.ranges, plan.tables) == (State.SKIPPED, {}, {})
        assert tracker.load_version_ranges("silver") == {}
        # A job that completes whatever it has prepared needs no case for this.
        assert tracker.mark_run_completed(plan.run_id).state is State.SKIPPED
        assert tracker.load_checkpoints(pipeline="silver") == {"a": 3}
        assert prepare("silver", latest_versions={"a": 4}).ranges == {"a": (4, 4)}


@pytest.mark.shown_on("sqlite")
def test_the_first_run_may_have_a_baseline(store_address: str) -> None:
    with WatermarkTracker(store_address) as tracker:
        prepare = tracker.prepare_processing_plan_for_schemas
        assert prepare("one", latest_versions={"a": 9, "b": 4}, baseline=5).ranges == {"a": (5, 9)}
        assert prepare("each", latest_versions={"a": 9, "b": 4}, baseline={"a": 8}).ranges == {
            "a": (8, 9),
            "b": (0, 4),
        }
        tracker.mark_run_completed(prepare("one", latest_versions={}).run_id)
        assert prepare("one", latest_versions={"a": 10}, baseline=0).ranges == {"a": (10, 10)}
        for wrong in (-1, True, "0", {"a": -1}):
            with pytest.raises(ConfigError, match="baseline"):
                prepare("wrong", latest_versions={"a": 1}, baseline=wrong)  # type: ignore[arg-type]


@pytest.mark.shown_on("sqlite")
def test_schemas_and_tables_narrow_what_is_given(store_address: str) -> None:
    latest = {"bronze.a": 1, "main.bronze.b": 2, "bronze_old.c": 3, "gold.d": 4}
    with WatermarkTracker(store_address) as tracker:
        prepare = tracker.prepare_processing_plan_for_schemas
        assert set(prepare("s", ["bronze"], latest_versions=latest).ranges) == {"bronze.a", "main.bronze.b"}
        assert set(prepare("m", "main.bronze", latest_versions=latest).ranges) == {"main.bronze.b"}
        assert set(prepare("t", tables=["gold.d"], latest_versions=latest).ranges) == {"gold.d"}


@pytest.mark.shown_on("sqlite")
def test_b11_a_failed_plan_keeps_its_ranges_its_message_and_its_time(store_address: str) -> None:
    secret = Secret("hunter2hunter2")
    with WatermarkTracker(store_address) as tracker:
        plan = tracker.prepare_processing_plan_for_schemas("silver", latest_versions={"a": 3})
        failed = tracker.mark_run_failed(plan.run_id, ValueError(f"bad {secret.reveal()}"))
        assert (failed.state, failed.error_message, failed.ranges) == (State.FAILED, "bad ***", plan.ranges)
        assert failed.failed_at is not None
        assert failed.failed_at >= failed.created_at
        assert tracker.load_version_ranges("silver") == plan.ranges
        again = tracker.prepare_processing_plan_for_schemas("silver", latest_versions={"a": 99})
        assert (again.run_id, again.ranges) == (plan.run_id, plan.ranges)
        retried = tracker.retry(plan.run_id)
        assert (retried.run_id, retried.state, retried.ranges) == (plan.run_id, State.PLANNED, plan.ranges)
        assert tracker.retry(plan.run_id).state is State.PLANNED
        tracker.mark_run_failed(plan.run_id, "once more")
        assert tracker.mark_run_completed(plan.run_id).state is State.SUCCESS
        [again_failed, first] = tracker.history("silver", failed=True)
        assert (first.error, again_failed.error) == ("ValueError: bad ***", "once more")


def test_b10_seventy_of_a_hundred_and_twenty_tables_can_be_completed(store_address: str) -> None:
    names = list(MANY)
    with WatermarkTracker(store_address) as tracker:
        plan = tracker.prepare_processing_plan_for_schemas("silver", ["bronze"], latest_versions=MANY)
        assert len(plan.ranges) == 120
        part = tracker.mark_run_completed(plan.run_id, names[:70], records={names[3]: 33})
        assert (part.state, part.run_id) == (State.PLANNED, plan.run_id)
        assert list(part.ranges) == names[70:]
        assert len(part.tables) == 120
        assert (part.tables[names[3]].status, part.tables[names[3]].records_processed) == ("SUCCESS", 33)
        assert part.tables[names[70]].status == "PLANNED"
        assert tracker.load_checkpoints(pipeline="silver") == {name: MANY[name] for name in names[:70]}
        tracker.mark_run_failed(plan.run_id, "disk full")
        later = {name: number + 5 for name, number in MANY.items()}
        again = tracker.prepare_processing_plan_for_schemas("silver", ["bronze"], latest_versions=later)
        assert (again.run_id, list(again.ranges)) == (plan.run_id, names[70:])
        with pytest.raises(WrongState, match="t003"):
            tracker.mark_run_completed(plan.run_id, [names[3], names[70]])
        assert tracker.load_version_ranges("silver") == dict(again.ranges)
        tracker.mark_run_completed(plan.run_id)
        assert tracker.load_checkpoints(pipeline="silver") == MANY
        following = tracker.prepare_processing_plan_for_schemas("silver", latest_versions=later)
        assert following.ranges == {name: (number + 1, number + 5) for name, number in MANY.items()}


@pytest.mark.shown_on("sqlite")
def test_a_plan_is_completed_once_and_by_its_own_pipeline(store_address: str) -> None:
    with WatermarkTracker(store_address) as tracker:
        plan = tracker.prepare_processing_plan_for_schemas("silver", latest_versions={"a": 3})
        tracker.prepare_processing_plan_for_schemas("gold", latest_versions={"a": 3})
        with pytest.raises(ConfigError, match="of the pipeline 'silver', not 'gold'"):
            tracker.mark_run_completed(plan.run_id, pipeline="gold")
        with pytest.raises(ConfigError, match="no table 'b'"):
            tracker.mark_run_completed(plan.run_id, ["b"])
        with pytest.raises(ConfigError, match="'b'"):
            tracker.mark_run_completed(plan.run_id, records={"b": 1})
        with pytest.raises(ConfigError):
            tracker.mark_run_completed(plan.run_id, [])
        with pytest.raises(ConfigError):
            tracker.mark_run_completed(plan.run_id, records=-1)
        with pytest.raises(ConfigError, match="no plan"):
            tracker.mark_run_completed("made up")
        assert tracker.load_checkpoints(pipeline="silver") == {}
        tracker.mark_run_completed(plan.run_id, pipeline="silver")
        for work in (
            tracker.mark_run_completed,
            tracker.retry,
            lambda run_id: tracker.mark_run_failed(run_id, "x"),
        ):
            with pytest.raises(WrongState):
                work(plan.run_id)
        assert tracker.load_version_ranges("gold") == {"a": (0, 3)}


@pytest.mark.shown_on("sqlite")
def test_a_version_that_is_none_is_refused_with_its_table(store_address: str) -> None:
    with WatermarkTracker(store_address) as tracker:
        for wrong in (-1, True, "3", None, 1.0):
            with pytest.raises(ConfigError, match=r"bronze\.orders"):
                tracker.prepare_processing_plan_for_schemas(
                    "silver", latest_versions={"bronze.orders": wrong}
                )
        assert tracker.fetch_current_processing_plan("silver") is None


@pytest.mark.shown_on("sqlite")
def test_a_table_that_went_back_stops_the_plan_until_it_is_reset(store_address: str) -> None:
    with WatermarkTracker(store_address) as tracker:
        prepare = tracker.prepare_processing_plan_for_schemas
        tracker.mark_run_completed(prepare("silver", latest_versions={"a": 7, "b": 7}).run_id)
        with pytest.raises(SourceError, match="a is at version 3, below 7") as caught:
            prepare("silver", latest_versions={"a": 3, "b": 8})
        assert "reset" in (caught.value.hint or "")
        tracker.reset("silver", ["a"], reason="made anew")
        assert prepare("silver", latest_versions={"a": 3, "b": 8}).ranges == {"a": (0, 3), "b": (8, 8)}
        with pytest.raises(ConfigError, match="no table 'z'"):
            tracker.reset("silver", ["z"], reason="?")
        with pytest.raises(ConfigError, match="reason"):
            tracker.reset("silver", reason=" ")


@pytest.mark.shown_on("sqlite")
def test_c2_a_table_made_anew_or_with_other_columns_stops_the_plan(store_address: str) -> None:
    with WatermarkTracker(store_address) as tracker:
        prepare = tracker.prepare_processing_plan_for_schemas
        plan = prepare("silver", latest_versions={"a": Look(3)})
        part = plan.tables["a"]
        assert (part.schema_version, part.commit_timestamp) == ("s1", COMMITTED)
        with pytest.raises(SourceError, match="made anew"):
            prepare("silver", latest_versions={"a": Look(9, table_id="two")})
        tracker.mark_run_completed(plan.run_id)
        with pytest.raises(SourceError, match="another table"):
            prepare("silver", latest_versions={"a": Look(9, table_id="two")})
        with pytest.raises(SourceError, match="other columns") as caught:
            prepare("silver", latest_versions={"a": Look(9, schema_version="s2")})
        assert "allow_schema_change" in (caught.value.hint or "")
        # What is not known for once is not forgotten.
        tracker.mark_run_completed(prepare("silver", latest_versions={"a": 5}).run_id)
        with pytest.raises(SourceError, match="other columns"):
            prepare("silver", latest_versions={"a": Look(9, schema_version="s2")})
        allowed = prepare(
            "silver", latest_versions={"a": Look(9, schema_version="s2")}, allow_schema_change=True
        )
        assert allowed.ranges == {"a": (6, 9)}
        tracker.mark_run_completed(allowed.run_id)
        assert prepare("silver", latest_versions={"a": Look(9, schema_version="s2")}).state is State.SKIPPED
        tracker.reset("silver", reason="made anew")
        assert prepare("silver", latest_versions={"a": Look(0, "two", "s3")}).ranges == {"a": (0, 0)}


def test_a_plan_that_stays_too_long_is_stuck(store_address: str) -> None:
    with WatermarkTracker(store_address) as tracker:
        tracker.start_pipeline_run("time")
        one = tracker.prepare_processing_plan_for_schemas("silver", latest_versions={"a": 3})
        two = tracker.prepare_processing_plan_for_schemas("gold", latest_versions={"a": 3})
        tracker.mark_run_failed(two.run_id, "no")
        assert tracker.stuck_plans("2h") == []
        time.sleep(2.1)
        stuck = tracker.stuck_plans("1s")
        assert {(plan.pipeline, plan.state) for plan in stuck} == {
            ("silver", State.PLANNED),
            ("gold", State.FAILED),
        }
        assert [plan.run_id for plan in tracker.stuck_plans(timedelta(seconds=1), pipeline="silver")] == [
            one.run_id
        ]
        tracker.mark_run_completed(one.run_id)
        assert tracker.stuck_plans("1s", pipeline="silver") == []
        with pytest.raises(ConfigError, match="not a duration"):
            tracker.stuck_plans("two hours")


def test_b7_processes_that_prepare_at_once_get_one_plan(store_address: str, tmp_path: Path) -> None:
    WatermarkTracker(store_address).close()
    racers = 4
    ready = tmp_path / "ready"
    ready.mkdir()

    def child(number: int) -> tuple[str, dict[str, tuple[int, int]]]:
        latest = {name: version + number for name, version in MANY.items()}
        with WatermarkTracker(store_address) as tracker:
            (ready / str(number)).touch()
            until(lambda: len(list(ready.iterdir())) == racers, every=0.001)
            plan = tracker.prepare_processing_plan_for_schemas("silver", latest_versions=latest)
            return plan.run_id, dict(plan.ranges)

    fresh = needs_fresh_process(store_address)
    children = [start(partial(child, number), fresh=fresh) for number in range(racers)]
    answers = [one.answer() for one in children]
    assert len({run_id for run_id, _ in answers}) == 1
    assert all(ranges == answers[0][1] for _, ranges in answers)
    with WatermarkTracker(store_address) as tracker:
        assert tracker.load_version_ranges("silver") == answers[0][1]


# --- the block


@pytest.mark.shown_on("sqlite")
def test_a_block_completes_what_it_has_not_completed_itself(store_address: str) -> None:
    with WatermarkTracker(store_address) as tracker:
        with tracker.process("silver", latest_versions={"a": 3, "b": 4}) as plan:
            assert plan.ranges == {"a": (0, 3), "b": (0, 4)}
            current = tracker.fetch_current_processing_plan("silver")
            assert current is not None
            assert current.state is State.RUNNING
            plan.complete("a", records=9)
            assert tracker.load_checkpoints(pipeline="silver") == {"a": 3}
            with pytest.raises(WrongState):
                plan.complete("a")
            with pytest.raises(ConfigError):
                plan.complete("z")
        assert tracker.load_checkpoints(pipeline="silver") == {"a": 3, "b": 4}
        with tracker.process("silver", latest_versions={"a": 4, "b": 5}) as plan:
            for table in plan.ranges:
                plan.complete(table)
        assert tracker.load_checkpoints(pipeline="silver") == {"a": 4, "b": 5}
        with tracker.process("silver", latest_versions={"a": 4}) as plan:
            assert (plan.state, plan.ranges) == (State.SKIPPED, {})


@pytest.mark.shown_on("sqlite")
def test_an_exception_in_the_block_keeps_what_was_completed(store_address: str) -> None:
    with WatermarkTracker(store_address) as tracker:

        def work() -> str:
            with tracker.process("silver", latest_versions={"a": 3, "b": 4}) as plan:
                plan.complete("a")
                run_ids.append(plan.run_id)
                raise ZeroDivisionError("by nothing")

        run_ids: list[str] = []
        with pytest.raises(ZeroDivisionError):
            work()
        current = tracker.fetch_current_processing_plan("silver")
        assert current is not None
        assert (current.state, current.error_message) == (State.FAILED, "by nothing")
        with tracker.process("silver", latest_versions={"a": 9, "b": 9}) as again:
            assert ([again.run_id], again.ranges) == (run_ids, {"b": (0, 4)})


@pytest.mark.shown_on("sqlite")
def test_a_plan_in_another_live_process_is_held_and_in_a_dead_one_is_not(store_address: str) -> None:
    with WatermarkTracker(store_address) as tracker:
        with tracker.process("silver", latest_versions={"a": 3, "b": 3}) as plan:
            run_id = plan.run_id

            def other() -> str:
                with WatermarkTracker(store_address) as theirs:
                    for work in (
                        lambda: theirs.mark_run_completed(run_id),
                        lambda: theirs.mark_run_failed(run_id, "x"),
                        lambda: theirs.retry(run_id),
                        lambda: theirs.process("silver").__enter__(),
                    ):
                        with pytest.raises(FlowHeld):
                            work()
                    return theirs.prepare_processing_plan_for_schemas(
                        "silver", latest_versions={"a": 9}
                    ).run_id

            assert in_a_process(other, fresh=needs_fresh_process(store_address)) == run_id

        def dies() -> None:
            with WatermarkTracker(store_address).process("silver", latest_versions={"a": 4, "b": 4}) as plan:
                plan.complete("a")
                os.kill(os.getpid(), signal.SIGKILL)

        assert in_a_process(dies, fresh=needs_fresh_process(store_address)) is KILLED
        left = tracker.fetch_current_processing_plan("silver")
        assert left is not None
        assert (left.state, left.ranges) == (State.RUNNING, {"b": (4, 4)})
        assert tracker.mark_run_completed(left.run_id).state is State.SUCCESS
        assert tracker.load_checkpoints(pipeline="silver") == {"a": 4, "b": 4}
