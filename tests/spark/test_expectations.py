"""Expectations of flows between Delta tables: what is set aside, what the target becomes, what is refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.project import Ran, here
from tidegauge.model.batch_data import GUARD
from tidegauge.model.delta_flow import CHANGE_TYPE, DeltaFlow, DeltaTable, TableRef
from tidegauge.model.expectation import Action, Expectation, Predicate
from tidegauge.model.mode import Mode
from tidegauge.transform import judge as judging
from tidegauge.transform.checks import RowChecks
from tidegauge.transform.difference import HERE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FEED = "USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true)"


class Shop:
    """A table of orders, and flows that read it."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.sql(f"CREATE TABLE {{orders}} (id BIGINT, g STRING, n BIGINT) {FEED}")
        (folder / "stamped.sql").write_text("SELECT *, timestamp_seconds(1000 + abs(n)) AS at FROM orders")

    def sql(self, text: str) -> list[Any]:
        names = ("orders", "people", "out", "out_quarantine")
        return self.spark.sql(text.format(**{one: f"delta.`{self.folder / one}`" for one in names})).collect()

    def insert(self, *rows: str) -> None:
        self.sql(f"INSERT INTO {{orders}} VALUES {', '.join(rows)}")

    def expect(self, expect: str, output: str = "mode: merge, key: id", more: str = "") -> None:
        (self.folder / "tidegauge.yml").write_text(
            "pipeline: shop\nledger: sqlite:///ledger.db\n"
            "flows:\n  f:\n    inputs: {orders: {path: orders}}\n"
            f"    expect: {expect}\n    output: {{path: out, {output}}}\n{more}"
        )

    def run(self, code: int = 0) -> Ran:
        ran = here("run", "--json", "--project", self.folder)
        assert ran.code == code, ran.said
        return ran

    def target(self, columns: str = "id") -> list[Any]:
        return [row[0] for row in self.sql(f"SELECT {columns} FROM {{out}} ORDER BY 1")]

    def aside(self) -> list[tuple[int, list[str], int]]:
        """Of each row set aside its id, the reasons and the batch."""
        found = self.sql("SELECT row, _reasons, _seq FROM {out_quarantine} ORDER BY _seq, row")
        return [(json.loads(one[0])["id"], one[1], one[2]) for one in found]

    def proven(self) -> None:
        ran = here("verify", "--json", "--project", self.folder)
        assert ran.code == 0, ran.said
        assert ran.json["tables"][0]["equal"], ran.said


@pytest.fixture
def shop(spark: SparkSession, tmp_path: Path) -> Shop:
    return Shop(spark, tmp_path)


def test_bad_rows_are_set_aside_counted_and_a_key_that_turns_bad_leaves_the_target(shop: Shop) -> None:
    shop.insert("(1, 'x', 1)", "(2, 'x', -1)", "(3, 'y', 3)", "(4, 'x', NULL)", "(5, NULL, -7)")
    shop.expect('{"n >= 0": {action: quarantine}, g: {not_null: true, action: warn}, id: not_null}')
    first = shop.run().flow("f")
    assert shop.target() == [1, 3, 4]  # NULL passes a predicate, as in SQL's CHECK
    assert shop.aside() == [(2, ["n >= 0"], 1), (5, ["n >= 0", "g: not_null"], 1)]
    assert first["rows_quarantined"] == 2
    assert first["expectations"] == {
        "checked": 5,
        "quarantined": 2,
        "dropped": 0,
        "checks": [
            {"check": "n >= 0", "action": "quarantine", "failed": 2},
            {"check": "g: not_null", "action": "warn", "failed": 1},
            {"check": "id: not_null", "action": "fail", "failed": 0},
        ],
    }
    shop.proven()
    shop.sql("UPDATE {orders} SET n = -n WHERE id IN (2, 3)")
    shop.run()
    assert shop.target() == [1, 2, 4]
    assert shop.aside()[2:] == [(3, ["n >= 0"], 2)]
    shop.proven()
    said = here("history", "--project", shop.folder).out
    assert "not_as_expected" in said

    # What is expected changes: the target becomes what it would have been under it.
    shop.expect('{"n >= 1": {action: drop}}')
    shop.insert("(6, 'x', 0)")
    shop.run()
    assert shop.target() == [1, 2, 4]
    assert shop.aside() == []
    shop.proven()


def test_a_batch_that_fails_writes_nothing_and_says_which_row(shop: Shop) -> None:
    shop.insert("(1, 'x', 1)", "(2, 'x', -1)")
    shop.expect('{"n >= 0": fail, g: {accepted: [x], action: quarantine}}')
    failed = shop.run(1).flow("f")
    assert failed["error"]["type"] == "ExpectationFailed"
    assert (
        '1 of 2 rows is not as expected, `n >= 0`, such as {"id":2,"g":"x","n":-1}'
        in failed["error"]["message"]
    )
    assert f"{shop.folder}/tidegauge.yml:6:" in json.dumps(failed["error"])
    assert not (shop.folder / "out_quarantine").exists()
    assert shop.target() == []

    shop.expect('{"n >= 0": {action: quarantine, max_fraction: 0.4}}')
    assert "more than `max_fraction: 0.4` allows" in shop.run(1).flow("f")["error"]["message"]
    assert not (shop.folder / "out_quarantine").exists()
    shop.expect('{"n >= 0": {action: quarantine, max_fraction: 0.5}}')
    shop.run()
    assert (shop.target(), shop.aside()) == ([1], [(2, ["n >= 0"], 1)])


@pytest.fixture
def ways(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """How batches are checked, as it happens: under a guard, or by a look at all rows."""
    seen: list[str] = []

    def note(way: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def noting(*given: Any, **named: Any) -> Any:
            seen.append(way)
            return real(*given, **named)

        return noting

    monkeypatch.setattr(RowChecks, "guard", note("guard", RowChecks.guard))
    monkeypatch.setattr(judging, "judge", note("look", judging.judge))
    return seen


def test_rows_that_all_pass_are_written_in_one_pass_and_one_that_does_not_brings_the_careful_way(
    shop: Shop, ways: list[str]
) -> None:
    expect = '{"n >= 0": quarantine, g: {not_null: true, action: warn}}'
    shop.expect(expect, "mode: append")

    def passed(checked: int) -> dict[str, Any]:
        checks = [("n >= 0", "quarantine"), ("g: not_null", "warn")]
        counts = [{"check": name, "action": action, "failed": 0} for name, action in checks]
        return {"checked": checked, "quarantined": 0, "dropped": 0, "checks": counts}

    shop.insert("(1, 'x', 1)", "(2, 'x', NULL)")
    assert shop.run().flow("f")["expectations"] == passed(2)
    assert ways == ["guard"]
    assert not (shop.folder / "out_quarantine").exists()

    shop.sql("INSERT INTO {orders} SELECT id, 'x', if(id = 777, -1, id) FROM range(100, 1100)")
    ways.clear()
    done = shop.run().flow("f")
    assert ways == ["guard", "look"]
    assert (done["rows_written"], done["rows_quarantined"], done["expectations"]["checked"]) == (999, 1, 1000)
    assert shop.aside() == [(777, ["n >= 0"], 2)]
    assert len(shop.target()) == 1001

    # After a batch with such rows the next one is not tried under the guard; after one without, it is again.
    shop.insert("(3, 'x', 3)")
    ways.clear()
    assert shop.run().flow("f")["expectations"] == passed(1)
    assert ways == ["look"]

    # What goes wrong inside the transform is no row that is not as expected.
    (shop.folder / "raising.sql").write_text(
        "SELECT id, g, CASE WHEN n = 4 THEN raise_error('tidegauge-unexpected') ELSE n END AS n FROM orders"
    )
    shop.expect(expect, "mode: append", "    transform: raising.sql\n")
    shop.insert("(4, 'x', 4)")
    ways.clear()
    failed = shop.run(1).flow("f")["error"]
    assert failed["type"] == "TransformFailed", failed
    assert ways == ["guard"]
    assert len(shop.target()) == 1002


def test_the_guard_sees_the_rows_that_are_written_and_no_others(spark: SparkSession) -> None:
    expected = Expectation("n >= 0", Predicate("n >= 0"), Action.QUARANTINE)
    output = DeltaTable(TableRef(path="out"), Mode.APPEND)
    checks = RowChecks(DeltaFlow("p", "f", (), output, expect=(expected,)), lambda _: spark.range(0))

    def guarded(sql: str) -> DataFrame:
        return checks.guard(spark.sql(sql), GUARD)

    def ids(frame: DataFrame) -> list[int]:
        return sorted(row[0] for row in frame.select("id").collect())

    rows = "SELECT * FROM VALUES (1, 1), (2, -2), (3, NULL) AS r (id, n)"
    # Neither below a join or a filter that leaves the row out, nor below one of ours that comes later.
    assert ids(guarded(f"SELECT r.* FROM ({rows}) r JOIN VALUES (1), (3) AS k (id) ON r.id = k.id")) == [1, 3]
    assert ids(guarded(f"SELECT * FROM ({rows}) WHERE id <> 2")) == [1, 3]
    assert ids(guarded(f"SELECT id, max(n) AS n FROM ({rows}) GROUP BY id HAVING max(id) <> 2")) == [1, 3]
    assert ids(guarded(f"SELECT *, id <> 2 AS {HERE} FROM ({rows})")) == [1, 3]
    assert ids(guarded(f"SELECT *, if(id = 2, 'delete', 'insert') AS {CHANGE_TYPE} FROM ({rows})")) == [
        1,
        2,
        3,
    ]
    for wrong in (guarded(rows), guarded(rows).where("id <> 2"), guarded(rows).groupBy().count()):
        with pytest.raises(Exception, match=GUARD):
            wrong.collect()


WRONG = {
    "{nn: not_null}": "`nn: not_null` is expected, and the rows have no column nn",
    '{"nn > 1": warn}': "`nn > 1` is expected, and the rows have no column nn",
    '{"array_max(n) > 1": warn}': "`array_max(n) > 1` cannot be checked",
    "{n: {range: {min: low}}}": "'low' is not a valid bigint",
    "{g: {matches: '('}}": "'(' is no regular expression",
    '{"n + 1": warn}': "gives bigint, and a predicate is true or false",
    "{row_count: {min: 3}}": "the batch has 2 rows, and at least 3 are expected",
    "{fresh: {column: at, within: 24h}}": "the newest at of the batch is older than 1 day",
    "{g: unique}": "2 rows are not as expected, `g: unique`",
    "{foreign_key: {columns: id, path: people, to: key}}": "1 of 2 rows is not as expected, `foreign_key",
    "{n: {range: {min: 1, max: 1}}, g: {matches: 'x+'}}": "1 of 2 rows is not as expected, `n: range`",
}


@pytest.mark.long
def test_what_cannot_be_or_is_not_as_expected_is_refused_with_its_place(shop: Shop) -> None:
    shop.sql("ALTER TABLE {orders} ADD COLUMNS (at TIMESTAMP)")
    shop.insert("(1, 'x', 1, '2020-01-01')", "(2, 'x', 2, '2020-01-01')")
    shop.sql(f"CREATE TABLE {{people}} (key INT) {FEED}")
    shop.sql("INSERT INTO {people} VALUES (1)")
    for expect, said in WRONG.items():
        shop.expect(expect)
        shutil.rmtree(shop.folder / "out", ignore_errors=True)
        (shop.folder / "ledger.db").unlink(missing_ok=True)
        failed = shop.run(1).flow("f")
        assert said in failed["error"]["message"], failed
        assert "tidegauge.yml:6:" in json.dumps(failed["error"]), failed
        assert not (shop.folder / "out").exists() or shop.target() == []


MODES = {
    "append": "mode: append",
    "scd2": "mode: scd2, key: id, sequence_by: at",
    "partitions": "mode: replace_partitions, partition_by: g",
    "whole": "mode: overwrite",
}


@pytest.mark.long
def test_every_mode_leaves_out_what_is_set_aside_and_verify_agrees(shop: Shop) -> None:
    shop.insert("(1, 'x', 1)", "(2, 'x', -1)", "(3, 'y', 3)")
    shop.sql(f"CREATE TABLE {{people}} (key INT) {FEED}")
    shop.sql("INSERT INTO {people} VALUES (1), (2), (3), (5)")
    expect = (
        '{"n >= 0": quarantine, id: {not_null: true, action: drop},'
        " foreign_key: {columns: id, path: people, to: key, action: quarantine}}"
    )
    inputs = "inputs: {orders: {path: orders}}, transform: stamped.sql"
    flows = "".join(
        f"  {name}: {{{inputs}, expect: {expect}, output: {{path: {name}, {mode}}}}}\n"
        for name, mode in MODES.items()
    )
    (shop.folder / "tidegauge.yml").write_text(f"pipeline: p\nledger: sqlite:///ledger.db\nflows:\n{flows}")
    shop.run()
    shop.sql("UPDATE {orders} SET n = 9 WHERE id = 2")
    shop.insert("(4, 'z', 4)", "(5, 'x', 5)", "(NULL, 'x', 5)")
    # One that is good turns bad; for append that is one more row, which is not added.
    shop.sql("UPDATE {orders} SET n = -3 WHERE id = 3")
    ran = shop.run()

    def rows(table: str, columns: str, where: str = "true") -> list[Any]:
        path = shop.folder / table
        found = shop.spark.sql(f"SELECT {columns} FROM delta.`{path}` WHERE {where} ORDER BY ALL").collect()
        return [row[0] if len(row) == 1 else tuple(row) for row in found]

    assert rows("append", "id, n") == [(1, 1), (2, 9), (3, 3), (5, 5)]
    assert rows("scd2", "id, n", "is_current") == [(1, 1), (2, 9), (5, 5)]
    assert rows("scd2", "id, n", "NOT is_current") == [(3, 3)]
    assert rows("partitions", "id") == rows("whole", "id") == [1, 2, 5]
    for name in MODES:
        bad = {json.loads(text)["id"] for text in rows(f"{name}_quarantine", "row")}
        assert bad == ({2, 3, 4} if name in ("append", "scd2") else {3, 4} | bad & {2}), name
        assert ran.flow(name)["expectations"]["dropped"] == 1, name
    proof = here("verify", "--json", "--project", shop.folder)
    assert proof.code == 0, proof.said
    assert all(one["equal"] for one in proof.json["tables"]), proof.said


@pytest.mark.parametrize(
    "modes", [("merge", "append"), pytest.param(("scd2", "append"), marks=pytest.mark.long)]
)
def test_rows_set_aside_are_listed_taken_up_again_and_discarded_with_a_reason(
    shop: Shop, modes: tuple[str, str]
) -> None:
    shop.insert("(1, 'x', 1)", "(2, 'x', -1)", "(3, 'y', -30)")
    project = ("--json", "--project", shop.folder)
    why = ("--reason", "the limit was wrong", "--yes")

    def declare(limit: int) -> None:
        flows = "".join(
            f"  {name}: {{inputs: {{orders: {{path: orders}}}}, transform: stamped.sql,"
            f" expect: {{'n > {limit}': quarantine}},"
            f" output: {{path: {name}, {mode}}}}}\n"
            for name, mode in {"merge": "mode: merge, key: id", **MODES}.items()
            if name in modes
        )
        (shop.folder / "tidegauge.yml").write_text(
            f"pipeline: p\nledger: sqlite:///ledger.db\nflows:\n{flows}"
        )

    def listed() -> dict[str, int]:
        ran = here("quarantine", "list", "--rows", 1, *project)
        assert ran.code == 0, ran.said
        return {one["flow"]: one["rows"] for one in ran.json["flows"]}

    def ids(table: str) -> list[int]:
        found = shop.spark.sql(f"SELECT id FROM delta.`{shop.folder / table}` ORDER BY 1").collect()
        return [row[0] for row in found]

    declare(0)
    shop.run()
    assert listed() == dict.fromkeys(modes, 2)
    declare(-10)
    refused = here("quarantine", "replay", *project)
    assert refused.code == 2
    done = here("quarantine", "replay", *why, *project)
    assert done.code == 0, done.said
    assert listed() == dict.fromkeys(modes, 1)
    assert [ids(mode) for mode in modes] == [[1, 2], [1, 2]]
    gone = here("quarantine", "discard", "--select", "append", *why, *project)
    assert (gone.code, listed()) == (0, {modes[0]: 1}), gone.said
    again = shop.run()
    assert {one["state"] for one in again.json["flows"]} == {"SKIPPED"}, again.said
    told = here("history", "--json", "--project", shop.folder).json["events"]
    reasons = {one["event"]: one["reason"] for one in told if one["event"].startswith("quarantine_")}
    assert set(reasons) == {"quarantine_replayed", "quarantine_discarded"}
    assert all("the limit was wrong" in reason for reason in reasons.values())
