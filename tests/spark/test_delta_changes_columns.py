"""Windows of Delta tables whose columns change, and whose types and names are of the odd kind."""

from __future__ import annotations

from collections import Counter
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.versioned import FEED, Rows, Versioned, as_text, counted, told
from tidegauge.errors import SourceError
from tidegauge.model.plan import ReadWay

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVERY = """
    id BIGINT, text STRING, day DATE, at TIMESTAMP, yes BOOLEAN, n DECIMAL(5, 2),
    s STRUCT<a: INT, `x.y`: ARRAY<DOUBLE>>, m MAP<STRING, DOUBLE>, v VARIANT, f FLOAT, `b-c` BINARY,
    mm MAP<INT, MAP<INT, FLOAT>>
"""
ODD = """(1, 'a b%41/=:é"[]*?{}', date'2020-01-01', timestamp'2020-01-01 12:34:56.123456', true, 1.50,
    struct(1, array(1.0D, double('NaN'), -0.0D)), map('k', 0.0D, 'a', -0.0D), parse_json('{"a": [1, "x"]}'),
    float('NaN'), x'00ff', map(1, map(2, 0.0F)))"""
NULLS = f"(2{', NULL' * 8}, -0.0F, NULL, NULL)"
PLAIN = """({id}, '{text}', date'2021-01-01', timestamp'1969-12-31 23:59:59', false, -1.50,
    struct(NULL, array()), map(), parse_json('1'), 1.1F, x'', map())"""


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> Versioned:
    return Versioned(spark, tmp_path / "odd ünï [x] %41")


def check(table: Versioned, after: int | None, upto: int, way: ReadWay) -> int:
    """That the window is the difference of its ends; how many rows came and went."""
    window = table.window(after, upto, way)
    frames = {"came": window.came(), "gone": window.gone(), "now": table.at(upto)}
    if after is not None:
        frames["before"] = table.at(after)
    assert len({str(frame.dtypes) for frame in frames.values()}) == 1
    names = ["_change_type", "_commit_version", "_commit_timestamp"]
    assert window.events().columns == [*table.at(upto).columns, *names]
    told_apart = (frame.selectExpr(f"'{name}' AS kind", "*") for name, frame in frames.items())
    found: dict[str, Rows] = {name: Counter() for name in ("came", "gone", "now", "before")}
    for kind, *row in reduce(lambda one, other: one.unionAll(other), told_apart).collect():
        found[kind][tuple(map(as_text, row))] += 1
    came, gone, now, before = found.values()
    assert (came, gone) == (now - before, before - now), (after, upto, way)
    return came.total() + gone.total()


@pytest.mark.long
def test_every_type_and_odd_partitions_arrive_as_they_are(table: Versioned) -> None:
    table.sql(
        f"CREATE TABLE {{t}} ({EVERY}) USING delta PARTITIONED BY (text, day, at, n, yes)"
        f" TBLPROPERTIES ({FEED})",
        f"INSERT INTO {{t}} VALUES {ODD}, {NULLS}, {NULLS}, {NULLS.replace('-0', '0')}",
        "INSERT INTO {t} VALUES "
        + ", ".join(PLAIN.format(id=i, text="xyz"[i % 3] * (i > 4)) for i in range(3, 8)),
    )
    for way in (ReadWay.FEED, ReadWay.FILES, ReadWay.DIFF):
        assert check(table, None, 2, way) == 9
    assert table.window(1, 2, ReadWay.FILES, scheme="file:").came().count() == 5
    names = ["_commit_version", "_change_type", "_commit_timestamp"]
    events = table.window(None, 2, ReadWay.FILES).events().select(names).collect()
    assert Counter(row[:2] for row in events) == {(1, "insert"): 4, (2, "insert"): 5}
    feed = {row[0]: row[2] for row in table.window(None, 2).events().select(names).collect()}
    assert all(abs((at - feed[version]).total_seconds()) < 5 for version, _, at in events)
    table.sql(
        "UPDATE {t} SET f = 0.0F, m = map('a', 0.0D, 'k', 0.0D), v = parse_json('{\"a\": [1, 1]}')"
        " WHERE id < 3",
        "UPDATE {t} SET m = map('k', 0.0D, 'a', 0.0D), v = parse_json('{\"a\": [1,1]}') WHERE id < 3",
    )
    # One of the three was 0.0 already; and the order inside of a map is nobody's.
    assert check(table, 2, 3, ReadWay.FEED) == check(table, 2, 3, ReadWay.DIFF) == 8
    assert counted(table.window(3, 4).came()) == counted(table.window(3, 4, ReadWay.DIFF).came()) == Counter()


def test_only_the_files_that_were_added_are_read(table: Versioned) -> None:
    table.sql(
        "CREATE TABLE {t} (id INT, p STRING) USING delta PARTITIONED BY (p)",
        "INSERT INTO {t} VALUES (1, 'a'), (2, 'b')",
        "INSERT INTO {t} VALUES (3, 'a'), (4, NULL)",
        "OPTIMIZE {t}",
        "INSERT INTO {t} VALUES (5, 'a')",
    )
    window = table.window(1, 4, ReadWay.FILES)
    assert told(counted(window.came())) == ["3 'a'", "4 None", "5 'a'"]
    assert len(window.came().inputFiles()) == 3
    assert counted(table.window(2, 3, ReadWay.FILES).came()) == Counter()
    # The values of a partition stand in the log; what a folder is called proves nothing.
    log = Path(table.path, "_delta_log", f"{4:020}.json")
    log.write_text(log.read_text().replace('"partitionValues":{"p":"a"}', '"partitionValues":{"p":"z"}'))
    assert told(counted(table.window(3, 4, ReadWay.FILES).came())) == ["5 'z'"]


def test_c4_an_added_column_and_a_widened_type_are_those_of_the_windows_end(table: Versioned) -> None:
    table.sql(
        "CREATE TABLE {t} (id INT, s STRUCT<a: INT>) USING delta TBLPROPERTIES"
        f" ({FEED}, 'delta.enableTypeWidening' = 'true')",
        "INSERT INTO {t} VALUES (1, struct(1)), (2, struct(2))",
        "ALTER TABLE {t} ADD COLUMNS (n DECIMAL(5, 2), s.b STRING)",
        "UPDATE {t} SET n = 1.5 WHERE id = 1",
        "ALTER TABLE {t} ALTER COLUMN id TYPE BIGINT",
        "ALTER TABLE {t} ALTER COLUMN n TYPE DECIMAL(20, 2)",
        "INSERT INTO {t} VALUES (3000000000, struct(3, 'b'), 123456789.5)",
    )
    narrow, added, wide = table.window(None, 1), table.window(0, 3), table.window(None, 6)
    assert narrow.came().dtypes == [("id", "int"), ("s", "struct<a:int>")]
    assert told(counted(narrow.came())) == ["1 Row(a=1)", "2 Row(a=2)"]
    assert [kind for _, kind in added.came().dtypes] == ["int", "struct<a:int,b:string>", "decimal(5,2)"]
    assert told(counted(added.came())) == ["1 Row(a=1, b=None) Decimal('1.50')", "2 Row(a=2, b=None) None"]
    assert [kind for _, kind in wide.came().dtypes] == ["bigint", "struct<a:int,b:string>", "decimal(20,2)"]
    assert sum(counted(wide.came()).values()) == 3
    assert counted(wide.came()) == counted(table.window(None, 6, ReadWay.DIFF).came()) == counted(table.at(6))
    assert counted(table.window(1, 3).gone()) == Counter({("1", "Row(a=1, b=None)", "None"): 1})
    assert counted(table.window(4, 6, ReadWay.FILES).came()) == counted(table.window(4, 6).came())


@pytest.mark.long
def test_c4_renamed_and_dropped_columns_have_the_names_of_the_windows_end(table: Versioned) -> None:
    table.sql(
        "CREATE TABLE {t} (id BIGINT GENERATED ALWAYS AS IDENTITY, a STRING, b INT, p STRING) USING delta"
        f" PARTITIONED BY (p) TBLPROPERTIES ({FEED}, 'delta.columnMapping.mode' = 'name',"
        " 'delta.enableDeletionVectors' = 'true')",
        "INSERT INTO {t} (a, b, p) VALUES ('x', 1, 'p'), ('y', 2, 'q')",
        "DELETE FROM {t} WHERE b = 1",
        "ALTER TABLE {t} RENAME COLUMN a TO `c d`",
        "ALTER TABLE {t} RENAME COLUMN p TO q",
        "INSERT INTO {t} (`c d`, b, q) VALUES ('z', 3, 'p')",
        "ALTER TABLE {t} DROP COLUMN b",
        "DELETE FROM {t} WHERE `c d` = 'y'",
    )
    assert table.window(None, 2).came().columns == ["id", "a", "b", "p"]
    assert [row[1:] for row in counted(table.window(None, 2).came())] == [("'y'", "2", "'q'")]
    assert [row[1:] for row in counted(table.window(1, 2).gone())] == [("'x'", "1", "'p'")]
    for way in (ReadWay.FEED, ReadWay.FILES):
        assert table.window(4, 5, way).came().columns == ["id", "c d", "b", "q"]
        assert check(table, 4, 5, way) == 1
    for way in (ReadWay.FEED, ReadWay.DIFF):
        assert check(table, 6, 7, way) == 1
    assert table.window(6, 7).gone().columns == ["id", "c d", "q"]


@pytest.mark.long
def test_c4_columns_that_were_replaced_since_are_read_from_the_versions(table: Versioned) -> None:
    table.sql(
        f"CREATE TABLE {{t}} (id INT, v INT) USING delta TBLPROPERTIES ({FEED})",
        "INSERT INTO {t} VALUES (1, 1), (2, 2), (2, 2)",
        "UPDATE {t} SET v = 3 WHERE id = 1",
    )
    other = table.spark.sql("SELECT 'x' AS id, 1 AS w")
    other.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(table.path)
    assert check(table, None, 2, ReadWay.FEED) == 3
    assert check(table, 1, 2, ReadWay.FEED) == 2
    assert told(counted(table.window(0, 2).events().drop("_commit_timestamp"))) == [
        "1 1 'delete' 2",
        "1 1 'insert' 1",
        "1 3 'insert' 2",
        "2 2 'insert' 1",
        "2 2 'insert' 1",
    ]
    with pytest.raises(SourceError, match="changed on the way to version 3"):
        table.window(2, 3, ReadWay.DIFF).came()
