"""Which columns a column of a transform's SQL is made from."""

from __future__ import annotations

import pytest

from tidegauge.transform.column_lineage import find_column_lineage

COLUMNS = {"orders": ["id", "Amount", "customer_id"], "customers": ["id", "name"]}


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        (
            "SELECT * FROM orders",
            {"id": "orders.id", "amount": "orders.Amount", "customer_id": "orders.customer_id"},
        ),
        (
            "SELECT o.id, o.amount * 2 AS twice, c.name, 1 AS one FROM orders o"
            " JOIN customers c ON c.id = o.customer_id",
            {"id": "orders.id", "twice": "orders.Amount", "name": "customers.name"},
        ),
        (
            "WITH t AS (SELECT customer_id, sum(amount) AS total FROM orders GROUP BY 1)"
            " SELECT total, name FROM t JOIN customers c ON c.id = t.customer_id",
            {"total": "orders.Amount", "name": "customers.name"},
        ),
        ("SELECT id FROM orders UNION ALL SELECT id FROM customers", {"id": "customers.id, orders.id"}),
        ("SELECT coalesce(amount, customer_id) AS k FROM orders", {"k": "orders.Amount, orders.customer_id"}),
        # What cannot be told is left out: an input without columns, a column that is not there, no SQL.
        ("SELECT id FROM elsewhere", {}),
        ("SELECT nothing FROM orders", {}),
        ("SELECT FROM WHERE", {}),
        ("SELECT count(*) AS n FROM orders", {}),
    ],
)
def test_columns_lead_to_where_they_come_from(sql: str, found: dict[str, str]) -> None:
    origins = find_column_lineage(sql, COLUMNS)
    assert {name: ", ".join(map(".".join, made)) for name, made in origins.items()} == found
