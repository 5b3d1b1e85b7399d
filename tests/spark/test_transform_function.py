"""A user's transform: where it is found, what it may do, and how it is told what it did wrong."""

from __future__ import annotations

import importlib
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from tests.spark.moving import Table, collected, delta_flow, quick
from tests.support.project import here
from tidegauge.errors import TransformFailed
from tidegauge.model.batch_data import DeltaChange
from tidegauge.model.delta_flow import Evaluate, Function, Sql
from tidegauge.model.mode import Mode
from tidegauge.transform.choose import choose_evaluation
from tidegauge.transform.evaluate import evaluate_change
from tidegauge.user_modules import import_by_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = {"id": pa.int64(), "g": pa.string(), "n": pa.int64()}


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    return quick(spark)


@pytest.fixture(scope="module")
def table(session: SparkSession) -> Table:
    made = Table(session, COLUMNS)
    made.commit(insert=[(1, "a", 10), (2, "b", 20), (3, "a", 30)])
    made.commit(update=[((1, "a", 10), (1, "b", 11))])
    return made


def run(
    table: Table, transform: Any, choice: Evaluate = Evaluate.ROWS, *, of: str = "t", **given: Any
) -> DeltaChange:
    return evaluate_change(
        delta_flow(transform, of, **given),
        {of: table.window(1, 2)},
        table.session,
        lambda: table.frame([]),
        choice,
    )


def failed(table: Table, transform: Any, **given: Any) -> TransformFailed:
    with pytest.raises(TransformFailed) as caught:
        run(table, transform, **given)
    assert "\n" not in caught.value.sentence
    assert caught.value.hint
    return caught.value


PROJECT = """
import helper
from pyspark.sql import functions as F
from pyspark.sql.types import LongType

def twice(v):
    return v * helper.FACTOR

def t_by_name(t):
    import later
    return t.withColumn("n", F.udf(twice, LongType())("n")).withColumn("g", F.lit(later.LETTER))

def broken(t):
    return helper.look_up(t)
"""
HELPER = """
FACTOR = {factor}

def look_up(t):
    return t.select("id", "nope")
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return made(tmp_path / "one", factor=2)


def made(folder: Path, *, factor: int) -> Path:
    folder.mkdir()
    (folder / "steps.py").write_text(PROJECT)
    (folder / "helper.py").write_text(HELPER.format(factor=factor))
    (folder / "later.py").write_text("LETTER = 'z'")
    (folder / "cut.py").write_text("def f(t):\n    return (t\n")
    (folder / "torn.py").write_text("import helper\n\nVALUE = {}['x']\n")
    return folder


def test_a_function_is_imported_from_the_project_and_its_udf_reaches_the_workers(
    table: Table, project: Path, tmp_path: Path
) -> None:
    first = run(table, Function("steps:t_by_name", root=project)).rows
    assert [(row["id"], row["g"], row["n"]) for row in collected(first)] == [(1, "z", 22)]
    other = Function("steps:t_by_name", root=made(tmp_path / "other", factor=3))
    assert [row["n"] for row in collected(run(table, other).rows)] == [33]


def test_a_function_that_fails_is_told_with_the_users_own_line(
    table: Table, project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    error = failed(table, Function("steps:broken", root=project))
    assert error.message.startswith(
        "steps:broken failed at helper.py:5: A column, variable, or function parameter with name `nope`"
    )
    assert str(error.hint).startswith("one of these may be meant: ")
    error = failed(table, Function("torn:f", root=project))
    assert error.message == "torn:f failed at torn.py:3: KeyError: 'x'"
    assert "cut:f failed at cut.py:2: SyntaxError: " in failed(table, Function("cut:f", root=project)).message
    out, err = capfd.readouterr()
    assert (out, err) == ("", "")


def test_what_is_not_there_is_named(table: Table, project: Path) -> None:
    error = failed(table, Function("stepz:t", root=project))
    assert "there is no module stepz" in error.message
    assert str(project) in str(error.hint)
    error = failed(table, Function("steps:by_nam", root=project))
    assert error.message == "steps has no function by_nam"
    assert error.hint == "it has broken, t_by_name, twice"
    assert "names no function" in failed(table, Function("steps", root=project)).message


def test_a_module_that_prints_or_leaves_is_treated_as_one_that_declares_flows(
    table: Table, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "loud.py").write_text("print('hello')\n\ndef f(t):\n    return t\n")
    (project / "leaves.py").write_text("import sys\nsys.exit(3)\n")
    (project / "json.py").write_text("def f(t):\n    return t\n")
    (project / "quits.py").write_text("import sys\n\ndef f(t):\n    sys.exit(3)\n")
    run(table, Function("loud:f", root=project))
    assert capsys.readouterr() == ("", "hello\n")
    error = failed(table, Function("leaves:f", root=project))
    assert error.message == "leaves:f failed at leaves.py:2: SystemExit: 3"
    error = failed(table, Function("quits:f", root=project))
    assert error.message == "quits:f failed at quits.py:4: SystemExit: 3"
    error = failed(table, Function("json:f", root=project))
    assert "json.py is hidden by another module `json`" in error.message
    assert error.hint == "give the file another name"


def test_what_a_declared_function_calls_reaches_the_workers_too(table: Table, project: Path) -> None:
    named = import_by_name(project, "steps").t_by_name
    found = run(table, Function("steps:t_by_name", root=project, call=named)).rows
    assert [(row["id"], row["g"], row["n"]) for row in collected(found)] == [(1, "z", 22)]


def test_what_was_imported_before_reaches_the_workers_too(
    table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_before.py").write_text("FACTOR = 5\n")
    (tmp_path / "own_notebook.py").write_text(
        PROJECT.replace("helper", "own_before").replace("later.LETTER", "'z'")
    )
    (tmp_path / "later.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("own_notebook")
    found = run(table, Function("own_notebook:t_by_name", root=tmp_path)).rows
    assert [row["n"] for row in collected(found)] == [55]


def test_what_a_transform_prints_while_it_runs_stays_out_of_the_json(
    session: SparkSession, tmp_path: Path
) -> None:
    session.sql("SELECT 1 AS id, 'shown' AS word").write.format("delta").save(str(tmp_path / "source"))
    (tmp_path / "own_talker.py").write_text("def t(t):\n    print('printed')\n    t.show()\n    return t\n")
    (tmp_path / "tidegauge.yml").write_text(
        "pipeline: p\nflows:\n  f: {inputs: {t: {path: source}}, transform: own_talker:t,"
        " output: {path: target, key: id}}\n"
    )
    for command, schema in (("run", "tidegauge/run/1"), ("verify", "tidegauge/verify/1")):
        ran = here(command, "--json", "--project", tmp_path)
        assert ran.code == 0, ran.said
        assert ran.json["schema"] == schema
        assert "printed" in ran.err
        assert "|  1|shown|" in ran.err


def test_parameters_are_the_inputs(table: Table) -> None:
    def other(u: DataFrame) -> DataFrame:
        return u

    error = failed(table, other)
    assert "cannot be called with t: " in error.message
    assert "inputs of the flow" in str(error.hint)


def returns_nothing(t: DataFrame) -> None:
    t.select("id")


def returns_pandas(t: DataFrame) -> Any:
    return t.toPandas()


def divides(t: DataFrame) -> DataFrame:
    return t.limit(1 // 0)


def random_column(t: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    return t.withColumn("r", F.rand())


def random_key(t: DataFrame) -> DataFrame:
    return t.selectExpr("id", "uuid() AS u", "g")


def random_udf(t: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    dice = F.udf(lambda: random.random(), "double").asNondeterministic()
    return t.withColumn("r", dice())


def dated(t: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    return t.where(F.datediff(F.current_date(), F.lit("2026-01-01").cast("date")) >= 0)


def stamped(t: DataFrame) -> DataFrame:
    return t.selectExpr("id", "g", "'now()' AS word", "now() AS at")


def worded(t: DataFrame) -> DataFrame:
    return t.selectExpr("id", "g", "'now()' AS word")


def counts_random(t: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    many = t.crossJoin(t.sparkSession.range(2000)).where(F.rand() < 0.5).count()
    return t.withColumn("many", F.lit(many))


def counts_rand_column(t: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    return t.groupBy("id").agg(F.count(F.rand()))


def random_literal(t: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    return t.withColumn("r", F.lit(random.random()))


def sampled(t: DataFrame) -> DataFrame:
    return t.sample(0.5)


def without_id(t: DataFrame) -> DataFrame:
    return t.select("g", "n")


def twice_n(t: DataFrame) -> DataFrame:
    return t.join(t.select("id", "n"), "id")


@pytest.mark.parametrize(
    ("transform", "said"),
    [
        (returns_nothing, "returns_nothing returned nothing, and not a Spark DataFrame"),
        (returns_pandas, "returned a pandas.core.frame.DataFrame, and not a Spark DataFrame"),
        (divides, f"divides failed at {__file__}:"),
        (random_column, "random_column is not deterministic (rand())"),
        (random_key, "random_key is not deterministic (uuid())"),
        (random_udf, "random_udf is not deterministic (<lambda>"),
        (dated, "dated reads the clock: current_date() is another one with every run"),
        (stamped, "stamped reads the clock: now() is another one"),
        (counts_random, "counts_random is not deterministic: called again"),
        (counts_rand_column, 'Non-deterministic expression "count(rand('),
        (random_literal, "random_literal is not deterministic: called again"),
        (sampled, "sampled is not deterministic: called again"),
        (without_id, "without_id drops the key column id, which output.key names"),
        (twice_n, "twice_n gives the column n more than once"),
        ("SELECT g, n FROM t", "the SQL of flow drops the key column id"),
        ("SELECT id, rand() AS r FROM t", "the SQL of flow is not deterministic (rand())"),
        ("SELECT t.id, u.id FROM t JOIN t u USING (g)", "gives the column id more than once"),
        ("SELECT id FROM t; DROP TABLE t", "the SQL of flow, line 1: Syntax error at or near ';'"),
        ("DROP TABLE t", "Syntax error"),
        ("SELECT id FROM elsewhere", "The table or view `elsewhere` cannot be found"),
        (None, None),
    ],
    ids=lambda value: getattr(value, "__name__", None) or str(value)[:40],
)
def test_what_the_user_has_to_mend_is_told_in_one_sentence(
    table: Table, transform: Any, said: str | None, capfd: pytest.CaptureFixture[str]
) -> None:
    if said is None:
        error = failed(table, transform, key=("nope",))
        assert error.message == "the input of flow has no key column nope, which output.key names"
        return
    assert said in failed(table, transform).message
    assert "Logger" not in capfd.readouterr().err


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ({"sequence_by": "at"}, "drops the column at, which output.sequence_by names"),
        ({"partition_by": ("day",)}, "drops the partition column day, which output.partition_by names"),
        ({"track": ("x",)}, "drops the column x, which output.track names"),
    ],
)
def test_every_column_that_the_output_names_has_to_come_out(
    table: Table, option: dict[str, Any], said: str
) -> None:
    assert said in failed(table, "SELECT id, g FROM t", **option).message


def test_an_error_in_a_file_is_told_with_its_line_and_column(table: Table, tmp_path: Path) -> None:
    file = tmp_path / "silver.sql"
    error = failed(table, Sql("SELECT id,\n  nmae\nFROM t", file))
    assert str(error).startswith(f"{file}:2:3: A column, variable, or function parameter with name `nmae`")
    assert str(failed(table, Sql("SELECT id\nFORM t", file))).startswith(f"{file}:2:6: Syntax error")
    assert str(failed(table, Sql("SELECT g FROM t", file))).startswith(f"{file} drops the key column id")


@pytest.mark.parametrize("transform", [dated, stamped, random_column, random_literal, sampled, worded])
def test_c11_what_is_allowed_is_taken_as_it_comes(table: Table, transform: Callable[..., Any]) -> None:
    flow, why = delta_flow(transform, "t"), "it has a sample"
    clock = transform in (dated, stamped)
    for allowed, evaluate in ((True, Evaluate.AUTO), (False, Evaluate.WHOLE)):
        asked = replace(flow, allow_nondeterministic=allowed, evaluate=evaluate)
        choice = choose_evaluation(asked).evaluate
        if not allowed and not clock and transform is not worded:
            with pytest.raises(TransformFailed, match="not deterministic"):
                evaluate_change(asked, {"t": table.window(1, 2)}, table.session, None, choice)
            continue
        change = evaluate_change(asked, {"t": table.window(1, 2)}, table.session, None, choice)
        assert {row["id"] for row in collected(change.rows)} or transform is sampled
        assert change.notes == (
            () if transform is not sampled else (f"sampled is evaluated by whole: {why}",)
        )


def by_group(t: DataFrame) -> DataFrame:
    return t.groupBy("g").count()


def large_groups(t: DataFrame) -> DataFrame:
    return t.groupBy("g").count().where("count > 1")


def share(t: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    return t.withColumn("n", F.col("n") * 100 / F.lit(t.count()))


def own_rows(t: DataFrame) -> DataFrame:
    names = t.sparkSession.createDataFrame([("a", "Anna"), ("b", "Bert")], "g string, name string")
    return t.join(names, "g", "left")


@pytest.mark.parametrize(
    ("transform", "way", "why"),
    [
        (by_group, "keys", "it has an aggregate"),
        (large_groups, "whole", "it has an aggregate"),
        (share, "whole", "its plan depends on the rows, as after collect() or count()"),
        (own_rows, None, None),
    ],
)
def test_a_function_that_does_not_go_by_rows_is_evaluated_otherwise_or_refused(
    table: Table, transform: Callable[..., Any], way: str | None, why: str | None
) -> None:
    key = ("id",) if transform in (share, own_rows) else ("g",)
    change = evaluate_change(
        delta_flow(transform, "t", key=key), {"t": table.window(1, 2)}, table.session, None, Evaluate.ROWS
    )
    name = transform.__name__
    assert change.notes == ((f"{name} is evaluated by {way}: {why}",) if way else ())
    found = {row[key[0]]: row for row in collected(change.rows)}
    if transform is by_group:
        assert {one: row["count"] for one, row in found.items()} == {"a": 1, "b": 2}
    if why is not None:
        error = failed(table, transform, key=key, evaluate=Evaluate.ROWS)
        assert error.message == f"{name} cannot be evaluated by rows: {why}"
        assert error.hint == "evaluate: keys, or evaluate: whole"
        error = failed(table, transform, key=(), mode=Mode.APPEND)
        assert error.hint == "use mode: merge or replace_partitions"
