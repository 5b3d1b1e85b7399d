"""The graph of flows, as people see it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.project import here, refused
from tidegauge.cli.draw_graph import draw_mermaid, draw_tree
from tidegauge.flows.selection.graph import GraphNode, make_graph
from tidegauge.model.delta_flow import DataFlow, DeltaFlow, DeltaInput, DeltaTable, TableRef
from tidegauge.model.spec import (
    Database,
    Engine,
    Lake,
    LakeTable,
    Stage,
    TableFlow,
    TableName,
    TableOptions,
    WarehouseTable,
)

LAYERS = Path(__file__).parents[2] / "examples" / "003_layers"


def between(name: str, reads: list[str], above: tuple[str, ...] = (), path: str | None = None) -> DeltaFlow:
    inputs = tuple(DeltaInput(f"i{number}", TableRef(name=table)) for number, table in enumerate(reads))
    output = TableRef(path=path) if path else TableRef(name=f"lake.{name}")
    return DeltaFlow("p", name, inputs, DeltaTable(output, key=("id",)), upstreams=above)


def staged(table: str) -> list[DataFlow]:
    app, dw = Database("app", Engine.SQLITE), Database("dw", Engine.DUCKDB)
    named, options = TableName(None, table), TableOptions(cursor="at")
    folder = LakeTable(Lake("raw", "/home/me/project/raw"), table)
    return [
        TableFlow("p", f"{table}/extract", app, named, folder, options, (), Stage.EXTRACT),
        TableFlow(
            "p", f"{table}/load", app, named, WarehouseTable(dw, TableName("main", table)), options, (),
            Stage.LOAD, folder, f"{table}/extract",
        ),
    ]  # fmt: skip


def drawn(flows: list[DataFlow], width: int = 100) -> str:
    return "\n".join(draw_tree(make_graph(flows, {}), root="/home/me/project", width=width))


def test_a_tree_grows_to_the_right_layer_by_layer_and_names_what_else_is_read() -> None:
    flows: list[DataFlow] = [
        between("gold", ["lake.silver_a", "LAKE.silver_b", "ref.days"], ("silver_a", "silver_b")),
        between("silver_a", ["bronze.a"]),
        between("silver_b", ["lake.silver_a", "bronze.b"], ("silver_a",), path=None),
        between("other", ["bronze.a"], path="/home/me/project/lake/other"),
        *staged("orders"),
    ]
    assert drawn(flows) == (
        "app: orders\n"
        "└─ orders/extract ─▶ raw/orders        READY\n"
        "   └─ orders/load ─▶ dw: main.orders   READY\n"
        "bronze.a\n"
        "├─ silver_a ─▶ lake.silver_a           READY\n"
        "│  └─ silver_b ─▶ lake.silver_b        READY\n"
        "│     │  with bronze.b\n"
        "│     └─ gold ─▶ lake.gold             READY\n"
        "│           with silver_a, ref.days\n"
        "└─ other ─▶ lake/other                 READY"
    )


def test_what_is_left_out_of_the_selection_is_a_table_that_is_read() -> None:
    assert drawn([between("gold", ["lake.silver"], ("silver",))]).startswith("lake.silver\n└─ gold")
    assert drawn(staged("orders")[1:]).startswith("raw/orders\n└─ orders/load")


def test_thirty_flows_fit_a_hundred_columns_each_once() -> None:
    flows: list[DataFlow] = [between(f"bronze_{n}", [f"system.table_{n}"]) for n in range(10)]
    flows += [
        between(
            f"silver_{n}", [f"lake.bronze_{m}" for m in range(10)], tuple(f"bronze_{m}" for m in range(10))
        )
        for n in range(10)
    ]
    flows += [
        between(
            f"gold_{n}", [f"lake.silver_{n}"], (f"silver_{n}",), path=f"/elsewhere/{'very_' * 20}long/{n}"
        )
        for n in range(10)
    ]
    lines = drawn(flows).splitlines()
    assert max(map(len, lines)) <= 100
    for flow in flows:
        assert sum(f" {flow.name} ─▶" in line and line.endswith("READY") for line in lines) == 1
    assert any("─▶ …" in line and line.rstrip(" READY").endswith("long/9") for line in lines)


def test_mermaid_has_every_table_and_flow_once_and_escapes_what_is_its_own() -> None:
    nodes = [
        GraphNode("a", 'x"<y>', (), ("src",), "READY"),
        GraphNode("b", "z", ("a",), ("src",), "FAILED, 1 batch left"),
    ]
    assert draw_mermaid(nodes, root="/r") == [
        "flowchart LR",
        '  f1["a<br/>READY"]',
        '  t1[("src")]',
        "  t1 --> f1",
        '  t2[("x#quot;#lt;y#gt;")]',
        "  f1 --> t2",
        '  f2["b<br/>FAILED, 1 batch left"]',
        "  t2 --> f2",
        "  t1 --> f2",
        '  t3[("z")]',
        "  f2 --> t3",
    ]


@pytest.fixture
def layers(tmp_path: Path) -> Path:
    """The example, without its module, which imports PySpark itself."""
    for file in ("tidegauge.yml", "silver/clusters.sql", "silver/usage.sql", "gold/daily_usage.sql"):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text((LAYERS / file).read_text().replace("modules:", "# modules:"))
    return tmp_path


def test_the_command_draws_without_spark_and_writes_nothing(layers: Path) -> None:
    # As if there were none: whoever asks for it fails.
    program = "import sys; sys.modules['pyspark'] = None; from tidegauge.cli.main import main; main()"
    ran = subprocess.run(
        [sys.executable, "-c", program, "plan", "--graph", "--project", str(layers)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert "   └─ gold_daily_usage ─▶ lake/gold/daily_usage   READY" in ran.stdout
    assert not (layers / ".tidegauge").exists()


def test_the_command_draws_what_is_selected_in_one_form(layers: Path) -> None:
    drawn = here("plan", "--project", layers, "--mermaid", "--select", "+gold_daily_usage")
    assert drawn.code == 0
    assert '[("lake/silver/usage")]' in drawn.out
    assert "clusters" not in drawn.out
    refused(here("plan", "--project", layers, "--graph", "--json"), "exclude each other", code=2)
    wrong = here("plan", "--project", layers, "--graph", "--select", "gold_dayly_usage")
    refused(wrong, "did you mean gold_daily_usage", code=2)
