"""What MySQL servers say of their replication that cannot be started here: their words, made up."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from tidegauge.errors import SourceError
from tidegauge.sources.dialect import ClockReading, OpenWork
from tidegauge.sources.mysql.open_work import PrivilegeMissing
from tidegauge.sources.mysql.replication import as_replica

NOON = datetime(2025, 6, 1, 12)
SECOND = timedelta(seconds=1)
READING = ClockReading(NOON, (OpenWork(NOON - SECOND, "connection 7"),), sure=False)


class Server:
    """`answers`: what it says to each statement that it knows; it refuses all others."""

    def __init__(
        self,
        answers: dict[str, list[dict[str, Any]]],
        *,
        read_only: int = 1,
        reads_files_only: int = 0,
        appliers: int = 2,
        refusal: SourceError | None = None,
    ) -> None:
        self._answers = answers
        self._state = (read_only, reads_files_only, appliers)
        self._refusal = refusal or SourceError("You have an error in your SQL syntax", hint="")

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return [self._state]

    def records(self, sql: str) -> list[dict[str, Any]]:
        if sql not in self._answers:
            raise self._refusal
        return self._answers[sql]


def newer(behind: int | None) -> dict[str, Any]:
    return {
        "Replica_IO_State": "Waiting",
        "Replica_IO_Running": "Yes",
        "Replica_SQL_Running": "Yes",
        "Seconds_Behind_Source": behind,
        "Last_IO_Error": "",
        "Last_SQL_Error": "",
        "Replica_SQL_Running_State": "Replica has read all relay log",
    }


def older(behind: int | None) -> dict[str, Any]:
    return {
        name.replace("Replica", "Slave").replace("Source", "Master"): value
        for name, value in newer(behind).items()
    }


@pytest.mark.parametrize(
    "answers",
    [
        {"SHOW REPLICA STATUS": [newer(5)]},
        {"SHOW REPLICA STATUS": [newer(1), newer(5)]},
        {"SHOW SLAVE STATUS": [older(5)]},
    ],
)
def test_a7_every_version_of_mysql_says_how_far_its_slowest_channel_is(answers: Any) -> None:
    found = as_replica(Server(answers), READING, "app", mariadb=False)
    assert (found.clock, found.now, found.open, found.sure) == (NOON - 6 * SECOND, NOON, (), True)


def test_a7_a_server_without_any_replication_is_read_as_it_is() -> None:
    answers: Any = {"SHOW REPLICA STATUS": []}
    assert as_replica(Server(answers, read_only=0, appliers=0), READING, "app", mariadb=False) is READING


def test_a7_on_a_writable_replica_what_is_open_counts_too() -> None:
    answers = {"SHOW REPLICA STATUS": [newer(5)]}
    found = as_replica(Server(answers, read_only=0), READING, "app", mariadb=False)
    assert (found.clock, found.open, found.sure) == (NOON - 6 * SECOND, READING.open, False)


@pytest.mark.parametrize(
    ("server", "why"),
    [
        (Server({}, reads_files_only=1), "innodb_read_only"),
        (Server({"SHOW REPLICA STATUS": []}), "a member of a cluster"),
        (Server({"SHOW REPLICA STATUS": []}, read_only=0), "a member of a cluster"),
        (Server({}, refusal=PrivilegeMissing("no", hint="")), "GRANT REPLICATION CLIENT"),
    ],
)
def test_a7_where_a_replica_does_not_say_how_far_it_is_settle_has_to_be_longer(
    server: Server, why: str
) -> None:
    found = as_replica(server, READING, "app", mariadb=False)
    assert found.clock == NOON
    assert found.blind is not None
    assert why in found.blind
    assert "it has to be longer than it is behind" in found.blind


def test_a7_a_login_without_rights_on_an_ordinary_server_is_told_nothing_of_replicas() -> None:
    server = Server({}, read_only=0, appliers=0, refusal=PrivilegeMissing("no", hint=""))
    assert as_replica(server, READING, "app", mariadb=False) is READING
