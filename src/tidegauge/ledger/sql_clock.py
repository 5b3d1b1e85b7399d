"""The store's own clock, in UTC and without a zone. A runner's clock is never asked."""

from __future__ import annotations

from typing import Any

from sqlalchemy import DateTime
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement


class store_now(FunctionElement[Any]):  # noqa: N801 - written like the SQL function it becomes
    """The present moment. Where a statement waits for a lock it may be a little early, never late:
    a lease then seems to run a moment longer, which is the safe side."""

    type = DateTime()
    inherit_cache = True


@compiles(store_now, "sqlite")
def _sqlite(*_: Any, **__: Any) -> str:
    # SQLite knows milliseconds; the column's text has six digits.
    return "strftime('%Y-%m-%d %H:%M:%f000', 'now')"


@compiles(store_now, "postgresql")
def _postgresql(*_: Any, **__: Any) -> str:
    # Not now(): that one stands still from the beginning of the transaction.
    return "timezone('UTC', clock_timestamp())"


@compiles(store_now, "mysql")
@compiles(store_now, "mariadb")
def _mysql(*_: Any, **__: Any) -> str:
    # Not UTC_TIMESTAMP: that one stands still from the beginning of the statement. Sessions are in UTC.
    return "SYSDATE(6)"
