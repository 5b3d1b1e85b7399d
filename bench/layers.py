"""Flows between Delta tables, against plain PySpark that does the same without a ledger; all in one Spark."""

from __future__ import annotations

import statistics
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bench.result import Result
from bench.timing import Pairs
from tidegauge.config.load import load_project
from tidegauge.model.spec import SparkSettings
from tidegauge.run.options import RunOptions
from tidegauge.run.run import run
from tidegauge.spark.jars import JarSet
from tidegauge.spark.session import open_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = 2_000_000
CHANGED = 20_000
FLOWS = 100
IN_EACH = 1_000
TIMES = 5
_SIDE_BY_SIDE = 4
_FEED = "_change_type", "_commit_version", "_commit_timestamp"
_COLUMNS = """id, id * 7919 % 100003 AS customer_id, CAST(id % 1000000 / 100 AS DECIMAL(12,2)) AS price,
    id * 0.37D AS weight, concat('SKU-', id % 50000) AS sku, md5(CAST(id AS STRING)) AS title,
    timestamp_micros(1735689600000000 + id * 1000) AS created_at, {mark} AS mark"""


def measure(rows: int = ROWS, *, times: int = TIMES) -> list[Result]:
    spark = open_session(SparkSettings(None, {}), [JarSet.DELTA])
    with tempfile.TemporaryDirectory(prefix="tidegauge-bench-") as name:
        bench = _Bench(spark, Path(name))
        return [*bench.append(times), *bench.merge(rows, times), *bench.grow(rows, times), *bench.many(times)]


class _Bench:
    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark, self._folder = spark, folder

    def append(self, times: int) -> list[Result]:
        source, plain, tagged = (self._path(f"append_{name}") for name in ("source", "plain", "tagged"))
        self._make(source, self._rows(0, CHANGED))
        project = self._project("append", {"append": (source, "mode: append")})
        self._run(project)
        for path in (plain, tagged):
            self._feed(source, 0, 0).drop(*_FEED).write.format("delta").save(path)

        def reference(path: str, turn: int, **options: str | int) -> float:
            began = time.perf_counter()
            rows = self._feed(source, turn, turn).where("_change_type = 'insert'").drop(*_FEED)
            rows.write.format("delta").mode("append").options(**options).save(path)
            return time.perf_counter() - began

        seconds: dict[str, list[float]] = {"ours": [], "plain": [], "tagged": []}
        for turn in range(1, times + 2):
            first = turn * CHANGED
            self._rows(first, first + CHANGED).write.format("delta").mode("append").save(source)
            found = {"ours": self._run(project), "plain": reference(plain, turn)}
            found["tagged"] = reference(tagged, turn, txnAppId="plain", txnVersion=turn)
            if turn > 1:
                for name, one in found.items():
                    seconds[name].append(one)
        for path in (plain, tagged):
            self._check(path, self._path("append"))
        mine, name = tuple(seconds["ours"]), f"append {CHANGED:,} rows"
        said = "plain PySpark: read the feed, append"
        return [
            _result(name, Pairs(mine, tuple(seconds["plain"])), 1.15, said),
            _result(
                f"{name}, with a tag there",
                Pairs(mine, tuple(seconds["tagged"])),
                1.15,
                f"{said} with Delta's own txnAppId and txnVersion",
            ),
        ]

    def merge(self, rows: int, times: int) -> list[Result]:
        source = self._path("merge_source")
        self._make(source, self._rows(0, rows))
        project = self._project("merge", {"merge": (source, "key: id")})
        self._run(project)
        plain = {vectors: self._path(f"merge_plain_{vectors}") for vectors in (True, False)}
        for vectors, path in plain.items():
            self._make(path, self._spark.read.format("delta").load(source), vectors=vectors)
        seconds: dict[str, list[float]] = {"ours": [], "with": [], "without": []}
        for turn in range(times + 1):
            self._spark.sql(
                f"UPDATE delta.`{source}` SET mark = {turn + 1} WHERE id % {rows // CHANGED} = {turn}"
            )
            found = {"ours": self._run(project)}
            for vectors, path in plain.items():
                began = time.perf_counter()
                self._merge(source, path, turn + 1, turn + 1)
                found["with" if vectors else "without"] = time.perf_counter() - began
            if turn:
                for name, one in found.items():
                    seconds[name].append(one)
        self._check(plain[True], self._path("merge"))
        name = f"merge {CHANGED:,} changes into {rows:,} rows"
        return [
            _result(
                name,
                Pairs(tuple(seconds["ours"]), tuple(seconds["with"])),
                1.1,
                "plain PySpark: read the feed, last change of each key, MERGE with deletion vectors",
            ),
            _result(
                f"{name}, no deletion vectors there",
                Pairs(tuple(seconds["ours"]), tuple(seconds["without"])),
                0.7,
                "the same plain MERGE without deletion vectors",
            ),
        ]

    def grow(self, rows: int, times: int) -> list[Result]:
        """Merge only new rows, by a key whose values are spread over all files, so that the search for
        existing rows can skip no file."""
        source, plain = self._path("grow_source"), self._path("grow_plain")
        self._make(source, self._rows(0, rows))
        project = self._project("grow", {"grow": (source, "key: title")})
        self._run(project)
        self._make(plain, self._spark.read.format("delta").load(source), vectors=True)
        ours, reference = [], []
        for turn in range(times + 1):
            first = rows + turn * CHANGED
            self._rows(first, first + CHANGED).write.format("delta").mode("append").save(source)
            ours.append(self._run(project))
            began = time.perf_counter()
            self._merge(source, plain, turn + 1, turn + 1, on="t.title = s.title")
            reference.append(time.perf_counter() - began)
        self._check(plain, self._path("grow"))
        return [
            _result(
                f"merge {CHANGED:,} new rows into {rows:,} rows",
                Pairs(tuple(ours[1:]), tuple(reference[1:])),
                1.1,
                "plain PySpark: read the feed, last change of each key, MERGE with deletion vectors",
            )
        ]

    def many(self, times: int) -> list[Result]:
        import pyarrow as pa
        from deltalake import DeltaTable, write_deltalake

        def words(first: int) -> pa.Table:
            ids = pa.array(range(first, first + IN_EACH), pa.int64())
            return pa.table({"id": ids, "word": pa.array([f"word {first}"] * IN_EACH)})

        def put(number: int, first: int) -> None:
            table = DeltaTable(self._path(f"many_{number}"))
            merger = table.merge(words(first), "s.id = t.id", source_alias="s", target_alias="t")
            merger.when_matched_update_all().when_not_matched_insert_all().execute()

        for number in range(FLOWS):
            write_deltalake(
                self._path(f"many_{number}"),
                words(0),
                configuration={"delta.enableChangeDataFeed": "true"},
            )
        outputs = {f"many_{n}_out": (self._path(f"many_{n}"), "key: id") for n in range(FLOWS)}
        project = self._project("many", outputs)
        self._run(project)
        for number in range(FLOWS):
            self._make(self._path(f"plain_{number}"), self._load(f"many_{number}"), vectors=True)
        idle = [self._run(project, state="SKIPPED") for _ in range(times)]
        ours, reference = [], []
        for turn in range(2):
            for number in range(FLOWS):
                # Half of the keys are there already and get another word.
                put(number, (turn + 1) * IN_EACH // 2)
            ours.append(self._run(project))
            began = time.perf_counter()
            for number in range(FLOWS):
                self._merge(self._path(f"many_{number}"), self._path(f"plain_{number}"), turn + 1, turn + 1)
            reference.append(time.perf_counter() - began)
        self._check(self._path("plain_7"), self._path("many_7_out"))
        return [
            Result(
                f"{FLOWS} flows with nothing new",
                statistics.median(idle),
                2.0,
                1.0,
                "s",
                "the budget of 2 s, warm",
                {"times": times, "slowest": round(max(idle), 3)},
            ),
            _result(
                f"{FLOWS} flows with {IN_EACH:,} changes each",
                Pairs(tuple(ours), tuple(reference)),
                0.6,
                "plain PySpark, one MERGE after the other",
                side_by_side=_SIDE_BY_SIDE,
            ),
        ]

    def _rows(self, first: int, last: int) -> DataFrame:
        return self._spark.range(first, last).selectExpr(*_split(_COLUMNS.format(mark=0)))

    def _make(self, path: str, rows: DataFrame, *, vectors: bool | None = None) -> None:
        writer = rows.write.format("delta").option("delta.enableChangeDataFeed", "true")
        if vectors is not None:
            writer = writer.option("delta.enableDeletionVectors", str(vectors).lower())
        writer.save(path)

    def _load(self, name: str) -> DataFrame:
        return self._spark.read.format("delta").load(self._path(name))

    def _feed(self, path: str, first: int, last: int) -> DataFrame:
        reader = self._spark.read.format("delta").option("readChangeFeed", "true")
        return reader.option("startingVersion", first).option("endingVersion", last).load(path)

    def _merge(self, source: str, target: str, first: int, last: int, on: str = "t.id = s.id") -> None:
        from pyspark.sql import functions as f
        from pyspark.sql.window import Window

        feed = self._feed(source, first, last).where("_change_type <> 'update_preimage'")
        order = Window.partitionBy("id").orderBy(f.desc("_commit_version"))
        newest = feed.withColumn("_n", f.row_number().over(order)).where("_n = 1").drop("_n")
        newest.createOrReplaceTempView("newest")
        columns = [name for name in newest.columns if name not in _FEED]
        self._spark.sql(
            f"MERGE INTO delta.`{target}` t USING newest s ON {on}"
            " WHEN MATCHED AND s._change_type = 'delete' THEN DELETE"
            f" WHEN MATCHED THEN UPDATE SET {', '.join(f't.{name} = s.{name}' for name in columns)}"
            f" WHEN NOT MATCHED AND s._change_type <> 'delete' THEN INSERT ({', '.join(columns)})"
            f" VALUES ({', '.join(f's.{name}' for name in columns)})"
        )

    def _project(self, name: str, flows: dict[str, tuple[str, str]]) -> Path:
        folder = self._folder / "projects" / name
        folder.mkdir(parents=True)
        lines = [f"pipeline: {name}", "flows:"]
        for flow, (source, output) in flows.items():
            lines.append(
                f"  {flow}: {{inputs: {{t: {{path: {source}}}}},"
                f" output: {{path: {self._path(flow)}, {output}}}}}"
            )
        (folder / "tidegauge.yml").write_text("\n".join(lines) + "\n")
        return folder / "tidegauge.yml"

    def _run(self, project: Path, *, state: str = "SUCCESS") -> float:
        """Run the project in this process as `tidegauge run` does, project file and all; return seconds."""
        began = time.perf_counter()
        loaded = load_project(project)
        report = run(loaded, RunOptions(parallel=_SIDE_BY_SIDE), tell=lambda _: None, stop=threading.Event())
        seconds = time.perf_counter() - began
        wrong = [(flow.flow, str(flow.error)) for flow in report.flows if flow.state != state]
        assert not wrong, wrong[:3]
        return seconds

    def _check(self, plain: str, ours: str) -> None:
        """Check that both sides made the same rows; without that the times would mean nothing."""
        one, other = (self._spark.read.format("delta").load(path) for path in (plain, ours))
        columns = sorted(one.columns)
        assert one.select(columns).exceptAll(other.select(columns)).isEmpty()
        assert one.count() == other.count()

    def _path(self, name: str) -> str:
        return str(self._folder / name)


def _split(columns: str) -> Sequence[str]:
    """Split at the commas between expressions, not at those inside parentheses."""
    found, depth, last = [], 0, 0
    for place, letter in enumerate(columns):
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            found.append(columns[last:place])
            last = place + 1
    return [*found, columns[last:]]


def _result(name: str, pairs: Pairs, goal: float, against: str, **more: object) -> Result:
    return Result(
        name,
        pairs.median_ours,
        pairs.median_reference,
        goal,
        "s",
        against,
        {"times": len(pairs.ours), **more},
    )
