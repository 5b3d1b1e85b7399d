"""The keys of a sync at work: from each database into a folder and into a bucket."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from tests.integration.conftest import Make
from tests.support.lake import latest, manifests, rows
from tests.support.project import Project

ENGINES = ["sqlite", "mysql", "postgresql"]
EVERYWHERE = [("sqlite", "local"), ("sqlite", "s3"), ("mysql", "s3"), ("postgresql", "s3")]


def ran(project: Project, *words: str) -> dict[str, dict[str, Any]]:
    """A run that must go well: the last report of each flow, by its table."""
    done = project.here("run", "--json", *words)
    assert done.code == 0, done.said
    return {flow["flow"].removeprefix(project.database.home): flow for flow in done.json["flows"]}


def yaml(value: object) -> str:
    """JSON is YAML as long as nothing is escaped that need not be; and `$` in a value is written `$$`."""

    def escaped(part: object) -> object:
        match part:
            case str():
                return part.replace("$", "$$")
            case list():
                return [escaped(one) for one in part]
            case dict():
                return {key: escaped(one) for key, one in part.items()}
            case _:
                return part

    return json.dumps(escaped(value), ensure_ascii=False)


def ids(project: Project, table: str) -> list[int]:
    return sorted(row["id"] for row in rows(project.lake, project.name(table)))


@pytest.mark.shown_on("mysql")
@pytest.mark.parametrize(
    ("engine", "output"),
    [
        one if one in (("sqlite", "local"), ("mysql", "s3")) else pytest.param(*one, marks=pytest.mark.long)
        for one in EVERYWHERE
    ],
)
def test_a_hundred_tables_are_declared_in_ten_lines(make: Make, engine: str, output: str) -> None:
    """Patterns, exclusions, overrides, rename, an expression as cursor, a key of two columns."""
    project = make(engine, output)
    database = project.database
    moment, word = database.moment, database.word
    database.execute(
        f"CREATE TABLE orders (id INTEGER PRIMARY KEY, note {word}, update_at {moment} NOT NULL)",
        f"CREATE TABLE partner_info (partner_id INTEGER NOT NULL, region {word} NOT NULL,"
        f" modified_at {moment} NOT NULL)",
        f"CREATE TABLE claims (id INTEGER PRIMARY KEY, modified_at {moment}, created_at {moment} NOT NULL)",
        "CREATE TABLE tmp_orders (id INTEGER PRIMARY KEY)",
    )
    database.insert("orders", [(n, "it's “ünïcode” 🎁", "2025-01-01 00:00:00") for n in range(25)])
    database.insert("partner_info", [(n // 2, "NS"[n % 2], "2025-02-02 00:00:00") for n in range(20)])
    database.insert(
        "claims", [(1, None, "2025-01-01 00:00:00"), (2, "2025-03-01 00:00:00", "2025-01-01 00:00:00")]
    )
    home = database.home
    override = {
        f"{home}partner_info": {
            "cursor": "modified_at",
            "key": ["partner_id", "region"],
            "rename": "partners",
        },
        f"{home}claims": {"cursor": "coalesce(modified_at, created_at)"},
    }
    project.write(
        f"tables: ['{home}*'], exclude: ['{home}tmp_*'], cursor: update_at, settle: 1s, batch_rows: 15,"
        f" override: {yaml(override)}"
    )
    first = ran(project)
    assert {name: flow["rows_written"] for name, flow in first.items()} == {
        "orders": 25,
        "partner_info": 20,
        "claims": 2,
    }
    assert ids(project, "orders") == list(range(25))
    assert {row["note"] for row in rows(project.lake, project.name("orders"))} == {"it's “ünïcode” 🎁"}
    partners = latest(project.lake, "partners", "partner_id", "region")
    assert set(partners) == {(n // 2, "NS"[n % 2]) for n in range(20)}
    manifest = manifests(project.lake, "partners")[0]
    assert set(manifest) >= {"files", "rows", "windows", "schema", "run_id"}
    assert project.lake.names("partner_info") == []

    database.execute(
        f"UPDATE claims SET modified_at = {database.ago(0)} WHERE id = 1",
        f"UPDATE orders SET note = 'new', update_at = {database.ago(0)} WHERE id = 3",
    )
    time.sleep(2.5)
    second = ran(project)
    assert {name: (flow["state"], flow["rows_written"]) for name, flow in second.items()} == {
        "orders": ("SUCCESS", 1),
        "partner_info": ("SKIPPED", 0),
        "claims": ("SUCCESS", 1),
    }
    assert latest(project.lake, project.name("orders"), "id")[(3,)]["note"] == "new"
    proof = project.here("verify", "--json")
    assert proof.code == 0, proof.said


@pytest.mark.parametrize("engine", ENGINES)
def test_a10_rows_without_a_cursor_fail_are_read_each_time_or_only_counted(make: Make, engine: str) -> None:
    project = make(engine)
    project.database.execute(f"CREATE TABLE t (id INTEGER PRIMARY KEY, at {project.database.moment})")
    project.database.insert("t", [(1, "2025-01-01 00:00:00"), (2, None), (3, None)])
    failed = project.write("tables: [t], cursor: at, settle: 1s").here("run", "--json")
    assert failed.code == 1
    assert failed.json["flows"][0]["error"]["type"] == "CursorUnsuitable"

    project.write("tables: [t], cursor: at, settle: 1s, null_cursor: exclude")
    assert (ran(project)["t"]["rows_written"], ids(project, "t")) == (1, [1])
    assert ran(project)["t"]["rows_null_cursor"] == 2

    project.write("tables: [t], cursor: at, settle: 1s, null_cursor: include")
    for _ in range(2):
        assert ran(project)["t"]["rows_written"] == 2
    assert ids(project, "t") == [1, 2, 2, 3, 3]
    assert project.here("verify").code == 0


@pytest.mark.parametrize("engine", ENGINES)
def test_initial_cuts_off_the_past_and_lookback_fetches_late_rows(make: Make, engine: str) -> None:
    project = make(engine)
    database = project.database
    database.execute(f"CREATE TABLE t (id INTEGER PRIMARY KEY, at {database.moment} NOT NULL)")
    database.insert("t", [(1, "2024-12-31 23:59:59"), (2, "2025-01-01 00:00:00"), (3, "2025-01-02 00:00:00")])
    project.write("tables: [t], cursor: at, settle: 1s, initial: '2025-01-01 00:00:00', lookback: 1h")
    assert ran(project)["t"]["rows_written"] == 2
    assert ids(project, "t") == [2, 3]
    # Stamped ten minutes below what was looked at already, as a branch office's clock would have it.
    database.execute(f"INSERT INTO t VALUES (4, {database.ago(600)})")
    ran(project)
    assert 4 in ids(project, "t")


@pytest.mark.parametrize("engine", ENGINES)
def test_a9_rows_from_the_future_wait_and_are_reported(make: Make, engine: str) -> None:
    project = make(engine)
    database = project.database
    database.execute(f"CREATE TABLE t (id INTEGER PRIMARY KEY, at {database.moment} NOT NULL)")
    database.insert("t", [(1, "2025-01-01 00:00:00"), (2, "2099-01-01 00:00:00")])
    project.write("tables: [t], cursor: at, settle: 1s")
    flow = ran(project)["t"]
    assert (flow["rows_written"], flow["rows_waiting"]) == (1, 1)
    assert ran(project)["t"]["rows_waiting"] == 1, "it waits as long as it waits, also when nothing is new"
    database.execute(f"INSERT INTO t VALUES (3, {database.ago(0)})")
    time.sleep(2.5)
    assert ran(project)["t"]["rows_waiting"] == 1
    assert ids(project, "t") == [1, 3]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_number_that_counts_up_is_a_cursor_too(make: Make, engine: str) -> None:
    project = make(engine)
    database = project.database
    kind = {
        "sqlite": "INTEGER PRIMARY KEY AUTOINCREMENT",
        "mysql": "BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY",
        "postgresql": "bigserial PRIMARY KEY",
    }[engine]
    database.execute(f"CREATE TABLE t (id {kind}, word {database.word})")
    insert = "INSERT INTO t (word) VALUES ('a'), ('b'), ('c')"
    database.execute(insert)
    project.write("tables: [t], cursor: id, settle: 1s, batch_rows: 2, parallel: 1")
    [window] = ran(project)["t"]["windows"]
    assert (window["cursor"], window["upto"]) == ("value", {"cursor": "3", "key": ["3"]})
    assert ran(project)["t"]["state"] == "SKIPPED"
    database.execute(insert)
    time.sleep(0.1)
    assert ran(project)["t"]["rows_written"] == 3
    assert ids(project, "t") == [1, 2, 3, 4, 5, 6]


HOSTILE = [
    'quote " inside',
    "back`tick",
    "it's; DROP TABLE victim; --",
    "100% %s %(name)s {table} ${x}",
    "../../outside",
    "/etc/passwd",
    "日本語 ünïcode 🎁 name",
    "dot.ted.name",
    "back\\slash",
    "a[b]*?c",
]


@pytest.mark.shown_on("mysql")
@pytest.mark.parametrize("engine", ENGINES)
def test_e1_e4_names_with_every_kind_of_mark_work_from_end_to_end(make: Make, engine: str) -> None:
    project = make(engine)
    database = project.database
    # MySQL holds names of three bytes a letter at the most.
    names = [name.replace(" 🎁", "") if engine == "mysql" else name for name in HOSTILE]
    database.execute("CREATE TABLE victim (id INTEGER PRIMARY KEY)")
    for name in names:
        quote = database.quote
        database.execute(
            f"CREATE TABLE {quote(name)} ({quote('key ' + name)} INTEGER PRIMARY KEY,"
            f" {quote(name)} {database.word}, {quote('at ' + name)} {database.moment} NOT NULL)",
        )
        database.insert(quote(name), [(n, f"{n}", "2025-01-01 00:00:00") for n in range(5)])
    override = {name: {"cursor": f"at {name}", "key": f"key {name}"} for name in names}
    project.write(f"tables: {yaml(names)}, settle: 1s, batch_rows: 3, override: {yaml(override)}")
    flows = ran(project)
    assert {flow["rows_written"] for flow in flows.values()} == {5}
    assert len(flows) == len(names)

    folders = sorted(path for path in (project.folder / "lake").iterdir() if path.is_dir())
    assert len(folders) == len(names), "two tables share a folder, or one left the lake"
    assert not (project.folder.parent / "outside").exists()
    found = {}
    for folder in folders:
        landed = rows(project.lake, folder.name)
        [column] = [name for name in landed[0] if name in names]
        found[column] = sorted(row[column] for row in landed)
        assert set(landed[0]) == {column, f"key {column}", f"at {column}"}
    assert found == {name: ["0", "1", "2", "3", "4"] for name in names}
    assert database.rows("SELECT count(*) FROM victim") == [(0,)]

    proof = project.here("verify", "--json")
    assert proof.code == 0, proof.said
    assert {flow["state"] for flow in ran(project).values()} == {"SKIPPED"}
    chosen = project.here("run", "--json", "--select", database.home + names[0])
    assert [flow["flow"] for flow in chosen.json["flows"]] == [database.home + names[0]], chosen.said


def test_b10_one_table_that_fails_stops_no_other(make: Make) -> None:
    project = make()
    project.database.execute(
        "CREATE TABLE a (id INTEGER PRIMARY KEY, at TEXT)",
        "CREATE TABLE b (id INTEGER PRIMARY KEY, at REAL)",
        "CREATE TABLE c (id INTEGER PRIMARY KEY, at TEXT)",
    )
    for table in "abc":
        project.database.insert(table, [(1, "2025-01-01 00:00:00")])
    project.write("tables: ['*'], cursor: at, settle: 1s")
    done = project.here("run", "--json")
    assert (done.code, done.json["state"]) == (1, "FAILED")
    assert {flow["flow"]: flow["state"] for flow in done.json["flows"]} == {
        "a": "SUCCESS",
        "b": "FAILED",
        "c": "SUCCESS",
    }


def test_b11_a_failed_plan_is_retried_with_its_own_windows(make: Make) -> None:
    """What came after the failure is the next plan's, not the retried one's."""
    project = make("postgresql")
    database = project.database
    database.execute(
        "CREATE TABLE t (id int PRIMARY KEY, at timestamp NOT NULL, value timestamp NOT NULL)",
        "INSERT INTO t SELECT n, '2025-01-01', '2025-01-01' FROM generate_series(1, 9) n",
        # Out of every reader's reach: the batch fails, and the plan stays.
        "UPDATE t SET value = 'infinity' WHERE id = 5",
    )
    project.write("tables: [t], cursor: at, settle: 1s, batch_rows: 3, parallel: 1")
    failed = project.here("run", "--json")
    assert failed.code == 1, failed.said
    report = failed.flow("public.t")
    assert (report["state"], report["error"]["type"], report["rows_written"]) == ("FAILED", "TypeNotHeld", 3)
    assert project.here("status", "--json").json["flows"][0]["state"] == "FAILED"

    database.execute(f"INSERT INTO t VALUES (10, {database.ago(0)}, '2025-01-01')")
    database.execute("UPDATE t SET value = '2025-01-01' WHERE id = 5")
    time.sleep(1.5)
    mended = project.here("run", "--json")
    assert mended.code == 0, mended.said
    retried, fresh = mended.json["flows"]
    assert (retried["resumed"], retried["windows"], retried["rows_written"]) == (True, report["windows"], 6)
    assert (fresh["resumed"], fresh["rows_written"]) == (False, 1)
    assert ids(project, "t") == list(range(1, 11))
