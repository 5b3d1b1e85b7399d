"""`doctor` says beforehand what `plan` would refuse, of every kind of flow, and changes nothing."""

from __future__ import annotations

from pathlib import Path

import deltalake
import pyarrow as pa

from tests.support.project import Project, duckdb_database, local, sqlite_database


def found(project: Project) -> dict[str, tuple[bool, str, str | None]]:
    ran = project.here("doctor", "--json")
    listed = {one["about"]: (one["ok"], one["says"], one["fix"]) for one in ran.json["findings"]}
    assert ran.code == int(not all(ok for ok, *_ in listed.values())), ran.said
    return listed


def test_a_target_that_plan_would_refuse_is_named_with_the_fix(tmp_path: Path) -> None:
    source, target = sqlite_database(tmp_path / "source.db"), duckdb_database(tmp_path / "target.duckdb")
    for table in ("a", "b"):
        source.execute(f"CREATE TABLE {table} (id INTEGER PRIMARY KEY, word TEXT)")
        source.insert(table, [(1, "one")])
    project = local(tmp_path, source).write(
        'tables: ["*"], cursor: id, key: id',
        route="to: warehouse",
        connections=f"  warehouse: {target.connection}\n",
    )
    assert not any(about.startswith("flow ") for about in found(project))
    target.execute("CREATE TABLE b (id INTEGER, word TEXT)", "INSERT INTO b VALUES (7, 'theirs')")
    ok, says, fix = found(project)["flow b"]
    assert not ok
    assert "the ledger knows nothing of them" in says
    assert fix is not None
    assert "watermark reset" in fix
    assert target.rows("SELECT id FROM b") == [(7,)]
    assert not target.rows("SELECT 1 FROM duckdb_tables() WHERE table_name LIKE 'tidegauge%'")


def test_what_is_wrong_with_a_source_is_said_once(tmp_path: Path) -> None:
    source = sqlite_database(tmp_path / "source.db")
    source.execute("CREATE TABLE a (id INTEGER PRIMARY KEY, word TEXT)")
    project = local(tmp_path, source).write("tables: [a], cursor: changed_at, key: id")
    wrong = [says for ok, says, _ in found(project).values() if not ok]
    assert len(wrong) == len(set(wrong)) == 1
    assert "changed_at" in wrong[0]


def test_a_flow_between_delta_tables_is_looked_at_with_its_tables(tmp_path: Path) -> None:
    (tmp_path / "tidegauge.yml").write_text(
        "pipeline: test\nledger: 'sqlite:///ledger.db'\nflows:\n  silver:\n"
        "    inputs: {orders: {path: bronze}}\n"
        "    output: {path: silver, mode: merge, key: id}\n"
    )
    project = Project(tmp_path, sqlite_database(tmp_path / "none.db"), local(tmp_path, None).lake)  # type: ignore[arg-type]
    ok, says, _ = found(project)["flow silver"]
    assert not ok
    assert "bronze" in says
    deltalake.write_deltalake(str(tmp_path / "bronze"), pa.table({"id": [1, 2]}))
    ok, says, _ = found(project)["flow silver"]
    assert ok, says
