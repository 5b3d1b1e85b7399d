"""What is read from a transform's text: how it can be evaluated, what is wrong with it and where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tidegauge.errors import Place, TransformFailed
from tidegauge.model.delta_flow import DeltaFlow, DeltaInput, DeltaTable, Evaluate, Function, Sql, TableRef
from tidegauge.model.mode import Mode
from tidegauge.transform.carry import carry_columns
from tidegauge.transform.choose import choose_evaluation
from tidegauge.transform.sql import Evaluation, read_sql
from tidegauge.transform.touched import find_touched

KEYS, ROWS, WHOLE = Evaluate.KEYS, Evaluate.ROWS, Evaluate.WHOLE
INPUTS = ("orders", "items", "dims")


def reading(
    sql: str, by: Sequence[str] = ("id",), incremental: Sequence[str] = ("orders", "items")
) -> Evaluation:
    return read_sql(sql, inputs=INPUTS, incremental=incremental, by=by)


def refused(sql: str, by: Sequence[str] = ("id",)) -> TransformFailed:
    with pytest.raises(TransformFailed) as failed:
        read_sql(sql, inputs=INPUTS, incremental=("orders", "items"), by=by, place=Path("gold/daily.sql"))
    assert failed.value.hint
    return failed.value


@pytest.mark.parametrize(
    ("sql", "way", "why"),
    [
        ("SELECT * FROM orders", ROWS, "row by row over orders"),
        ("SELECT ID, v FROM `Orders` AS `O` WHERE `o`.v > 1 ORDER BY v", ROWS, "row by row over orders"),
        ("SELECT id, explode(tags) AS tag FROM orders", ROWS, "row by row over orders"),
        ("SELECT id, e FROM orders LATERAL VIEW explode(tags) x AS e", ROWS, "row by row over orders"),
        ("SELECT o.id, d.* FROM orders o LEFT JOIN dims d USING (k)", ROWS, "row by row over orders"),
        (
            "WITH o AS (SELECT id, v FROM orders), p AS (SELECT * FROM o WHERE v > 1) SELECT id FROM p",
            ROWS,
            "row by row",
        ),
        (
            "WITH orders AS (SELECT * FROM orders WHERE v > 1) SELECT id FROM orders",
            ROWS,
            "row by row over orders",
        ),
        ("SELECT id, my_udf(v) AS w FROM orders", ROWS, "row by row over orders"),
        ("SELECT id FROM orders WHERE k LIKE ANY ('a%', 'b%')", ROWS, "row by row over orders"),
        ("SELECT id, any(v > 1) AS w FROM orders GROUP BY id", KEYS, "covers the grouping"),
        ("SELECT 1 AS id FROM dims", ROWS, "reads no incremental input"),
        ("SELECT id, sum(v) FROM orders GROUP BY id", KEYS, "GROUP BY; the key covers the grouping"),
        ("SELECT o.id, i.v FROM orders o JOIN items i ON o.id = i.oid", KEYS, "joins 2 inputs"),
        (
            "SELECT i.k AS id, sum(o.v) FROM orders o JOIN items i ON o.id = i.oid GROUP BY ALL",
            KEYS,
            "covers the grouping",
        ),
        ("SELECT date(o.at) AS id, count(*) FROM orders o GROUP BY date(o.at)", KEYS, "covers the grouping"),
        ("SELECT id, v FROM orders UNION ALL SELECT id, v FROM items", KEYS, "UNION ALL"),
        ("SELECT DISTINCT id FROM orders", KEYS, "DISTINCT"),
        ("SELECT DISTINCT id, v FROM orders", WHOLE, "DISTINCT over more columns than the key"),
        (
            "SELECT id, v FROM orders UNION SELECT id, v FROM items",
            WHOLE,
            "UNION over more columns than the key",
        ),
        ("SELECT * FROM orders UNION ALL SELECT * FROM items", WHOLE, "columns are not known"),
        ("SELECT id FROM orders INTERSECT SELECT id FROM items", WHOLE, "INTERSECT"),
        ("SELECT id FROM orders EXCEPT SELECT id FROM items", WHOLE, "EXCEPT"),
        ("SELECT id FROM orders LIMIT 5", WHOLE, "LIMIT"),
        ("SELECT id FROM orders ORDER BY id OFFSET 5", WHOLE, "OFFSET"),
        ("SELECT id, row_number() OVER (ORDER BY v) FROM orders", WHOLE, "window function ROW_NUMBER"),
        ("SELECT id, sum(v) OVER (PARTITION BY id) FROM orders", WHOLE, "window function SUM"),
        ("SELECT id FROM orders QUALIFY rank() OVER (ORDER BY v) = 1", WHOLE, "window function RANK"),
        ("SELECT a.id FROM orders a JOIN orders b ON a.id = b.k", WHOLE, "self-join of orders"),
        (
            "WITH o AS (SELECT * FROM orders) SELECT a.id FROM o a JOIN o b ON a.id = b.k",
            WHOLE,
            "self-join of orders",
        ),
        ("SELECT id FROM orders WHERE k IN (SELECT k FROM items)", WHOLE, "a subquery over items"),
        ("SELECT id, (SELECT max(v) FROM orders) m FROM orders", WHOLE, "a subquery over orders"),
        ("SELECT max(id) AS id FROM orders", WHOLE, "MAX without GROUP BY"),
        ("SELECT try_sum(v) AS id FROM orders", WHOLE, "TRY_SUM without GROUP BY"),
        ("SELECT my_udaf(v) AS id FROM orders", WHOLE, "my_udaf may be an aggregate"),
        ("SELECT k, max(id) AS id FROM orders GROUP BY k", WHOLE, "the key does not cover the grouping"),
        ("SELECT k, my_udaf(v) AS id FROM orders GROUP BY k", WHOLE, "which may be an aggregate"),
        ("SELECT id, count(*) FROM orders GROUP BY id WITH ROLLUP", WHOLE, "GROUPING SETS, CUBE or ROLLUP"),
        ("SELECT id, count(*) FROM orders GROUP BY CUBE (id)", WHOLE, "GROUPING SETS, CUBE or ROLLUP"),
        ("SELECT id, k, count(*) FROM orders GROUP BY GROUPING SETS ((id), (k))", WHOLE, "GROUPING SETS"),
        (
            "SELECT window(at, '1 hour').start AS id, count(*) FROM orders GROUP BY 1",
            WHOLE,
            "time windows",
        ),
        ("SELECT id FROM orders TABLESAMPLE (10 PERCENT)", WHOLE, "TABLESAMPLE"),
        ("SELECT id FROM orders PIVOT (sum(v) FOR k IN (1, 2))", WHOLE, "PIVOT"),
        (
            "SELECT o.id FROM orders o JOIN LATERAL (SELECT * FROM items i WHERE i.k = o.k) l",
            WHOLE,
            "LATERAL",
        ),
        ("SELECT o.id FROM orders o NATURAL JOIN items", WHOLE, "NATURAL JOIN"),
        ("SELECT o.id FROM (orders o JOIN items i ON o.id = i.k)", WHOLE, "in FROM"),
        ("SELECT id, v FROM orders LEFT JOIN items ON id = oid", WHOLE, "does not say whose column"),
        (
            "WITH RECURSIVE r AS (SELECT id FROM orders UNION ALL SELECT id FROM r) SELECT id FROM r",
            WHOLE,
            "recursive",
        ),
    ],
)
def test_what_the_sql_allows_and_why(sql: str, way: Evaluate, why: str) -> None:
    found = reading(sql)
    assert (found.evaluate, why in found.why) == (way, True), found


@pytest.mark.parametrize(
    ("sql", "line", "column", "cause"),
    [
        ("SELECT id,\n  v FROM\nWHERE v", 3, 1, "cannot be read"),
        ("SELECT 'open FROM orders", 1, 1, "cannot be read"),
        ("SELECT id FROM orders WHERE (", 1, 29, "an expression is missing near ("),
        ("SELECT CASE WHEN id THEN FROM orders", 1, 26, "an expression is missing near FROM"),
        ("SELECT id FROM orders; SELECT id FROM items", 1, 1, "several statements"),
        ("INSERT INTO orders SELECT 1", 1, 1, "an INSERT and no query"),
        ("  -- nothing\n", 1, 1, "empty"),
        ("SELECT 1 AS id", 1, 1, "reads no input"),
        ("SELECT id\nFROM orders JOIN silver.items USING (id)", 2, 18, "silver.items, which is no input"),
        ("SELECT id FROM\n  stores", 2, 3, "stores, which is no input"),
        ("SELECT v FROM orders", 1, 1, "drops the key column id"),
        ("SELECT * EXCEPT (id) FROM orders", 1, 1, "drops the key column id"),
        ("SELECT upper(id), v FROM orders", 1, 1, "drops the key column id"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(sql: str, line: int, column: int, cause: str) -> None:
    error = refused(sql)
    assert cause in error.message
    assert error.place == Place("gold/daily.sql", line, column)


def test_sql_that_only_spark_can_read_is_left_to_it_when_asked_for_whole() -> None:
    sql = "SELECT window.start AS id, count(*) AS n FROM orders GROUP BY window(at, '1 hour')"
    assert "evaluate: whole" in str(refused(sql).hint)
    assert choose_evaluation(delta_flow(sql, evaluate=WHOLE)).evaluate is WHOLE


def test_without_a_file_the_message_has_line_and_column() -> None:
    with pytest.raises(TransformFailed, match=r"rand.*\(line 2, column 2\)"):
        choose_evaluation(delta_flow("SELECT id,\n rand() FROM orders"))


@pytest.mark.parametrize(
    ("sql", "line", "column", "cause"),
    [
        ("SELECT id,\n   Rand() AS r FROM orders", 2, 4, "not deterministic: Rand()"),
        ("SELECT id, `uuid`() AS r FROM orders", 1, 12, "not deterministic: uuid()"),
        ("SELECT monotonically_increasing_id() AS id FROM orders", 1, 8, "not deterministic"),
        ("SELECT id, current_date() AS d FROM orders", 1, 12, "reads the clock: CURRENT_DATE"),
        ("SELECT id FROM orders\nWHERE at > Current_Timestamp", 2, 12, "reads the clock: CURRENT_TIMESTAMP"),
        ("SELECT id, now() AS d FROM orders", 1, 12, "reads the clock: NOW"),
        ("SELECT id, date_diff(curdate(), at) AS d FROM orders", 1, 22, "reads the clock: CURDATE"),
        ("SELECT id, unix_timestamp() AS d FROM orders", 1, 12, "reads the clock: UNIX_TIMESTAMP"),
        ("SELECT id, localtimestamp() AS d FROM orders", 1, 12, "reads the clock: LOCALTIMESTAMP"),
        ("SELECT id, localtimestamp AS d FROM orders", 1, 12, "reads the clock: LOCALTIMESTAMP"),
        ("SELECT id, current_time AS d FROM orders", 1, 12, "reads the clock: CURRENT_TIME"),
    ],
)
def test_c11_dice_and_clocks_are_refused_with_their_place_and_the_ways_out(
    sql: str, line: int, column: int, cause: str
) -> None:
    flow = replace(delta_flow(sql), transform=Sql(sql, Path("gold/daily.sql")))
    for mode in (Mode.MERGE, Mode.APPEND, Mode.REPLACE_PARTITIONS):
        output = replace(flow.output, mode=mode, partition_by=("id",))
        with pytest.raises(TransformFailed) as failed:
            choose_evaluation(replace(flow, output=output))
        assert cause in failed.value.message
        assert failed.value.place == Place("gold/daily.sql", line, column)
        assert "allow_nondeterministic: true" in str(failed.value.hint)
    assert choose_evaluation(replace(flow, allow_nondeterministic=True)).evaluate in (ROWS, WHOLE)
    # What is computed whole each time has the time of its batch; dice fall otherwise at a retry.
    whole = replace(flow, evaluate=WHOLE)
    overwrites = replace(flow, output=replace(flow.output, mode=Mode.OVERWRITE))
    if "clock" in cause:
        assert "evaluate: whole" in str(failed.value.hint)
        assert {choose_evaluation(one).evaluate for one in (whole, overwrites)} == {WHOLE}
    else:
        for one in (whole, overwrites):
            with pytest.raises(TransformFailed, match="not deterministic"):
                choose_evaluation(one)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id, o.current_date, `now` FROM orders o",
        "SELECT id, at AS current_timestamp, 'now()' AS now FROM orders -- now()",
        "SELECT id, unix_timestamp(at) AS s, to_date(at) AS d FROM orders",
        "SELECT id, current_date FROM orders",
    ],
)
def test_c11_columns_and_texts_are_no_clocks(sql: str) -> None:
    assert (
        choose_evaluation(delta_flow(sql), columns={"orders": ["id", "at", "current_date"]}).evaluate is ROWS
    )


def test_the_hint_lists_the_inputs() -> None:
    assert "orders, items, dims" in str(refused("SELECT id FROM order").hint)


def test_names_in_comments_and_strings_are_no_functions() -> None:
    assert reading("SELECT id, 'rand()' AS rand, /* uuid() */ v FROM orders -- shuffle(x)").evaluate is ROWS


def test_known_columns_tell_whose_a_column_is() -> None:
    sql = "SELECT id, v FROM orders LEFT JOIN items ON id = oid"
    found = read_sql(
        sql,
        inputs=INPUTS,
        incremental=["orders", "items"],
        by=["id"],
        columns={"orders": ["id"], "items": ["oid", "v"]},
    )
    assert found.evaluate is KEYS
    with pytest.raises(TransformFailed, match="drops the key column nr"):
        read_sql(
            "SELECT * FROM orders",
            inputs=INPUTS,
            incremental=["orders"],
            by=["nr"],
            columns={"orders": ["id"]},
        )


def test_a_full_join_on_other_types_is_computed_whole() -> None:
    """'01' = 1, but the keys are two."""
    sql = "SELECT id, o.v FROM orders o FULL JOIN items i USING (id)"
    for kind, way in (("int", KEYS), ("string", WHOLE)):
        columns = {"orders": {"id": "int", "v": "int"}, "items": {"id": kind}}
        found = read_sql(sql, inputs=INPUTS, incremental=["orders", "items"], by=["id"], columns=columns)
        assert found.evaluate is way


def test_touched_keys_of_a_whole_transform_are_refused() -> None:
    with pytest.raises(TransformFailed, match="LIMIT"):
        find_touched(
            "SELECT id FROM orders LIMIT 1",
            inputs=INPUTS,
            incremental=["orders"],
            by=["id"],
            changed="orders",
        )


@pytest.mark.parametrize(
    ("sql", "carrying"),
    [
        ("SELECT * FROM orders", "SELECT * FROM orders"),
        ("SELECT o.*, 1 AS one FROM orders o", "SELECT o.*, 1 AS one FROM orders AS o"),
        ("SELECT id FROM orders WHERE v > 1", "SELECT id, `orders`.`_v` AS `_v` FROM orders WHERE v > 1"),
        (
            "SELECT d.*, o.id FROM orders o JOIN dims d ON o.k = d.k",
            "SELECT d.*, o.id, `o`.`_v` AS `_v` FROM orders AS o JOIN dims AS d ON o.k = d.k",
        ),
        (
            "WITH o AS (SELECT id FROM orders) SELECT id + 1 AS id FROM o",
            "SELECT id + 1 AS id, `o`.`_v` AS `_v` FROM (SELECT id, `orders`.`_v` AS `_v` FROM orders) AS o",
        ),
        ("SELECT id, v AS _v FROM orders", None),
        ("SELECT * EXCEPT (_v) FROM orders", None),
        ("SELECT id, count(*) FROM orders GROUP BY id", None),
        ("SELECT DISTINCT id FROM orders", None),
        ("SELECT x.a FROM orders AS x(a)", None),
    ],
)
def test_columns_are_carried_through(sql: str, carrying: str | None) -> None:
    assert carry_columns(sql, incremental="orders", columns=["_v"]) == carrying


def delta_flow(sql: str | None, mode: Mode = Mode.MERGE, *, evaluate: Evaluate = Evaluate.AUTO) -> DeltaFlow:
    return DeltaFlow(
        pipeline="shop",
        name="gold",
        inputs=tuple(
            DeltaInput(name, TableRef(name=f"silver.{name}"), snapshot=name == "dims") for name in INPUTS
        ),
        output=DeltaTable(TableRef(name="gold.x"), mode, key=("id",), partition_by=("day",)),
        transform=Sql(sql) if sql else None,
        evaluate=evaluate,
    )


JOIN = "SELECT o.id, o.day, i.v FROM orders o JOIN items i ON o.id = i.oid"
EACH = "SELECT id, day FROM orders"
RANKED = "SELECT id, day, rank() OVER (ORDER BY v) AS r FROM orders"
BY_DAY = "SELECT day, count(*) AS n FROM orders GROUP BY day"


@pytest.mark.parametrize(
    ("one", "way"),
    [
        (delta_flow(None), ROWS),
        (delta_flow(EACH), ROWS),
        (delta_flow(JOIN), KEYS),
        (delta_flow(JOIN, Mode.SCD2), KEYS),
        (delta_flow(RANKED), WHOLE),
        (delta_flow(EACH, evaluate=WHOLE), WHOLE),
        (delta_flow(EACH, evaluate=KEYS), KEYS),
        (delta_flow(EACH, Mode.APPEND), ROWS),
        (delta_flow(EACH, Mode.OVERWRITE), WHOLE),
        (delta_flow(BY_DAY, Mode.REPLACE_PARTITIONS), KEYS),
        (delta_flow(RANKED, Mode.REPLACE_PARTITIONS), WHOLE),
        (replace(delta_flow(None), transform=Function("m:f")), KEYS),
        (replace(delta_flow(None), transform=Function("m:f"), inputs=delta_flow(None).inputs[:1]), ROWS),
        (replace(delta_flow(None), transform=Function("m:f"), evaluate=WHOLE), WHOLE),
        (replace(delta_flow(None), transform=Function("m:f"), evaluate=ROWS), ROWS),
        (replace(delta_flow(RANKED), inputs=(replace(delta_flow(None).inputs[0], raw=True),)), ROWS),
    ],
)
def test_how_a_flow_is_evaluated(one: DeltaFlow, way: Evaluate) -> None:
    assert choose_evaluation(one).evaluate is way


@pytest.mark.parametrize(
    ("one", "cause"),
    [
        (
            delta_flow(JOIN, evaluate=ROWS),
            "with `evaluate: rows` the target would differ from the transform over all rows: joins 2 inputs",
        ),
        (
            delta_flow(RANKED, evaluate=KEYS),
            "`evaluate: keys` the target would differ from the transform over all rows: window function RANK",
        ),
        (delta_flow(JOIN, Mode.APPEND), "append takes a row-wise transform of one incremental input"),
        (delta_flow(EACH, Mode.APPEND, evaluate=WHOLE), "append takes a row-wise transform"),
        (delta_flow(BY_DAY), "drops the key column id"),
    ],
)
def test_what_a_flow_may_not_ask_for(one: DeltaFlow, cause: str) -> None:
    with pytest.raises(TransformFailed) as failed:
        choose_evaluation(one)
    assert cause in failed.value.message
    assert failed.value.hint
