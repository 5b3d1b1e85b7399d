"""The law of a flow: what touched keys give, put over the old result, is the new result."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence

import pytest

from tests.support.transforms import NAMES, Bench, Maker, Row, fields
from tidegauge.model.delta_flow import Evaluate
from tidegauge.transform.sql import Columns, read_sql
from tidegauge.transform.touched import find_touched

TYPED: Columns = {name: dict.fromkeys(fields(name), "int") for name in NAMES}
NAMED: Columns = {name: fields(name) for name in NAMES}


MOVING = (NAMES, ("a", "b"), ("a",))


@pytest.fixture(scope="module")
def benches() -> Iterator[dict[Sequence[str], list[Bench]]]:
    """For each choice of incremental inputs, some changes of them."""
    dice = random.Random(6)
    found: dict[Sequence[str], list[Bench]] = {
        incremental: [Bench() for _ in range(8)] for incremental in MOVING
    }
    for incremental, some in found.items():
        for bench in some:
            bench.change(dice, incremental)
    yield found
    for some in found.values():
        for bench in some:
            bench.connection.close()


def law_holds(
    benches: Sequence[Bench], sql: str, by: Sequence[str], columns: Columns | None = TYPED
) -> Evaluate:
    """How the SQL may be evaluated; fails if that breaks the law for what one of the benches holds."""
    incremental = benches[0].moving
    reading = read_sql(sql, inputs=NAMES, incremental=incremental, by=by, columns=columns)
    if reading.evaluate is Evaluate.WHOLE:
        return Evaluate.WHOLE
    queries = [
        find_touched(sql, inputs=NAMES, incremental=incremental, by=by, changed=name, columns=columns)
        for name in incremental
    ]
    for bench in benches:
        _check(bench, sql, by, queries)
        if reading.evaluate is Evaluate.ROWS and not reading.why.startswith("reads nothing"):
            _check_rows(bench, sql)
    return reading.evaluate


def _check(bench: Bench, sql: str, by: Sequence[str], queries: Sequence[str]) -> None:
    found: set[Row] = set()
    for query in queries:
        keys = bench.ask(query)
        assert bench.names() == list(by)
        assert max(keys.values(), default=1) == 1, query
        found |= set(keys)
    old, new = bench.ask(sql, "old"), bench.ask(sql, "new")
    places = [bench.names().index(column) for column in by]

    def is_found(row: Row) -> bool:
        return tuple(row[place] for place in places) in found

    kept = Counter({row: times for row, times in old.items() if not is_found(row)})
    kept += Counter({row: times for row, times in new.items() if is_found(row)})
    assert kept == new, f"{sql}\n{queries}\nmissing {new - kept}, too many {kept - new}, found {found}"


def _check_rows(bench: Bench, sql: str) -> None:
    changed = Counter(bench.ask(sql, "old"))
    changed.subtract(bench.ask(sql, "gone"))
    changed.update(bench.ask(sql, "came"))
    assert +changed == bench.ask(sql, "new"), sql


Benches = dict[Sequence[str], list[Bench]]


def test_the_law_holds_for_transforms_and_changes_by_dice(benches: Benches) -> None:
    ways = Counter[Evaluate]()
    for seed in range(160):
        dice = random.Random(seed)
        incremental = dice.choice((NAMES, *MOVING))
        sql, by = Maker(dice).transform()
        ways[law_holds(benches[incremental], sql, by, dice.choice((TYPED, TYPED, NAMED, None)))] += 1
    assert ways[Evaluate.KEYS] > 50
    assert ways[Evaluate.ROWS] > 15
    assert ways[Evaluate.WHOLE] > 15


KEYS, ROWS, WHOLE = Evaluate.KEYS, Evaluate.ROWS, Evaluate.WHOLE


@pytest.mark.parametrize(
    ("sql", "way"),
    [
        ("SELECT aid AS x, av FROM a WHERE av > 1", ROWS),
        ("SELECT aid AS x, bv FROM a LEFT JOIN b ON afk = bk WHERE bv IS NULL", KEYS),
        ("SELECT aid AS x, cv FROM a LEFT JOIN b ON afk = bk LEFT JOIN c ON ck = coalesce(bfk, 1)", KEYS),
        ("SELECT aid AS x, cv FROM a LEFT JOIN b ON afk = bk JOIN c ON ck = coalesce(bfk, 1)", KEYS),
        ("SELECT cid AS x, av FROM a LEFT JOIN b ON afk = bk JOIN c ON ck = coalesce(bfk, 1)", WHOLE),
        ("SELECT bid AS x, av FROM a RIGHT JOIN b ON ak = bk LEFT JOIN c ON ck = afk", KEYS),
        ("SELECT coalesce(bk, 0) AS x, sum(av) AS s FROM a LEFT JOIN b ON afk = bid GROUP BY 1", KEYS),
        ("SELECT concat(bk, ck) AS x, av FROM a LEFT JOIN b ON afk = bk LEFT JOIN c ON ak = ck", WHOLE),
        ("SELECT coalesce(ak, bk) AS x, av, bv FROM a FULL JOIN b ON ak = bk", KEYS),
        ("SELECT coalesce(ak, bk, ck) AS x, av FROM a FULL JOIN b ON ak = bk FULL JOIN c ON ck = ak", KEYS),
        ("SELECT coalesce(ak, bk) AS x, cv FROM a FULL JOIN b ON ak = bk LEFT JOIN c ON ck = bfk", KEYS),
        (
            "SELECT coalesce(ak, bk) AS x, cv FROM a FULL JOIN b ON ak = bk JOIN c "
            "ON ck <=> bfk WHERE av > 1",
            KEYS,
        ),
        ("SELECT ak AS x, bv FROM a FULL JOIN b ON ak = bk", WHOLE),
        ("SELECT coalesce(ak, 0, bk) AS x, bv FROM a FULL JOIN b ON ak = bk", WHOLE),
        ("SELECT coalesce(ak, bk) AS x, bv FROM a FULL JOIN b ON afk = bfk", WHOLE),
        (
            "SELECT coalesce(ak, bk, ck) AS x FROM a FULL JOIN b ON afk = bk FULL JOIN c "
            "ON coalesce(ak, bk) = ck",
            WHOLE,
        ),
        (
            "SELECT aid AS x, count(*) AS n FROM a LEFT SEMI JOIN b ON ak = bk "
            "GROUP BY aid HAVING count(*) > 1",
            KEYS,
        ),
        ("SELECT aid AS x, av FROM a LEFT ANTI JOIN b ON ak = bk AND bv > 1", KEYS),
        (
            "SELECT aid AS x, s FROM a JOIN (SELECT bk, sum(bv) AS s FROM b GROUP BY bk) q "
            "ON ak = q.bk AND q.s > 3",
            KEYS,
        ),
        (
            "SELECT aid AS x, s FROM a LEFT JOIN (SELECT bk, sum(bv) AS s FROM b GROUP BY bk) q ON ak = s",
            WHOLE,
        ),
        (
            "WITH q AS (SELECT bk, sum(bv) AS s FROM b GROUP BY bk) SELECT aid AS x, cv "
            "FROM a LEFT JOIN q ON ak = bk "
            "LEFT JOIN c ON ck = coalesce(bk, 1)",
            WHOLE,
        ),
        (
            "WITH q AS (SELECT aid AS x, av, bv FROM a JOIN b ON ak = bk) "
            "SELECT x, max(bv) AS m FROM q WHERE av > 1 GROUP BY x",
            KEYS,
        ),
        ("SELECT aid AS x, av AS v FROM a UNION ALL SELECT bid, bv FROM b WHERE bv > 1", KEYS),
        ("SELECT aid AS x FROM a UNION SELECT bid FROM b", KEYS),
        ("SELECT aid AS x, av AS v FROM a WHERE ak = 1 UNION ALL SELECT aid, afk FROM a WHERE av = 2", KEYS),
        ("SELECT DISTINCT ak AS x FROM a JOIN b ON afk = bfk", KEYS),
        ("SELECT aid AS x, cv FROM a, b, c WHERE ak = bk AND bfk = cfk AND av > 1", KEYS),
    ],
)
def test_how_it_is_evaluated_and_that_the_law_holds(benches: Benches, sql: str, way: Evaluate) -> None:
    assert law_holds(benches[NAMES], sql, ["x"]) is way


@pytest.mark.parametrize(
    ("sql", "way"),
    [
        ("SELECT aid AS x, bv FROM a JOIN b ON ak = bk WHERE bv > 1", ROWS),
        ("SELECT aid AS x, bv FROM b RIGHT JOIN a ON ak = bk", ROWS),
        (
            "SELECT aid AS x, n FROM a "
            "LEFT JOIN (SELECT bk, row_number() OVER (ORDER BY bid, bk, bfk, bv) AS n FROM b) q "
            "ON ak = q.bk WHERE av IN (SELECT cv FROM c)",
            ROWS,
        ),
        ("SELECT bid AS x, av FROM b LEFT JOIN a ON ak = bk", KEYS),
        ("SELECT bid AS x, count(av) AS n FROM b LEFT JOIN a ON ak = bk GROUP BY bid", KEYS),
        ("SELECT aid AS x, bv FROM a FULL JOIN b ON ak = bk", WHOLE),
    ],
)
def test_snapshots_stand_still(benches: Benches, sql: str, way: Evaluate) -> None:
    assert law_holds(benches[("a",)], sql, ["x"]) is way


def test_a_key_of_the_moving_input_is_found_whatever_was_pinned_before() -> None:
    """The row that is gone may have met a snapshot that has no such row any more."""
    for sql in (
        "SELECT a.id, p.v FROM a JOIN p ON p.id = a.pid WHERE p.v > 1 AND a.v > 2",
        "SELECT a.id, p.v FROM p JOIN a ON p.id = a.pid WHERE p.v > 1 AND a.v > 2",
    ):
        found = find_touched(sql, inputs=["a", "p"], incremental=["a"], by=["id"], changed="a")
        assert "`p`" not in found
        assert "JOIN" not in found
        assert "a.v > 2" in found


def test_an_input_that_is_not_read_touches_nothing() -> None:
    found = find_touched(
        "SELECT id FROM a", inputs=["a", "b"], incremental=["a", "b"], by=["id"], changed="b"
    )
    assert found == "SELECT NULL AS `id` WHERE FALSE"
