"""One window of a Delta table: what came, what went, and every version's own part of it."""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.spark_jobs import count_jobs
from tests.support.versioned import FEED, Rows, Versioned, as_text, counted, told
from tidegauge.delta_log.table import read_newest
from tidegauge.errors import SourceError, TableMissing, VersionsMissing
from tidegauge.model.delta_flow import TableRef
from tidegauge.model.plan import ReadWay
from tidegauge.sources.delta.errors import translate_read_error
from tidegauge.sources.delta.small_feed import read_small_feed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> Versioned:
    return Versioned(spark, tmp_path / "odd ünï [x] %41")


def jobs(spark: SparkSession) -> int:
    """How many this thread has had."""
    spark.range(1).collect()
    return count_jobs(spark)


@pytest.mark.parametrize("inside", [None, "late", "always"])
def test_every_way_of_reading_dates_a_version_as_deltas_own_feed_does(
    table: Versioned, inside: str | None
) -> None:
    times = "'delta.enableInCommitTimestamps' = 'true'"
    always = f", {times}" if inside == "always" else ""
    table.sql(f"CREATE TABLE {{t}} (id BIGINT) USING delta TBLPROPERTIES ({FEED}{always})")
    table.sql(*(f"INSERT INTO {{t}} VALUES ({number})" for number in range(3)))
    table.sql(f"ALTER TABLE {{t}} SET TBLPROPERTIES ({times if inside == 'late' else FEED})")
    table.sql(*(f"INSERT INTO {{t}} VALUES ({number})" for number in range(3, 6)))
    last, begun = table.latest, time.time() // 1000 * 1000 - 20_000
    for version, date in enumerate([3000.0, 5000.0009, 1000, 5000.0005, 4000, 9000.9999, 8000, 8000]):
        # As after a copy of the table: in another order, and equal.
        os.utime(Path(table.path, "_delta_log", f"{version:020}.json"), (begun + date, begun + date))

    def dates(frame: DataFrame) -> dict[int, datetime]:
        found = frame.select("_commit_version", "_commit_timestamp").distinct().collect()
        assert len({row[0] for row in found}) == len(found)
        return {row[0]: row[1] for row in found}

    own = dates(
        table.spark.read.format("delta")
        .options(readChangeFeed="true", startingVersion=0, endingVersion=last)
        .load(table.path)
    )
    assert len(own) == 6
    assert sorted(own.values()) == [own[version] for version in sorted(own)]
    for after in (None, 3, 5):
        behind = {version: at for version, at in own.items() if after is None or version > after}
        assert dates(table.window(after, last, raw=True).came()) == behind
        assert dates(table.window(after, last, ReadWay.FILES, raw=True).came()) == behind
    for upto in own:
        assert dates(table.window(None, upto, ReadWay.SNAPSHOT, raw=True).came()) == {upto: own[upto]}
    assert dates(table.window(0, last, ReadWay.DIFF, raw=True).came()) == {last: own[last]}
    few = read_small_feed(TableRef(path=table.path), table.path, last - 2, last).rows
    zone = table.spark.conf.get("spark.sql.session.timeZone")
    found = few.select(["_commit_version", "_commit_timestamp"]).to_pylist()
    assert zone == "UTC"
    assert {one["_commit_version"]: one["_commit_timestamp"].replace(tzinfo=None) for one in found} == {
        version: own[version] for version in range(last - 2, last + 1)
    }


COMMITS = ["insert", "insert", "update", "delete", "merge", "overwrite", "restore", "optimize", "empty"]


def commit(table: Versioned, kind: str, dice: random.Random) -> None:
    def row() -> str:
        value = dice.choice(["'a'", "'b'", "NULL"])
        number = dice.choice(["0.0D", "-0.0D", "double('NaN')", "NULL"])
        return f"({dice.randrange(4)}, {value}, {number})"

    some = ", ".join(row() for _ in range(dice.randrange(2, 6)))
    match kind:
        case "insert":
            table.sql(f"INSERT INTO {{t}} VALUES {some}")
        case "update":
            value = dice.choice(["v", "'c'"])
            table.sql(f"UPDATE {{t}} SET v = {value}, x = -x WHERE id < 3")
        case "delete":
            table.sql(f"DELETE FROM {{t}} WHERE id = {dice.randrange(4)}")
        case "merge":
            source = f"VALUES (0, 'm'), ({dice.randrange(1, 6)}, 'n') s(id, v)"
            table.sql(
                f"MERGE INTO {{t}} t USING (SELECT * FROM {source}) s"
                " ON t.id = s.id WHEN MATCHED AND s.id = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET v = s.v"
                " WHEN NOT MATCHED THEN INSERT (id, v, x) VALUES (s.id, s.v, 0.0D)"
            )
        case "overwrite":
            table.sql(f"INSERT OVERWRITE {{t}} VALUES {some}")
        case "restore":
            table.sql(f"RESTORE {{t}} TO VERSION AS OF {dice.randrange(1, table.latest)}")
        case "optimize":
            table.sql("OPTIMIZE {t}")
        case "empty":
            table.sql("DELETE FROM {t}")


@pytest.fixture(scope="module")
def story(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Versioned, list[Rows]]:
    """A table with a dozen commits of every kind, and what it held after each."""
    table, dice = Versioned(spark, tmp_path_factory.mktemp("story") / "t"), random.Random(6)
    table.sql(f"CREATE TABLE {{t}} (id INT, v STRING, x DOUBLE) USING delta TBLPROPERTIES ({FEED})")
    table.sql(
        "INSERT INTO {t} VALUES (0, 'a', -0.0D), (0, 'a', -0.0D), (1, NULL, double('NaN')), (2, 'b', 0.0D)"
    )
    for kind in dice.sample(COMMITS, len(COMMITS)):
        commit(table, kind, dice)
    whole = reduce(
        lambda one, other: one.unionAll(other),
        (table.at(version).selectExpr(f"{version} AS version", "*") for version in range(table.latest + 1)),
    ).collect()
    held: list[Rows] = [Counter() for _ in range(table.latest + 1)]
    for version, *row in whole:
        held[version][tuple(map(as_text, row))] += 1
    return table, held


@pytest.mark.parametrize("some", [1, pytest.param(8, marks=pytest.mark.long)])
def test_c9_the_net_effect_of_any_window_is_the_difference_of_its_ends(
    story: tuple[Versioned, list[Rows]], some: int
) -> None:
    table, held = story
    dice = random.Random(9)
    windows: list[tuple[int | None, int]] = [(None, table.latest), (0, 1)]
    windows += [
        (min(pair), max(pair)) for pair in (dice.sample(range(table.latest + 1), 2) for _ in range(some))
    ]
    asked = [(one, ReadWay.FEED) for one in windows] + [(windows[2], ReadWay.DIFF), ((None, 3), ReadWay.DIFF)]
    parts = []
    for number, ((after, upto), way) in enumerate(asked):
        one = table.window(after, upto, way)
        parts += [one.came().selectExpr(f"{number} AS n", "1 AS came", "*")]
        parts += [one.gone().selectExpr(f"{number} AS n", "0 AS came", "*")]
    found: dict[tuple[int, int], Rows] = {}
    for number, came, *row in reduce(lambda one, other: one.unionAll(other), parts).collect():
        found.setdefault((number, came), Counter())[tuple(map(as_text, row))] += 1
    for number, ((after, upto), way) in enumerate(asked):
        before = Counter() if after is None else held[after]
        came, gone = found.get((number, 1), Counter()), found.get((number, 0), Counter())
        assert came == held[upto] - before, (after, upto, way)
        assert gone == before - held[upto], (after, upto, way)


def test_events_replayed_one_version_after_the_other_give_every_version(
    story: tuple[Versioned, list[Rows]],
) -> None:
    table, held = story
    frame = table.window(None, table.latest).events()
    assert frame.columns == ["id", "v", "x", "_change_type", "_commit_version", "_commit_timestamp"]
    steps: dict[int, dict[str, Rows]] = {}
    for *row, kind, version, at in frame.collect():
        assert at is not None
        steps.setdefault(version, {}).setdefault(kind, Counter())[tuple(map(as_text, row))] += 1
    now: Rows = Counter()
    for version in range(table.latest + 1):
        kinds = steps.get(version, {})
        assert kinds.keys() <= {"insert", "delete", "update_preimage", "update_postimage"}
        plus = kinds.get("insert", Counter()) + kinds.get("update_postimage", Counter())
        minus = kinds.get("delete", Counter()) + kinds.get("update_preimage", Counter())
        assert not plus & minus, f"version {version} takes back what it gives"
        assert not minus - now, f"version {version} takes what was not there"
        now = now - minus + plus
        assert now == held[version]


@pytest.mark.long
def test_c5_many_changes_of_a_row_are_told_once_and_one_by_one(table: Versioned) -> None:
    table.sql(
        f"CREATE TABLE {{t}} (id INT, v STRING) USING delta TBLPROPERTIES ({FEED})",
        "INSERT INTO {t} VALUES (1, 'a'), (2, 'a')",
        "UPDATE {t} SET v = 'b' WHERE id = 1",
        "UPDATE {t} SET v = 'c' WHERE id = 1",
        "DELETE FROM {t} WHERE id = 1",
        "INSERT INTO {t} VALUES (1, 'd')",
        "INSERT OVERWRITE {t} VALUES (1, 'd'), (3, 'a')",
    )
    window = table.window(1, 6)
    assert told(counted(window.came())) == ["1 'd'", "3 'a'"]
    assert told(counted(window.gone())) == ["1 'a'", "2 'a'"]
    assert (window.has_changes, window.afresh, window.version) == (True, False, 6)
    assert told(counted(window.events().drop("_commit_timestamp"))) == [
        "1 'a' 'update_preimage' 2",
        "1 'b' 'update_postimage' 2",
        "1 'b' 'update_preimage' 3",
        "1 'c' 'delete' 4",
        "1 'c' 'update_postimage' 3",
        "1 'd' 'insert' 5",
        "2 'a' 'delete' 6",
        "3 'a' 'insert' 6",
    ]
    raw = table.window(4, 6, raw=True)
    feed = told(counted(raw.came().drop("_commit_timestamp")))
    assert feed == [
        "1 'd' 'delete' 6",
        "1 'd' 'insert' 5",
        "1 'd' 'insert' 6",
        "2 'a' 'delete' 6",
        "3 'a' 'insert' 6",
    ]
    assert counted(raw.gone()) == Counter()
    assert raw.came().dtypes == raw.gone().dtypes == raw.now().dtypes
    # As a catalogue says where it is.
    assert told(counted(table.window(5, 6, scheme="file:").came())) == ["3 'a'"]
    # There and back again is nothing, and so is an update to the same.
    assert counted(table.window(4, 5).came()) == Counter({("1", "'d'"): 1})
    table.sql("UPDATE {t} SET v = v", "DELETE FROM {t} WHERE id = 3", "INSERT INTO {t} VALUES (3, 'a')")
    same = table.window(6, 9)
    assert counted(same.came()) + counted(same.gone()) == Counter()
    assert told(counted(same.events().drop("_commit_timestamp"))) == ["3 'a' 'delete' 8", "3 'a' 'insert' 9"]


@pytest.mark.long
def test_ways_that_bring_no_changes(table: Versioned) -> None:
    table.sql(
        "CREATE TABLE {t} (id INT) USING delta", "INSERT INTO {t} VALUES (1), (1)", "DELETE FROM {t}",
        "INSERT INTO {t} VALUES (2)",
    )  # fmt: skip
    for way in (ReadWay.PINNED, ReadWay.NOTHING):
        window = table.window(1, 1, way)
        assert (window.has_changes, window.afresh) == (False, False)
        assert counted(window.now()) == Counter({("1",): 2})
        assert counted(window.came()) + counted(window.gone()) + counted(window.events()) == Counter()
        assert window.came().schema == window.gone().schema == window.now().schema
    fresh = table.window(0, 1, ReadWay.SNAPSHOT)
    assert (fresh.has_changes, fresh.afresh, fresh.version) == (True, True, 1)
    assert counted(fresh.came()) == counted(fresh.now()) == Counter({("1",): 2})
    assert counted(fresh.gone()) == Counter()
    assert abs(fresh.moment - read_newest(table.path).commit_timestamp).total_seconds() < 60
    moment = fresh.moment.replace(tzinfo=None)
    assert counted(fresh.events()) == Counter({("1", "'insert'", "1", repr(moment)): 2})
    assert counted(table.window(0, 1, ReadWay.SNAPSHOT, raw=True).came()) == counted(fresh.events())
    step = table.window(1, 3, ReadWay.DIFF).events().drop("_commit_timestamp")
    assert told(counted(step)) == ["1 'delete' 3", "1 'delete' 3", "2 'insert' 3"]


def test_no_job_runs_before_a_frame_is_read(story: tuple[Versioned, list[Rows]]) -> None:
    table, _ = story
    # RESTORE leaves no checksum beside its commit, and then Delta has to ask Spark what the columns are.
    checked = [int(path.stem) for path in Path(table.path, "_delta_log").glob("0*.crc")]
    _, after, upto, *_ = sorted(checked)
    before = jobs(table.spark)
    for way in (ReadWay.FEED, ReadWay.DIFF, ReadWay.SNAPSHOT, ReadWay.PINNED, ReadWay.NOTHING):
        window = table.window(after, upto, way)
        for frame in (window.now(), window.came(), window.gone(), window.events()):
            assert frame.columns[:3] == ["id", "v", "x"]
    table.window(0, 1, ReadWay.FILES).events()
    assert jobs(table.spark) == before + 1
    table.window(after, upto).came().collect()
    # One up to the exchange, one behind it, and that of `jobs` itself.
    assert jobs(table.spark) <= before + 4


@pytest.fixture
def vacuum(spark: SparkSession) -> Iterator[Callable[[Versioned], None]]:
    name = "spark.databricks.delta.retentionDurationCheck.enabled"
    spark.conf.set(name, "false")
    yield lambda table: table.sql("VACUUM {t} RETAIN 0 HOURS")
    spark.conf.unset(name)


@pytest.mark.long
def test_c1_files_that_went_between_plan_and_run_are_an_error(
    table: Versioned, vacuum: Callable[[Versioned], None]
) -> None:
    table.sql(
        f"CREATE TABLE {{t}} (id INT) USING delta TBLPROPERTIES ({FEED})",
        "INSERT INTO {t} VALUES (1), (2)",
        "UPDATE {t} SET id = 3 WHERE id = 2",
        "DELETE FROM {t}",
    )
    known = {"bronze.orders": f"file:{table.path}"}
    window = table.window(1, 2)
    frames = {"came": window.came(), "now": window.now(), "added": table.window(0, 1, ReadWay.FILES).came()}
    table.spark.conf.set("spark.sql.files.ignoreMissingFiles", "true")
    try:
        vacuum(table)
        for name, frame in frames.items():
            with pytest.raises(Exception) as caught:
                frame.collect()
            said = translate_read_error(caught.value, known)
            assert isinstance(said, VersionsMissing), name
            assert said.message.startswith("bronze.orders: a file that its versions need is gone: file:/")
            assert "\n" not in said.message
            assert "on_missing" in str(said.hint)
            assert translate_read_error(caught.value, {"elsewhere": "/tmp/elsewhere"}) is None
            assert isinstance(translate_read_error(caught.value), VersionsMissing)
    finally:
        table.spark.conf.unset("spark.sql.files.ignoreMissingFiles")
    with pytest.raises(VersionsMissing, match="is gone: file:/"):
        table.window(0, 1, ReadWay.FILES).came()
    with pytest.raises(VersionsMissing, match="went before they were read"):
        table.window(3, 9).now()
    assert translate_read_error(ValueError("something else"), known) is None


def test_what_cannot_be_read_is_told_in_one_sentence(table: Versioned) -> None:
    with pytest.raises(TableMissing, match="no Delta table any more at "):
        table.window(None, 1).came()
    table.sql("CREATE TABLE {t} (id INT, _Change_Type INT) USING delta", "INSERT INTO {t} VALUES (1, 2)")
    assert counted(table.window(None, 1, ReadWay.SNAPSHOT).came()) == Counter({("1", "2"): 1})
    with pytest.raises(SourceError, match="has a column _Change_Type"):
        table.window(None, 1, ReadWay.FILES).came()
    table.sql("ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    table.sql("ALTER TABLE {t} RENAME COLUMN _Change_Type TO v", "DELETE FROM {t}")
    with pytest.raises(SourceError, match=r"version 4 of .* did more than to add files"):
        table.window(0, 4, ReadWay.FILES).came()
    with pytest.raises(Exception) as caught:
        table.window(2, 4).came().collect()
    said = translate_read_error(caught.value, {"t": table.path})
    assert isinstance(said, VersionsMissing)
    assert said.message == "the change data feed of t was off at version 3"
