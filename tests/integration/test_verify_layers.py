"""`verify` of flows between Delta tables: each target against the transform over whole inputs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.test_layers import FEED, Lakehouse
from tests.support.project import refused

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(600)

FIELDS = {"table", "equal", "source_rows", "target_rows", "missing", "extra", "different", "newer"}


@pytest.fixture
def lakehouse(spark: SparkSession, tmp_path: Path) -> Lakehouse:
    return Lakehouse(spark, tmp_path)


def verified(house: Lakehouse, *words: str, code: int = 0) -> dict[str, dict[str, Any]]:
    ran = house.type("verify", "--json", *words)
    assert ran.code == code, ran.said
    tables = ran.json["tables"]
    assert all(set(one) >= FIELDS for one in tables)
    return {one["table"]: one for one in tables}


def counts(one: dict[str, Any]) -> tuple[int, int, int, int, int]:
    found = tuple(one[name] for name in ("source_rows", "target_rows", "missing", "extra", "different"))
    assert len(found) == 5
    return found


def keys(one: dict[str, Any]) -> set[tuple[str, str]]:
    return {(example["kind"], example["key"]) for example in one["examples"]}


FLOWS = """
  merged: {inputs: {o: {path: o}, c: {path: c}}, transform: merged.sql, output: {path: merged, key: id}}
  parts: {inputs: {o: {path: o}}, output: {path: parts, mode: replace_partitions, partition_by: cid}}
  all: {inputs: {o: {path: o}}, output: {path: all, mode: overwrite}}
  log: {inputs: {o: {path: o}}, output: {path: log, mode: append, on_delete: ignore}}
  past: {inputs: {o: {path: o}}, output: {path: past, mode: scd2, key: id, sequence_by: at}}
"""
NAMES = {"merged", "parts", "all", "log", "past"}


def every_mode(house: Lakehouse) -> None:
    """Every mode over the same orders, run twice, with an update, a delete and a new row in between."""
    house.sql(f"CREATE TABLE @o (id INT, cid INT, amount DOUBLE, at TIMESTAMP) {FEED}")
    house.sql(f"CREATE TABLE @c (cid INT, name STRING) {FEED}")
    house.sql("INSERT INTO @c VALUES (1, 'Ada'), (2, 'Bo')")
    house.sql(
        "INSERT INTO @o SELECT id, id % 2 + 1, CAST(id AS DOUBLE), TIMESTAMP'2025-01-01' FROM range(1, 7)"
    )
    house.write(
        FLOWS,
        merged="SELECT o.id, o.amount, c.name FROM o LEFT JOIN c ON c.cid = o.cid WHERE o.amount > 1",
    )
    house.run()
    house.sql("UPDATE @o SET amount = 30, at = TIMESTAMP'2025-01-02' WHERE id = 3")
    house.sql("DELETE FROM @o WHERE id = 4")
    house.sql("INSERT INTO @o VALUES (9, 1, 9, TIMESTAMP'2025-01-03')")
    house.run()


@pytest.mark.long
def test_f1_every_mode_is_compared_with_its_transform_over_whole_inputs(lakehouse: Lakehouse) -> None:
    house = lakehouse
    every_mode(house)
    good = verified(house)
    assert set(good) == NAMES
    assert {name: one["equal"] for name, one in good.items()} == dict.fromkeys(NAMES, True)
    assert {name: counts(one) for name, one in good.items()} == {
        "merged": (5, 5, 0, 0, 0),
        "parts": (6, 6, 0, 0, 0),
        "all": (6, 6, 0, 0, 0),
        "log": (8, 8, 0, 0, 0),
        "past": (6, 6, 0, 0, 0),
    }
    assert {one["newer"] for one in good.values()} == {0}

    # Another hand changes, removes and adds rows in the targets.
    house.sql("UPDATE @merged SET amount = -1 WHERE id = 3")
    house.sql("DELETE FROM @merged WHERE id = 5")
    house.sql("INSERT INTO @merged VALUES (77, 1, 'Eve')")
    house.sql("DELETE FROM @parts WHERE id = 9")
    house.sql("INSERT INTO @all SELECT * FROM @all WHERE id = 1")
    house.sql("DELETE FROM @log WHERE id = 2")
    house.sql("INSERT INTO @log SELECT * FROM @log WHERE id = 1")
    house.sql("UPDATE @past SET is_current = false, valid_to = TIMESTAMP'2025-01-09' WHERE id = 9")
    bad = verified(house, code=1)
    assert {one["equal"] for one in bad.values()} == {False}
    assert {name: counts(one)[2:] for name, one in bad.items()} == {
        "merged": (1, 1, 1),
        "parts": (1, 0, 0),
        "all": (0, 1, 0),
        "log": (1, 1, 0),
        "past": (1, 0, 0),
    }
    assert keys(bad["merged"]) == {("different", "3"), ("missing", "5"), ("extra", "77")}
    [(kind, row)] = keys(bad["parts"])
    assert (kind, json.loads(row)["id"]) == ("missing", 9)

    shown = house.type("verify", "--select", "merged")
    assert shown.code == 1, shown.said
    assert "✗" in shown.out
    assert "merged: different: 3" in shown.err + shown.out
    assert "comparing merged" in shown.err


@pytest.mark.long
def test_f1_versions_that_were_not_read_yet_are_named_and_no_difference(lakehouse: Lakehouse) -> None:
    house = lakehouse
    house.sql(f"CREATE TABLE @a (id INT, word STRING) {FEED}")
    house.sql("INSERT INTO @a VALUES (1, 'one'), (2, 'two')")
    house.write("  copy: {inputs: {a: {path: a}}, output: {path: copy, key: id}}\n")
    house.run()
    house.sql("UPDATE @a SET word = 'uno' WHERE id = 1")
    house.sql("INSERT INTO @a VALUES (3, 'three')")
    one = verified(house)["copy"]
    assert counts(one) == (2, 2, 0, 0, 0)
    assert one["newer"] is None
    shown = house.type("verify")
    assert shown.code == 0
    assert "copy: 2 versions of a are newer than the last look" in shown.err + shown.out


@pytest.mark.long
def test_f1_a_version_that_was_vacuumed_is_said_and_never_taken_for_equal(lakehouse: Lakehouse) -> None:
    house = lakehouse
    house.sql(f"CREATE TABLE @a (id INT, word STRING) {FEED}")
    house.sql("INSERT INTO @a VALUES (1, 'one'), (2, 'two')")
    house.write("  copy: {inputs: {a: {path: a}}, output: {path: copy, key: id}}\n")
    house.run()
    # Nothing changes by OPTIMIZE: what the watermark says can still be had, from a later version.
    house.sql("INSERT INTO @a VALUES (3, 'three')")
    house.run()
    house.sql("OPTIMIZE @a")
    house.spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    house.sql("VACUUM @a RETAIN 0 HOURS")
    assert counts(verified(house)["copy"]) == (3, 3, 0, 0, 0)
    house.sql("UPDATE @a SET word = 'uno' WHERE id = 1")
    house.sql("VACUUM @a RETAIN 0 HOURS")
    ran = house.type("verify")
    assert "✓" not in ran.out
    refused(ran, "copy", "version", "cannot be read any more")
    one = verified(house, code=1)["copy"]
    assert (one["equal"], one["source_rows"], one["error"]["type"]) == (False, None, "VersionsMissing")


@pytest.mark.long
def test_f1_nothing_compared_is_wrong_use_and_says_so(lakehouse: Lakehouse) -> None:
    house = lakehouse
    house.sql(f"CREATE TABLE @a (id INT, word STRING) {FEED}")
    house.sql("INSERT INTO @a VALUES (1, 'one')")
    house.write(
        "  raw: {inputs: {a: {path: a, feed: raw}}, transform: raw.sql, output: {path: raw, key: id}}\n"
        "  copy: {inputs: {a: {path: a}}, output: {path: copy, key: id}}\n"
        "  today: {inputs: {a: {path: a}}, transform: today.sql, output: {path: today, mode: overwrite}}\n",
        raw="SELECT id, word, _change_type FROM a",
        today="SELECT id, current_date() AS day FROM a",
    )
    refused(house.type("verify"), "nothing was compared", code=2)
    house.run()
    refused(house.type("verify", "--select", "raw"), "nothing was compared", "feed: raw", code=2)
    alone = house.type("run", "--select", "raw", "--verify-data")
    refused(alone, "nothing was compared", "feed: raw", code=2)
    every = verified(house)
    assert {name: one["equal"] for name, one in every.items()} == {"copy": True, "raw": None, "today": None}
    shown = house.type("verify")
    assert shown.code == 0
    assert "raw: not compared: " in shown.out
    assert "today: not compared: " in shown.out
    assert house.type("run", "--verify-data").code == 0


def test_f1_verify_data_proves_delta_flows_too(lakehouse: Lakehouse) -> None:
    house = lakehouse
    house.sql(f"CREATE TABLE @a (id INT, word STRING) {FEED}")
    house.sql("INSERT INTO @a VALUES (1, 'one'), (2, NULL)")
    house.write("  copy: {inputs: {a: {path: a}}, output: {path: copy, key: id}}\n")
    ran = house.type("run", "--verify-data", "--json")
    assert ran.code == 0, ran.said
    [one] = ran.json["verify"]["tables"]
    assert counts(one) == (2, 2, 0, 0, 0)
    house.sql("DELETE FROM @copy WHERE id = 2")
    house.sql("INSERT INTO @a VALUES (3, 'three')")
    ran = house.type("run", "--verify-data", "--json")
    assert ran.code == 1, ran.said
    assert ran.json["verify"]["tables"][0]["missing"] == 1


@pytest.mark.long
def test_f1_values_of_every_kind_are_compared_as_values(lakehouse: Lakehouse) -> None:
    """−0.0 and 0.0, any two NaN and a map in another order are equal; NULLs in other places are not."""
    house = lakehouse
    columns = (
        "id INT, f DOUBLE, g FLOAT, d DECIMAL(20,4), m MAP<STRING,INT>, l ARRAY<INT>, s STRUCT<x:INT,y:INT>,"
        " a STRING, b STRING, k BINARY"
    )
    house.sql(f"CREATE TABLE @a ({columns}) {FEED}")
    house.sql(
        "INSERT INTO @a SELECT CAST(id AS INT), -0.0D, float('NaN'), 1.5, map('x', 1, 'y', 2),"
        " array(NULL, 5), named_struct('x', NULL, 'y', 5), NULL, 'z', X'00ff' FROM range(8)"
    )
    house.write("  copy: {inputs: {a: {path: a}}, output: {path: copy, key: id}}\n")
    house.run()
    house.sql("UPDATE @copy SET f = 0.0D, m = map('y', 2, 'x', 1), g = float('NaN') * -1")
    assert counts(verified(house)["copy"]) == (8, 8, 0, 0, 0)
    changes = (
        "l = array(5, NULL)",
        "s = named_struct('x', 5, 'y', CAST(NULL AS INT))",
        "a = 'z', b = NULL",
        "d = 1.5001",
        "m = map('x', 2, 'y', 1)",
        "k = X'ff00'",
        "l = NULL",
    )
    for number, change in enumerate(changes):
        house.sql(f"UPDATE @copy SET {change} WHERE id = {number}")
    one = verified(house, code=1)["copy"]
    assert counts(one) == (8, 8, 0, 0, 7)
    assert keys(one) == {("different", str(number)) for number in range(7)}


@pytest.mark.long
def test_f1_a_pinned_table_that_changes_later_is_no_false_alarm(lakehouse: Lakehouse) -> None:
    """Its own changes touch nothing, so a target has rows as each of its pinned versions made them."""
    house = lakehouse
    house.sql(f"CREATE TABLE @o (id INT, cid INT, day INT) {FEED}")
    house.sql("CREATE TABLE @c (cid INT, name STRING) USING delta")
    house.sql("INSERT INTO @c VALUES (1, 'Ada'), (2, 'Bo')")
    house.sql("INSERT INTO @o VALUES (1, 1, 1), (2, 2, 1), (3, 3, 2)")
    inputs = "inputs: {o: {path: o}, c: {path: c, snapshot: true}}, transform: named.sql"
    house.write(
        f"  merged: {{{inputs}, output: {{path: merged, key: id}}}}\n"
        f"  parts: {{{inputs}, output: {{path: parts, mode: replace_partitions, partition_by: day}}}}\n"
        f"  log: {{{inputs}, output: {{path: log, mode: append}}}}\n",
        named="SELECT o.id, o.day, c.name FROM o JOIN c ON c.cid = o.cid",
    )
    house.run()
    house.sql("UPDATE @c SET name = 'Adam' WHERE cid = 1")
    house.sql("INSERT INTO @c VALUES (3, 'Cy')")
    assert {one["equal"] for one in verified(house).values()} == {True}
    house.sql("INSERT INTO @o VALUES (4, 1, 3)")
    house.run()
    assert house.sql("SELECT id, name FROM @merged") == [(1, "Ada"), (2, "Bo"), (4, "Adam")]
    good = verified(house)
    assert {name: one["equal"] for name, one in good.items()} == dict.fromkeys(good, True), good
    for name in ("merged", "parts", "log"):
        house.sql(f"UPDATE @{name} SET name = 'Eve' WHERE id = 1")
    bad = verified(house, code=1)
    assert {one["equal"] for one in bad.values()} == {False}
    assert keys(bad["merged"]) == {("different", "1")}


def test_f1_what_was_changed_by_hand_is_told_from_what_waits_for_a_run(lakehouse: Lakehouse) -> None:
    house = lakehouse
    house.sql(f"CREATE TABLE @a (id INT, word STRING) {FEED}")
    house.sql("INSERT INTO @a VALUES (1, 'one'), (2, 'two')")
    house.write(
        "  copy: {inputs: {a: {path: a}}, transform: copy.sql, output: {path: copy, key: id}}\n",
        copy="SELECT id, word FROM a",
    )
    refused(house.type("verify"), "copy", "run it first", code=2)
    house.run()
    (house.folder / "copy.sql").write_text("SELECT id, upper(word) AS word FROM a")
    refused(house.type("verify"), "its transform has changed since its last run")
    (house.folder / "copy.sql").write_text("SELECT id, word FROM a")
    set_back = house.type(
        "watermark", "set", "--select", "copy", "--position", "0", "--yes", "--force", "--reason", "x"
    )
    assert set_back.code == 0, set_back.said
    refused(house.type("verify"), "copy", "set back by hand")
    house.run()
    assert verified(house)["copy"]["equal"]
    shutil.rmtree(house.folder / "copy")
    refused(house.type("verify"), "copy", "is not there")


@pytest.mark.long
def test_f1_what_was_appended_and_is_gone_from_the_source_is_searched_for_what_it_lacks(
    lakehouse: Lakehouse,
) -> None:
    house = lakehouse
    house.sql(f"CREATE TABLE @a (id INT, word STRING) {FEED}")
    house.sql("INSERT INTO @a VALUES (1, 'one'), (2, 'two')")
    house.write("  log: {inputs: {a: {path: a}}, output: {path: log, mode: append}}\n")
    house.run()
    house.sql("UPDATE @a SET word = 'uno' WHERE id = 1")
    house.sql("ALTER TABLE @a ADD COLUMN more INT")
    house.sql("INSERT INTO @a VALUES (3, 'three', 3)")
    house.run()
    assert counts(verified(house)["log"]) == (4, 4, 0, 0, 0)
    house.spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    house.sql("VACUUM @a RETAIN 0 HOURS")
    one = verified(house)["log"]
    assert counts(one) == (3, 4, 0, 0, 0)
    assert "only looked for rows that are missing" in str(one["notes"])
    house.sql("DELETE FROM @log WHERE word = 'uno'")
    assert verified(house, code=1)["log"]["missing"] == 1


@pytest.mark.long
def test_f1_a_history_of_many_events_of_a_key_is_held_against_the_last_of_them(lakehouse: Lakehouse) -> None:
    house = lakehouse
    house.sql(f"CREATE TABLE @log (id INT, at INT, word STRING) {FEED}")
    house.sql("INSERT INTO @log VALUES (1, 1, 'a'), (1, 5, 'c'), (2, 1, 'x'), (2, 2, 'x'), (3, 7, 'first')")
    house.write(
        "  past: {inputs: {log: {path: log}}, output: {path: past, mode: scd2, key: id, sequence_by: at}}\n"
    )
    house.run()
    # One comes late, one of the same moment as another, which it takes the place of; one is new.
    house.sql("INSERT INTO @log VALUES (1, 3, 'b'), (3, 7, 'second'), (4, 1, 'n')")
    house.run()
    assert counts(verified(house)["past"]) == (4, 4, 0, 0, 0)
    house.sql("UPDATE @past SET word = 'y' WHERE id = 2")
    house.sql("UPDATE @past SET word = 'b' WHERE id = 1 AND is_current")
    house.sql("DELETE FROM @past WHERE id = 4")
    found = verified(house, code=1)["past"]
    assert counts(found) == (4, 3, 1, 0, 2)
    assert keys(found) == {("different", "1"), ("different", "2"), ("missing", "4")}
