"""A connection to MySQL that is lost is worth another try, on both sides."""

from __future__ import annotations

import pymysql
import pytest

from tidegauge.errors import OutputUnreachable, SourceUnreachable
from tidegauge.model.mysql_codes import CONNECTION_LOST, LOGIN_REFUSED
from tidegauge.model.spec import Database, Engine
from tidegauge.outputs.warehouse.mysql.session import MysqlLogin, translate_error
from tidegauge.sources.mysql.dialect import MysqlDialect

LOST = {
    0: "the connection is closed",
    1040: "too many connections",
    1053: "the server is being stopped",
    1927: "MariaDB ended it",
    2003: "nobody listens",
    2006: "the server is gone",
    2013: "lost during a query",
    4031: "MySQL ended it, since it was idle",
}


def both(code: int) -> tuple[Exception, Exception]:
    """What a source and a warehouse make of an error with this code."""
    error = pymysql.err.OperationalError(code, "no")
    source = object.__new__(MysqlDialect)
    source._database, source._address = Database("app", Engine.MYSQL), "h:1"
    return source._translate(error), translate_error(error, MysqlLogin("w", "h:1", {}, {}))


def test_every_code_is_tried_here() -> None:
    assert set(LOST) == CONNECTION_LOST


@pytest.mark.parametrize("code", LOST, ids=LOST.values())
def test_a_lost_connection_is_worth_another_try(code: int) -> None:
    source, target = both(code)
    assert isinstance(source, SourceUnreachable)
    assert isinstance(target, OutputUnreachable)
    assert source.retryable
    assert target.retryable


@pytest.mark.parametrize("code", sorted(LOGIN_REFUSED))
def test_a_refused_login_is_not(code: int) -> None:
    source, target = both(code)
    assert isinstance(source, SourceUnreachable)
    assert isinstance(target, OutputUnreachable)
    assert not source.retryable
    assert not target.retryable
