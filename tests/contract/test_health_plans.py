"""What `health` says of versions that an unfinished plan is still to read."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.contract.test_health import DAY, delta_table, make_project
from tests.support.drafts import ME
from tidegauge.delta_log.history import history
from tidegauge.errors import TidegaugeError
from tidegauge.ledger.open import open_ledger
from tidegauge.model.delta_flow import DeltaFlow, DeltaInput, DeltaTable, OnMissing, TableRef
from tidegauge.model.mode import Mode
from tidegauge.model.plan import Plan
from tidegauge.model.position import VersionPosition
from tidegauge.model.spec import Project
from tidegauge.model.watermark import Recalled
from tidegauge.operations.health import check_health
from tidegauge.operations.retention import RetentionNotice, find_margins, find_notices
from tidegauge.plan.frozen import check_frozen_versions, find_first_versions
from tidegauge.plan.versions import draft_versions, log_needed_after

FEED_OFF = {"delta.enableChangeDataFeed": "false"}


def _project(tmp_path: Path, flow: DeltaFlow, *, read: dict[str, int]) -> Project:
    """One with this flow, which has read each input up to a version."""
    made = make_project(tmp_path, flow)
    marks = {name: Recalled("version", VersionPosition(number), "t1") for name, number in read.items()}
    if marks:
        with open_ledger(made.ledger, create=True) as ledger:
            ledger.rebuild("shop", flow.name, marks, 1, 0, owner=ME, reason="a test")
    return made


def _flow(tmp_path: Path, mode: Mode, *inputs: DeltaInput) -> DeltaFlow:
    output = DeltaTable(TableRef(path=str(tmp_path / "out")), mode=mode, key=("id",))
    return DeltaFlow("shop", "a", inputs, output)


def _part(tmp_path: Path, name: str = "rows", **options: object) -> DeltaInput:
    return replace(DeltaInput(name, TableRef(path=str(tmp_path / name))), **options)  # type: ignore[arg-type]


def _freeze(project: Project) -> Plan:
    """The plan of what is new, kept in the ledger and not begun."""
    [flow] = project.delta_flows
    with open_ledger(project.ledger, create=True) as ledger:
        marks = {mark.input: mark for mark in ledger.watermarks("shop", ["a"])}
        found = {
            part.name: history(str(part.table.path), after=log_needed_after(flow, part, marks.get(part.name)))
            for part in flow.inputs
        }
        seen = next(((mark.epoch, mark.seq) for mark in marks.values()), (0, 0))
        made = draft_versions(flow, found, marks, seen=seen)
        return ledger.plan([made], owner=ME, run_id="r")["a"]


def _notices(project: Project) -> Sequence[RetentionNotice]:
    with open_ledger(project.ledger, create=False) as ledger:
        return find_notices(project, ledger).get("a", [])


def _next_run_fails(project: Project, plan: Plan) -> bool:
    [flow] = project.delta_flows
    firsts = find_first_versions(plan.draft, plan.done)
    found = {part.name: history(str(part.table.path), after=firsts[part.name]) for part in flow.inputs}
    try:
        check_frozen_versions(flow, plan.draft, found, plan.done)
    except TidegaugeError:
        return True
    return False


def _remove(table: Path, number: int) -> None:
    """Remove a version's file, as VACUUM does."""
    (table / f"part-{number}.parquet").unlink()


def test_c1_a_plan_that_is_to_read_versions_that_are_gone_is_a_problem_whatever_on_missing_says(
    tmp_path: Path,
) -> None:
    part = _part(tmp_path, on_missing=OnMissing.REBASELINE)
    project = _project(tmp_path, _flow(tmp_path, Mode.MERGE, part), read={"rows": 1})
    table = delta_table(tmp_path / "rows", 5 * DAY, 4 * DAY, DAY)
    plan = _freeze(project)
    assert _notices(project) == []
    assert not _next_run_fails(project, plan)

    _remove(table, 2)
    assert _next_run_fails(project, plan)
    [notice] = _notices(project)
    assert notice.over
    assert "its plan is to read 'rows' up to version 2" in notice.text
    _, [health] = check_health(project, ["a"])
    assert any("its plan is to read 'rows'" in text for text in health.problems)


def test_c1_a_plan_that_is_to_read_a_whole_table_as_it_no_longer_is_there_is_a_problem(
    tmp_path: Path,
) -> None:
    project = _project(tmp_path, _flow(tmp_path, Mode.OVERWRITE, _part(tmp_path)), read={"rows": 1})
    table = delta_table(tmp_path / "rows", 9 * DAY, 8 * DAY, 7 * DAY)
    plan = _freeze(project)
    shutil.rmtree(table)
    delta_table(tmp_path / "rows", 9 * DAY, 8 * DAY, 7 * DAY, DAY)
    assert _notices(project) == []
    assert not _next_run_fails(project, plan)

    _remove(table, 0)
    assert _next_run_fails(project, plan)
    [notice] = _notices(project)
    assert notice.over
    assert "the table as it was at version 2 cannot be read any more" in notice.text


@pytest.mark.parametrize("name", ["rows", "prices"])
def test_c1_the_first_plan_of_a_flow_and_its_pinned_inputs_are_judged_too(tmp_path: Path, name: str) -> None:
    flow = _flow(tmp_path, Mode.MERGE, _part(tmp_path), _part(tmp_path, "prices", snapshot=True))
    project = _project(tmp_path, flow, read={})
    ages = [9 * DAY, 8 * DAY]
    for one in ("rows", "prices"):
        delta_table(tmp_path / one, *ages)
    plan = _freeze(project)
    shutil.rmtree(tmp_path / name)
    delta_table(tmp_path / name, *ages, DAY)
    with open_ledger(project.ledger, create=False) as ledger:
        assert [one.input for one in find_margins(project, ledger)] == ["rows"]
    assert _notices(project) == []

    _remove(tmp_path / name, 0)
    assert _next_run_fails(project, plan)
    [notice] = _notices(project)
    assert notice.over
    assert notice.text.startswith(f"{name}: ")


def test_c1_what_is_left_for_the_plan_after_this_one_is_told_as_before(tmp_path: Path) -> None:
    part = _part(tmp_path, on_missing=OnMissing.REBASELINE)
    project = _project(tmp_path, _flow(tmp_path, Mode.MERGE, part), read={"rows": 1})
    delta_table(tmp_path / "rows", 40 * DAY, 30 * DAY, 20 * DAY)
    plan = _freeze(project)
    [notice] = _notices(project)
    assert notice.over, "the plan cannot read the whole table instead"
    assert "version 2, not read yet" in notice.text

    shutil.rmtree(tmp_path / "rows")
    table = delta_table(tmp_path / "rows", 40 * DAY, 30 * DAY, DAY, DAY)
    _remove(table, 3)
    assert not _next_run_fails(project, plan)
    [notice] = _notices(project)
    assert not notice.over
    assert "version 3 of" in notice.text
    assert "the whole table is read again" in notice.text


def test_c1_a_table_that_cannot_be_asked_is_a_notice_and_hides_no_other(tmp_path: Path) -> None:
    """With `on_missing: diff` the table is asked whether it can still be read as it was."""
    part = _part(tmp_path, on_missing=OnMissing.DIFF)
    other = _part(tmp_path, "other")
    flow = _flow(tmp_path, Mode.MERGE, part, other)
    project = _project(tmp_path, flow, read={"rows": 1, "other": 1})
    table = delta_table(tmp_path / "rows", 5 * DAY, 4 * DAY, DAY, properties=FEED_OFF)
    _remove(table, 2)
    delta_table(tmp_path / "other", 50 * DAY, 40 * DAY, 5 * DAY)
    (table / "_delta_log" / f"{1:020}.json").write_text("[")
    found = _notices(project)
    assert [one.over for one in found] == [False, False]
    assert sorted(one.text.partition(":")[0] for one in found) == ["other", "rows"]
