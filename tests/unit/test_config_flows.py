"""Flows between Delta tables in the project file, and what they become."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegauge.config.load import load_project
from tidegauge.errors import Place
from tidegauge.model.delta_flow import (
    DeltaFlow,
    DeltaInput,
    DeltaTable,
    Evaluate,
    Function,
    OnDelete,
    OnMissing,
    Sql,
    TableRef,
)
from tidegauge.model.mode import Mode
from tidegauge.model.spec import Drift

TOUR = """\
pipeline: lakehouse
flows:
  silver_clusters:
    inputs:
      clusters:   {table: bronze.clusters, cursor: version}
      workspaces: {table: silver.workspaces, snapshot: true}
    transform: silver/clusters.sql
    output: {table: silver.clusters, mode: scd2, key: cluster_id, sequence_by: change_time}
  gold_daily_usage:
    inputs: {usage: {table: silver.usage, cursor: version}}
    transform: gold.usage:daily
    output: {table: gold.daily_usage, mode: replace_partitions, partition_by: date_sk}
"""


def load(folder: Path, text: str) -> tuple[DeltaFlow, ...]:
    file = folder / "tidegauge.yml"
    file.write_text(text, encoding="utf-8")
    return load_project(file).delta_flows


def flow(body: str, *, head: str = "pipeline: x\n") -> str:
    return head + "flows:\n  f: {" + body + "}\n"


def test_the_tours_flows_become_frozen_values(tmp_path: Path) -> None:
    (tmp_path / "silver").mkdir()
    (tmp_path / "silver" / "clusters.sql").write_text(
        "\ufeffSELECT 'ü' AS u, * FROM clusters\n", encoding="utf-8"
    )
    silver, gold = load(tmp_path, TOUR)
    file = str(tmp_path / "tidegauge.yml")
    assert silver == DeltaFlow(
        pipeline="lakehouse",
        name="silver_clusters",
        inputs=(
            DeltaInput("clusters", TableRef("bronze.clusters"), place=Place(file, 5, 7)),
            DeltaInput("workspaces", TableRef("silver.workspaces"), snapshot=True, place=Place(file, 6, 7)),
        ),
        output=DeltaTable(
            TableRef("silver.clusters"),
            mode=Mode.SCD2,
            key=("cluster_id",),
            sequence_by="change_time",
            place=Place(file, 8, 5),
        ),
        transform=Sql("SELECT 'ü' AS u, * FROM clusters\n", tmp_path / "silver" / "clusters.sql"),
        place=Place(file, 3, 3),
    )
    assert silver.incremental == silver.inputs[:1]
    assert gold.transform == Function("gold.usage:daily", tmp_path)
    assert gold.output.partition_by == ("date_sk",)
    assert gold.upstreams == ()


def test_every_key_of_a_flow_arrives(tmp_path: Path) -> None:
    [delta_flow, other] = load(
        tmp_path,
        """\
pipeline: x
flows:
  a-1.b:
    inputs:
      a: {path: lake/../lake/a, feed: raw, initial: 007, on_missing: diff, max_versions: 10, max_bytes: 64MB}
    output: {path: "file:///lake/b/", mode: append, on_delete: ignore, partition_by: [d, e]}
    evaluate: rows
    allow_nondeterministic: true
    drift: fail
    tags: [daily, core]
  b:
    inputs: {_A: db.`odd.name`}
    output: {table: x, mode: scd2, key: [a, b], sequence_by: c, track: [d, e], surrogate_key: sk}
""",
    )
    [part] = delta_flow.inputs
    assert part.table == TableRef(path=str(tmp_path / "lake" / "a"))
    assert (part.raw, part.initial, part.on_missing) == (True, "7", OnMissing.DIFF)
    assert (part.max_versions, part.max_bytes) == (10, 64_000_000)
    assert (delta_flow.output.table, delta_flow.output.mode) == (TableRef(path="/lake/b"), Mode.APPEND)
    assert (delta_flow.output.on_delete, delta_flow.output.partition_by) == (OnDelete.IGNORE, ("d", "e"))
    assert delta_flow.allow_nondeterministic
    assert (delta_flow.evaluate, delta_flow.drift, delta_flow.tags) == (
        Evaluate.ROWS,
        Drift.FAIL,
        ("daily", "core"),
    )
    assert delta_flow.transform is None
    assert other.inputs[0].table == TableRef("db.`odd.name`")
    assert other.output.key == ("a", "b")
    assert (other.output.track, other.output.surrogate_key) == (("d", "e"), "sk")


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("snapshot", "snapshot"),
        ("earliest", "earliest"),
        ("0", "0"),
        ("2025-01-01", "2025-01-01T00:00:00+00:00"),
        ("2025-01-01 12:00:00.5", "2025-01-01T12:00:00.500000+00:00"),
        ("2025-01-01T12:00:00+02:00", "2025-01-01T10:00:00+00:00"),
        ("2025-01-01T12:00:00Z", "2025-01-01T12:00:00+00:00"),
    ],
)
def test_a_beginning_is_a_word_a_version_or_a_moment_in_utc(tmp_path: Path, written: str, meant: str) -> None:
    [delta_flow] = load(
        tmp_path, flow(f'inputs: {{a: {{table: t, initial: "{written}"}}}}, output: {{table: u, key: k}}')
    )
    assert delta_flow.inputs[0].initial == meant


@pytest.mark.parametrize(
    ("written", "meant"),
    [("1", 1), ("64MB", 64_000_000), ("64 mib", 64 << 20), ("1GiB", 1 << 30), ("3kB", 3000), ("9B", 9)],
)
def test_a_size_has_a_unit_or_is_in_bytes(tmp_path: Path, written: str, meant: int) -> None:
    [delta_flow] = load(
        tmp_path, flow(f"inputs: {{a: {{table: t, max_bytes: {written}}}}}, output: {{table: u, key: k}}")
    )
    assert delta_flow.inputs[0].max_bytes == meant


def test_a_path_on_s3_has_the_settings_of_the_nearest_delta_connection(tmp_path: Path) -> None:
    [delta_flow] = load(
        tmp_path,
        """\
pipeline: x
connections:
  wide: {type: delta, path: s3a://bucket, region: eu-1}
  near: {type: delta, path: s3a://bucket/gold/, endpoint: "http://localhost:9000"}
  other: {type: parquet, path: s3a://bucket/gold/a}
  local: {type: delta, path: lake}
flows:
  f:
    inputs:
      a: {path: s3a://bucket/gold/a}
      b: {path: s3a://bucket/golden/b, snapshot: true}
      c: {path: s3a://elsewhere/c, snapshot: true}
      d: {path: lake/d, snapshot: true}
    transform: m:f
    output: {path: s3a://bucket/gold/f/, key: k}
""",
    )
    names = [part.table.storage.name if part.table.storage else None for part in delta_flow.inputs]
    assert names == ["near", "wide", None, None]
    assert delta_flow.output.table.path == "s3a://bucket/gold/f"
    storage = delta_flow.output.table.storage
    assert storage is not None
    assert (storage.name, storage.endpoint, storage.delta) == ("near", "http://localhost:9000", True)


def test_who_reads_whom_is_found_by_name_path_and_link(tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "lake")
    delta_flows = load(
        tmp_path,
        """\
pipeline: x
spark: {conf: {spark.sql.defaultCatalog: main}}
flows:
  gold: {inputs: {a: SILVER.`A`, b: {path: link/b, snapshot: true}, c: silver.a}, transform: m:f,
         output: {table: gold.g, key: k}}
  silver_a: {inputs: {r: bronze.r}, output: {table: main.silver.a, key: k}}
  silver_b: {inputs: {r: bronze.r, a: {table: silver.a, snapshot: true}}, transform: m:f,
             output: {path: "file:lake/./b", key: k}}
  plain: {inputs: {r: T}, output: {table: u, key: k}}
  from_plain: {inputs: {r: main.default.u}, output: {table: v, key: k}}
""",
    )
    assert {delta_flow.name: delta_flow.upstreams for delta_flow in delta_flows} == {
        "gold": ("silver_a", "silver_b"),
        "silver_a": (),
        "silver_b": ("silver_a",),
        "plain": (),
        "from_plain": ("plain",),
    }


def test_a_view_is_a_flow_without_data_in_the_same_graph(tmp_path: Path) -> None:
    (tmp_path / "v.sql").write_text("SELECT * FROM a")
    (tmp_path / "tidegauge.yml").write_text(
        "pipeline: x\nflows:\n"
        "  w: {kind: view, inputs: {a: g.v}, transform: v.sql, output: {table: g.w}, tags: top}\n"
        "  v: {kind: view, inputs: {a: {path: lake/t}}, transform: v.sql, output: {table: g.v}}\n"
        "  f: {inputs: {a: s}, output: {path: lake/t, key: k}}\n"
    )
    project = load_project(tmp_path / "tidegauge.yml")
    w, v = project.views
    assert [flow.name for flow in project.delta_flows] == ["f"]
    assert (w.upstreams, v.upstreams, w.tags) == (("v",), ("f",), ("top",))
    assert (w.target, v.inputs[0].table) == ("g.w", TableRef(path=str(tmp_path / "lake/t")))
    assert v.transform == Sql("SELECT * FROM a", tmp_path / "v.sql")
    assert v.place == Place(str(tmp_path / "tidegauge.yml"), 4, 3)
    assert project.delta_flows[0].place == Place(str(tmp_path / "tidegauge.yml"), 5, 3)
