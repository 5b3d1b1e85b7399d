"""A vacuum that takes nothing from a reader, and a compaction that ends in one; on real Delta tables."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.drafts import ME, draft
from tidegauge.delta_log.table import read_newest
from tidegauge.errors import SourceError, WrongState
from tidegauge.flows.maintenance.base import MaintenanceResult
from tidegauge.flows.maintenance.optimize import optimize
from tidegauge.flows.maintenance.vacuum import check
from tidegauge.flows.maintenance.vacuum import vacuum as run_vacuum
from tidegauge.ledger.open import open_ledger
from tidegauge.model.delta_flow import DeltaFlow, DeltaInput, DeltaTable, TableRef
from tidegauge.model.mode import Mode
from tidegauge.model.plan import Batch, Draft, InputPlan, ReadWay
from tidegauge.model.position import VersionPosition, Window
from tidegauge.model.spec import Project, SparkSettings
from tidegauge.model.watermark import Recalled
from tidegauge.operations.delta_tables import SelectedMaintenance
from tidegauge.operations.health_data import check_tables
from tidegauge.operations.retention import find_notices

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOTHING_KEPT = timedelta(0)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """bronze → silver → gold, of which only silver's table is made here."""

    def ref(name: str) -> TableRef:
        return TableRef(path=str(tmp_path / name))

    def delta_flow(name: str, reads: str, **more: object) -> DeltaFlow:
        part = DeltaInput(reads, ref(reads), **more)  # type: ignore[arg-type]
        return DeltaFlow("shop", name, (part,), DeltaTable(ref(name), key=("id",)))

    return Project(
        pipeline="shop",
        file=tmp_path / "tidegauge.yml",
        ledger=f"sqlite:///{tmp_path / 'ledger.db'}",
        lease=timedelta(minutes=1),
        spark=SparkSettings(),
        connections={},
        syncs=(),
        delta_flows=(delta_flow("silver", "bronze"), delta_flow("gold", "silver")),
    )


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Versions 0 to 4: made, 1, 2 and 3 added in a file each, 2 changed; and a table of our own in it."""
    path = tmp_path_factory.mktemp("made") / "silver"
    spark.sql(
        f"CREATE TABLE delta.`{path}` (id BIGINT, name STRING) USING delta"
        " TBLPROPERTIES (delta.enableChangeDataFeed = true, delta.enableDeletionVectors = false)"
    )
    for number in (1, 2, 3):
        spark.sql(f"INSERT INTO delta.`{path}` VALUES ({number}, 'n')")
    spark.sql(f"UPDATE delta.`{path}` SET name = 'changed' WHERE id = 2")
    events = path / "_tidegauge_events"
    spark.range(3).coalesce(1).write.format("delta").save(str(events))
    spark.range(2).coalesce(1).write.format("delta").mode("overwrite").save(str(events))
    return path


@pytest.fixture
def silver(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "silver"))


def stand(project: Project, flow: str, reads: str, version: int, seq: int) -> None:
    mark = Recalled("version", VersionPosition(version))
    with open_ledger(project.ledger, create=True) as ledger:
        ledger.rebuild("shop", flow, {reads: mark}, 0, seq, owner=ME, reason="a test")


def vacuum(project: Project, retain: timedelta | None, *, dry_run: bool = False) -> MaintenanceResult:
    maintenance = SelectedMaintenance(project, ["silver"])
    return run_vacuum(maintenance, maintenance.targets[0], retain, dry_run=dry_run)


def files(path: Path) -> set[str]:
    return {str(one.relative_to(path)) for one in path.rglob("*.parquet") if "_delta_log" not in one.parts}


def test_c1_a_vacuum_is_refused_while_a_flow_still_has_to_read_what_it_would_take(
    spark: SparkSession, project: Project, silver: Path
) -> None:
    stand(project, "gold", "silver", 3, seq=1)
    before = files(silver)
    with pytest.raises(WrongState) as refused:
        vacuum(project, NOTHING_KEPT)
    assert "gold still reads it (input silver, its watermark is version 3)" in refused.value.message
    assert "from 4 on" in refused.value.message
    assert "run gold first" in str(refused.value.hint)
    assert files(silver) == before

    maintenance = SelectedMaintenance(project, ["silver"])
    assert check(maintenance, maintenance.targets[0], None) == timedelta(days=7), (
        "what is young enough stays anyway"
    )

    stand(project, "gold", "silver", read_newest(str(silver)).version, seq=2)
    assert vacuum(project, NOTHING_KEPT, dry_run=True).removed == 2
    assert vacuum(project, None, dry_run=True).removed == 0, "all is kept for a week"
    done = vacuum(project, NOTHING_KEPT)
    assert (done.removed, done.done) == (2, True)
    gone = before - files(silver)
    assert len(gone) == 2
    assert any(path.startswith("_change_data/") for path in gone)
    assert not any("_tidegauge_events" in path for path in gone), "ours is left alone, old files and all"
    assert spark.read.format("delta").load(str(silver / "_tidegauge_events")).count() == 2
    assert spark.read.format("delta").load(str(silver)).count() == 3


def test_c1_what_a_plan_froze_and_what_a_flow_begins_with_is_kept_too(project: Project, silver: Path) -> None:
    maintenance = SelectedMaintenance(project, ["silver"])
    one = maintenance.targets[0]
    assert check(maintenance, one, NOTHING_KEPT) == NOTHING_KEPT, "a first load takes the table as it is then"
    stand(project, "gold", "silver", 9, seq=1)
    table_id = read_newest(str(silver)).table_id
    part = InputPlan("silver", "version", Window(VersionPosition(2), VersionPosition(4)), table_id, "f")
    batch = Batch((Window(VersionPosition(2), VersionPosition(4)),), ways=(ReadWay.PINNED,))
    frozen = Batch((Window(VersionPosition(2), VersionPosition(2)),), ways=(ReadWay.NOTHING,))
    with open_ledger(project.ledger, create=True) as ledger:
        ledger.plan([Draft("shop", "gold", (part,), (batch, frozen))], owner=ME, run_id="run")
    with pytest.raises(WrongState, match="its plan, PLANNED, froze version 2"):
        check(SelectedMaintenance(project, ["silver"]), one, NOTHING_KEPT)

    silver_layer, gold = project.delta_flows
    history = DeltaFlow("shop", "history", gold.inputs, DeltaTable(gold.output.table, Mode.SCD2))
    other = Project(**{**vars(project), "delta_flows": (silver_layer, history)})
    with pytest.raises(WrongState, match="it has not run yet, and begins at earliest"):
        check(SelectedMaintenance(other, ["silver"]), one, NOTHING_KEPT)


@pytest.mark.parametrize("given", ["lake/silver", "link/silver", "file:{}/link/silver/"])
@pytest.mark.usefixtures("silver")
def test_c1_a_table_is_the_same_one_by_a_link_and_by_its_real_path(
    project: Project, tmp_path: Path, given: str
) -> None:
    (tmp_path / "lake").mkdir()
    shutil.move(tmp_path / "silver", tmp_path / "lake" / "silver")
    (tmp_path / "link").symlink_to(tmp_path / "lake")
    table = TableRef(path=str(tmp_path / "link" / "silver"))
    writer, gold = project.delta_flows
    linked = replace(
        project,
        delta_flows=(
            replace(writer, output=replace(writer.output, table=table)),
            replace(gold, inputs=(replace(gold.inputs[0], table=table),)),
        ),
    )
    stand(linked, "gold", "silver", 3, seq=1)
    maintenance = SelectedMaintenance(linked, (), [given.format(tmp_path)])
    [target] = maintenance.targets
    assert target.delta_flow is not None
    assert target.delta_flow.name == "silver"
    with pytest.raises(WrongState) as refused:
        check(maintenance, target, NOTHING_KEPT)
    assert "gold still reads it (input silver, its watermark is version 3)" in refused.value.message
    assert len(SelectedMaintenance(linked, ["silver"], ["lake/silver", "link/silver"]).targets) == 1


@pytest.mark.parametrize("feature", ["catalogManaged", "catalogOwned-preview", "coordinatedCommits-preview"])
def test_b18_a_table_that_a_catalogue_commits_to_is_not_vacuumed(
    project: Project, silver: Path, feature: str
) -> None:
    maintenance = SelectedMaintenance(project, ["silver"])
    named = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": [], "writerFeatures": [feature]}
    (silver / "_delta_log" / f"{5:020}.json").write_text(json.dumps({"protocol": named}))
    before = files(silver)
    with pytest.raises(SourceError) as caught:
        run_vacuum(maintenance, maintenance.targets[0], None)
    assert feature in caught.value.message
    with pytest.raises(SourceError):
        optimize(maintenance, maintenance.targets[0], force=True)
    assert files(silver) == before


@pytest.mark.usefixtures("silver")
def test_files_that_a_running_batch_has_not_committed_yet_are_not_vacuumed(project: Project) -> None:
    with open_ledger(project.ledger, create=True) as ledger:
        made = ledger.plan([draft("silver", inputs=("bronze",))], owner=ME, run_id="run")["silver"]
        ledger.claim(made, owner=ME, run_id="run", lease=timedelta(minutes=1))
    maintenance = SelectedMaintenance(project, ["silver"])
    with pytest.raises(WrongState, match="silver is running"):
        check(maintenance, maintenance.targets[0], NOTHING_KEPT)
    assert check(maintenance, maintenance.targets[0], None) == timedelta(days=7)


@pytest.mark.long
def test_optimize_makes_one_file_of_many_and_costs_readers_nothing(
    spark: SparkSession, project: Project, silver: Path
) -> None:
    stand(project, "gold", "silver", 2, seq=1)
    maintenance = SelectedMaintenance(project, ["silver"])
    done = optimize(maintenance, maintenance.targets[0], zorder=["id"])
    assert (done.added, done.replaced, done.removed, done.error) == (1, 3, 0, None)
    assert spark.read.format("delta").load(str(silver)).count() == 3
    with open_ledger(project.ledger, create=True) as ledger:
        assert find_notices(project, ledger) == {}, "nothing that gold has not read is in danger"


def test_optimize_leaves_alone_what_has_not_changed_and_reports_sizes(
    spark: SparkSession, project: Project, silver: Path
) -> None:
    stand(project, "gold", "silver", 2, seq=1)
    declared = replace(project.delta_flows[0].output, zorder=("id",))
    flows = (replace(project.delta_flows[0], output=declared), *project.delta_flows[1:])
    maintenance = SelectedMaintenance(replace(project, delta_flows=flows), ["silver"])
    [target] = maintenance.targets
    spark.sql(f"INSERT INTO delta.`{silver}` SELECT id, 'more' FROM range(10, 12) DISTRIBUTE BY id")
    first = optimize(maintenance, target, clean=False)
    assert first.before is not None
    assert first.after is not None
    assert (first.before.files > 1, first.after.files, first.left_alone) == (True, 1, None)
    again = optimize(maintenance, target, clean=False)
    assert (again.after, again.left_alone) == (first.after, "it has no small files")
    spark.sql(f"INSERT INTO delta.`{silver}` VALUES (99, 'z')")
    third = optimize(maintenance, target, clean=False).to_json()
    assert (third["files_before"], third["files_after"], third["left_alone"]) == (2, 1, None)


def test_health_looks_into_the_rows_of_a_table(spark: SparkSession, project: Project, silver: Path) -> None:
    def said() -> set[str]:
        return {one.says for one in check_tables(project, ["silver"])["silver"]}

    assert said() == {"3 rows in the table", "keys and intervals are as they should be"}
    spark.sql(f"INSERT INTO delta.`{silver}` VALUES (1, 'again'), (NULL, 'nobody')")
    assert said() == {
        "5 rows in the table",
        "1 rows with a NULL in the key",
        "1 rows whose key is there twice",
    }
