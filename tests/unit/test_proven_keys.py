"""What proves that a key is one row's: the commits of the input, and a transform that passes it on."""

from __future__ import annotations

import json

import pytest

from tidegauge.delta_log.commit import parse_commit
from tidegauge.transform.input_column import find_input_column

COLUMNS = {"orders": ["id", "Day", "v"], "dims": ["id", "name"]}


@pytest.mark.parametrize(
    ("said", "key"),
    [
        ({"tidegauge": 1, "key": ["id", "day"]}, ("id", "day")),
        ({"tidegauge": 1}, ()),
        ({"tidegauge": 2, "key": ["id"]}, ()),
        ({"tidegauge": 1, "key": "id"}, ()),
        ({"tidegauge": 1, "key": [1]}, ()),
        ({"key": ["id"]}, ()),
        (["tidegauge"], ()),
    ],
)
def test_d10_a_key_is_proven_by_our_own_words_alone(said: object, key: tuple[str, ...]) -> None:
    info = {"timestamp": 1, "operation": "MERGE", "userMetadata": json.dumps(said)}
    assert parse_commit(1, json.dumps({"commitInfo": info}).encode()).key == key
    for other in ('"tidegauge" {', None, 7):
        assert parse_commit(1, json.dumps({"commitInfo": {**info, "userMetadata": other}}).encode()).key == ()


@pytest.mark.parametrize(
    ("sql", "column"),
    [
        ("SELECT id FROM orders", "id"),
        ("SELECT v AS id FROM orders", "v"),
        ("SELECT * FROM orders", "id"),
        ("SELECT o.* FROM orders o LEFT JOIN dims d ON d.id = o.v", "id"),
        ("WITH w AS (SELECT id AS x, v FROM orders) SELECT x AS id FROM w WHERE v > 1", "id"),
        ("SELECT id, e FROM (SELECT id, tags FROM orders) LATERAL VIEW explode(tags) t AS e", "id"),
        ("SELECT d.id FROM orders o JOIN dims d ON d.id = o.v", None),
        ("SELECT id + 0 AS id FROM orders", None),
        ("SELECT coalesce(id, v) AS id FROM orders", None),
        ("SELECT id FROM orders UNION ALL SELECT id FROM orders", None),
        ("SELECT id FROM orders JOIN dims", None),
        ("SELECT v FROM orders", None),
    ],
)
def test_d10_a_column_is_passed_on_only_as_it_is(sql: str, column: str | None) -> None:
    assert find_input_column(sql, "id", incremental="orders", columns=COLUMNS) == column
