"""Columns that SQL reads and its inputs do not have, found without Spark; and no false alarm."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegauge.errors import Place, TransformFailed, UnknownColumn
from tidegauge.transform.check_columns import check_columns

COLUMNS = {"orders": ["id", "At", "amount", "who", "tags", "items"], "people": ["id", "name", "address"]}
INPUTS = ["orders", "people", "elsewhere"]


def check(text: str) -> tuple[str, ...]:
    """`elsewhere` is an input whose columns are not known."""
    return check_columns(text, inputs=INPUTS, columns=COLUMNS, place=Path("/p/a.sql"))


@pytest.mark.parametrize(
    ("marked", "said", "hint"),
    [
        ("SELECT id,\n  ▲amuont FROM orders", "column amuont", "amount"),
        ("SELECT o.▲nam FROM orders o", "o has no column nam", "amount"),
        ("SELECT o.id FROM orders o JOIN people p ON p.▲idd = o.who", "p has no column idd", "id"),
        ("SELECT o.id FROM orders o JOIN elsewhere e ON o.▲idd = e.any", "o has no column idd", "id"),
        ("SELECT id FROM orders WHERE ▲nme = 1", "column nme", None),
        ("SELECT count(*) AS n FROM orders GROUP BY ▲region", "column region", None),
        ("SELECT id FROM orders ORDER BY ▲region", "column region", None),
        ("SELECT sum(amount) OVER (PARTITION BY ▲region) AS n FROM orders", "column region", None),
        ("WITH c AS (SELECT id AS x FROM orders) SELECT ▲id FROM c", "column id", "there are: x"),
        ("WITH c AS (SELECT ▲idd FROM orders) SELECT * FROM c", "column idd", "id"),
        ("WITH c AS (SELECT * EXCEPT (who) FROM orders) SELECT c.▲who FROM c", "c has no column who", None),
        ("SELECT x.▲id FROM (SELECT id AS i FROM orders) AS x", "x has no column id", "i"),
        ("SELECT q.▲id FROM (SELECT id FROM orders) AS q(a)", "q has no column id", "a"),
        ("SELECT id FROM orders UNION ALL SELECT ▲idd FROM people", "column idd", "id"),
        ("SELECT id FROM orders WHERE who IN (SELECT ▲idd FROM people)", "column idd", "id"),
        ("SELECT id FROM orders o WHERE EXISTS (SELECT 1 FROM people p WHERE p.id = o.▲whoo)", "whoo", "who"),
        ("SELECT (SELECT max(name) FROM people WHERE id = ▲xxx) AS n FROM orders", "column xxx", None),
        ("SELECT ▲adress.street FROM people", "column adress", "address"),
        ("SELECT transform(▲itms, x -> x + 1) AS n FROM orders", "column itms", "items"),
        ("SELECT CASE WHEN ▲b THEN 1 END AS n FROM orders", "column b", None),
        (
            "SELECT o.id, e.x FROM orders o LEFT JOIN elsewhere e USING (id) WHERE o.▲y > 1",
            "no column y",
            None,
        ),
    ],
)
def test_an_unknown_column_is_named_with_line_and_column(marked: str, said: str, hint: str | None) -> None:
    before = marked.partition("▲")[0]
    with pytest.raises(UnknownColumn) as caught:
        check(marked.replace("▲", ""))
    assert said in caught.value.message
    line, column = before.count("\n") + 1, len(before.rpartition("\n")[2]) + 1
    assert caught.value.place == Place("/p/a.sql", line, column)
    assert (hint or "") in (caught.value.hint or "")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT ID, AT, `Amount` FROM Orders",
        "SELECT orders.id, address.street.number, p.address.street FROM orders JOIN people p ON p.id = who",
        "SELECT people.address.street FROM people",
        "SELECT amount * 2 AS double, double + 1 AS more FROM orders HAVING more > 1 ORDER BY double",
        "SELECT who AS w, sum(amount) AS s FROM orders GROUP BY w HAVING s > 1",
        "SELECT transform(items, (x, i) -> x.price + i) AS n, filter(tags, t -> t > amount) AS f FROM orders",
        "SELECT k, v FROM orders LATERAL VIEW explode(items) e AS k, v",
        "SELECT id, e.k FROM orders, LATERAL explode(items) AS e(k)",
        "SELECT * FROM orders, LATERAL (SELECT orders.amount AS b) l WHERE b > 1",
        "SELECT k FROM (SELECT explode(items) AS (k, v) FROM orders)",
        "SELECT col FROM (SELECT explode(items) FROM orders)",
        "SELECT `count(1)` FROM (SELECT count(1) FROM orders)",
        "SELECT a FROM orders PIVOT (sum(amount) FOR who IN ('x' AS a))",
        "SELECT a, b FROM VALUES (1, 2) AS v(a, b), orders",
        "SELECT r.id FROM range(3) r JOIN orders o ON o.id = r.id",
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT n, id FROM r, orders",
        "WITH orders AS (SELECT id AS x FROM orders) SELECT x FROM orders",
        "WITH a AS (SELECT id AS x FROM orders), b AS (SELECT x FROM a) SELECT b.x FROM b",
        "SELECT id FROM orders o WHERE EXISTS (SELECT 1 FROM people WHERE people.id = who AND amount > 1)",
        "SELECT id FROM orders UNION ALL SELECT id FROM people ORDER BY id",
        "SELECT anything, e.more FROM elsewhere e",
        "SELECT anything, o.id FROM elsewhere e JOIN orders o ON o.id = e.x",
        "SELECT datediff(DAY, at, at), timestampadd(MONTH, 1, at), extract(YEAR FROM at) AS y FROM orders",
        "SELECT current_date, current_timestamp, user, _metadata.file_path, o._metadata FROM orders o",
        "SELECT current_time AS a, localtimestamp AS b FROM orders",
        "SELECT id FROM orders QUALIFY row_number() OVER (PARTITION BY who ORDER BY at) = 1",
        "SELECT sum(amount) OVER w AS n FROM orders WINDOW w AS (PARTITION BY who)",
        "SELECT struct(id AS a, who).a AS x, named_struct('b', id).b AS y FROM orders",
        "SELECT o.*, p.name FROM orders o JOIN people p USING (id) WHERE id > 1",
        "SELECT s.* FROM (SELECT struct(id AS a) AS s FROM orders)",
        "SELECT a FROM (SELECT s.* FROM (SELECT struct(id AS a) AS s FROM orders))",
        "SELECT count(*) FILTER (WHERE amount > 1) AS n, max_by(id, at) AS m FROM orders GROUP BY ALL",
        "SELECT id AS Key FROM orders SORT BY key",
        "SELECT items[0].price AS p, tags['x'] AS t FROM orders",
        "SELECT x.id FROM orders x JOIN orders y ON x.id = y.who",
        "FROM orders SELECT id",
        "SELECT 1 AS one FROM orders;\n-- the end",
    ],
)
def test_what_spark_may_take_is_left_to_spark(text: str) -> None:
    check(text)


def test_inputs_that_are_not_read_are_told() -> None:
    assert check("SELECT id FROM ORDERS") == ("people", "elsewhere")
    assert check("SELECT 1 AS x FROM orders, (SELECT name FROM people), elsewhere") == ()


def test_without_a_file_the_place_stands_in_the_sentence() -> None:
    with pytest.raises(TransformFailed, match=r"column idd \(line 2, column 3\)"):
        check_columns("SELECT\n  idd FROM orders", inputs=["orders"], columns=COLUMNS)
