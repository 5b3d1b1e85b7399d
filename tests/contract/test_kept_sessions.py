"""Connections that a run keeps for the next who needs one, on real servers."""

from __future__ import annotations

import pytest

from tests.support.project import until
from tests.support.warehouse_servers import mariadb_database, postgres_database
from tidegauge.outputs.warehouse.kept_sessions import kept_open, session_of
from tidegauge.outputs.warehouse.open import open_warehouse

ASK = {
    "postgres": (
        "SELECT pg_backend_pid()",
        "SELECT pg_terminate_backend({})",
        "SELECT 1 FROM pg_stat_activity WHERE pid = {}",
    ),
    "mariadb": (
        "SELECT CONNECTION_ID()",
        "KILL {}",
        "SELECT 1 FROM information_schema.processlist WHERE id = {}",
    ),
}


@pytest.mark.parametrize("engine", ASK)
def test_one_that_the_server_ended_between_two_uses_is_not_missed(
    request: pytest.FixtureRequest, engine: str
) -> None:
    server = request.getfixturevalue(engine)
    made = postgres_database(server) if engine == "postgres" else mariadb_database(server)
    warehouse, (number, end, there) = open_warehouse(made), ASK[engine]
    with kept_open():
        other = warehouse.connect()
        with session_of(warehouse) as session:
            [(first,)] = session.rows(number)
        assert other.rows(there.format(first))
        other.rows(end.format(first))

        def ended() -> bool:
            other.rollback()  # for all of one transaction, PostgreSQL shows the sessions as it first saw them
            return not other.rows(there.format(first))

        until(ended)
        other.close()
        with session_of(warehouse) as session:
            assert session.rows(number) != [(first,)]
