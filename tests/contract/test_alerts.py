"""Alerts: what was told is in the ledger, so that many runners tell once, on every kind of store."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from tests.contract.test_ledger_races import together
from tests.support import processes
from tests.support.drafts import ME, draft, nothing_new
from tests.support.ledgers import open_sql
from tests.support.project import PATIENCE, sqlite_database
from tests.support.receiver import Receiver, receiving
from tidegauge.config.load import load_project
from tidegauge.errors import LedgerUnreachable
from tidegauge.flows.selection.scheduled import find_scheduled
from tidegauge.ledger.open import Ledger, open_ledger
from tidegauge.ledger.sql_load import load_one
from tidegauge.model.alert import AlertChannel, AlertKind, AlertResult, AlertSettings
from tidegauge.model.health import HealthCheck, HealthFinding, HealthLevel
from tidegauge.model.secret import Secret
from tidegauge.model.spec import Project, SparkSettings
from tidegauge.model.state import State
from tidegauge.model.telemetry import Telemetry
from tidegauge.observe.channels import Message, apprise_library, send_all
from tidegauge.operations import alerts, incidents
from tidegauge.operations.alerts import LOG, list_incidents, send_alerts
from tidegauge.operations.health import Health

MINUTE = timedelta(minutes=1)
BROKEN = HealthFinding(HealthCheck.STATUS, HealthLevel.CRITICAL, "it broke", AlertKind.FAILED)


def unwell(flow: str = "orders", failures: int = 1) -> Health:
    made = Health(flow, State.FAILED, None, failures, (), ())
    return made.adding([BROKEN])


def well(flow: str = "orders") -> Health:
    return Health(flow, State.SUCCESS, None, 0, (), ())


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as made:
        yield made


def project_at(address: str, folder: Path, *urls: str, after: int = 1) -> Project:
    names = ("json", "json-2")
    channels = tuple(AlertChannel(name, Secret(url)) for name, url in zip(names, urls, strict=False))
    settings = AlertSettings(tuple(AlertKind), channels, after=after)
    return Project(
        pipeline="shop",
        file=folder / "tidegauge.yml",
        ledger=address,
        lease=MINUTE,
        spark=SparkSettings(),
        connections={},
        syncs=(),
        telemetry=Telemetry(alerts=settings),
    )


def tell(project: Project, *health: Health) -> list[AlertResult]:
    return send_alerts(project, found=health)


def test_an_incident_is_told_once_and_its_end_once(
    store_address: str, receiver: Receiver, tmp_path: Path
) -> None:
    project = project_at(store_address, tmp_path, receiver.alert_url())
    [told] = tell(project, unwell())
    assert (told.channel, told.sent, told.error) == ("json", True, None)
    assert tell(project, unwell(failures=2)) == []
    assert [one.label for one in list_incidents(project)] == ["failed of orders"]
    [over] = tell(project, well())
    assert over.incidents == ("recovered from failed of orders",)
    assert tell(project, well()) == []
    assert list_incidents(project) == []
    assert receiver.titles == ["[shop] failed: orders", "[shop] recovered: orders"]
    assert [request.json["type"] for request in receiver.requests] == ["failure", "success"]
    with open_ledger(store_address, create=False) as ledger:
        assert ledger.status("shop") == [], "what was told is of no flow that is listed"
        events = [event.event for event in ledger.history("shop", flow=LOG)]
    assert sorted(events) == sorted(
        ["alert_opened", "alert_claimed", "alert_sent", "alert_closed", "alert_claimed", "alert_sent"]
    )


def test_eight_runners_that_find_one_incident_tell_it_once(
    store_address: str, receiver: Receiver, tmp_path: Path
) -> None:
    url = receiver.alert_url()
    with open_ledger(store_address, create=True) as ledger:
        ledger.plan([nothing_new()], owner=ME, run_id="one")

    def work(ledger: Ledger, number: int) -> int:
        project = project_at(store_address, tmp_path, url)
        return sum(len(told.incidents) for told in tell(project, unwell(), unwell("items")))

    assert sum(together(store_address, work)) == 2
    assert sorted(receiver.titles) in (
        ["[shop] failed: items", "[shop] failed: orders"],
        ["[shop] failed: orders, items"],
        ["[shop] failed: items, orders"],
    )


def test_who_writes_of_no_listed_flow_waits_for_who_wrote_before(sql_ledger_address: str) -> None:
    """Or a claim could be read before an earlier one is there to be seen."""
    with open_sql(sql_ledger_address) as ledger:
        ledger.plan([nothing_new()], owner=ME, run_id="one")
        note = partial(ledger.note, "shop", LOG, "alert_claimed", owner=ME, reason="{}")
        thread = threading.Thread(target=note, daemon=True)
        with ledger._writer.begin() as connection:
            load_one(connection, "shop", LOG, make=False, known=None, marks=False, run=False)
            thread.start()
            thread.join(0.5)
            assert thread.is_alive()
        thread.join()
        assert [event.event for event in ledger.history("shop", flow=LOG)] == ["alert_claimed"]


def test_a_channel_that_is_down_breaks_nothing_and_is_told_later(tmp_path: Path, receiver: Receiver) -> None:
    address = f"sqlite:///{tmp_path / 'ledger.db'}"
    with receiving() as other:
        project = project_at(address, tmp_path, receiver.alert_url(), other.alert_url())
        other.status = 500
        first, second = tell(project, unwell())
        assert (first.sent, second.sent) == (True, False)
        assert second.error
        [incident] = list_incidents(project)
        assert incident.channels["json-2"].error == second.error
        other.status = 200
        [again] = tell(project, unwell())
        assert (again.channel, again.sent) == ("json-2", True)
    assert receiver.titles == ["[shop] failed: orders"]


def test_a_runner_killed_between_its_claim_and_its_message_leaves_no_silence(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = project_at(f"sqlite:///{tmp_path / 'ledger.db'}", tmp_path, receiver.alert_url())

    def die() -> None:
        monkeypatch.setattr(alerts, "send_all", lambda _: os.kill(os.getpid(), signal.SIGKILL))
        tell(project, unwell())

    assert processes.run(die) == processes.KILLED
    assert tell(project, unwell()) == [], "its claim still counts"
    monkeypatch.setattr(incidents, "CLAIM_LIFE", timedelta(0))
    [told] = tell(project, unwell())
    assert told.sent
    assert receiver.titles == ["[shop] failed: orders"]


def test_a_channel_that_hangs_is_left_behind(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegauge.observe.channels.TIMEOUT", 0.2)
    receiver.hold.clear()
    project = project_at(f"sqlite:///{tmp_path / 'ledger.db'}", tmp_path, receiver.alert_url())
    [told] = tell(project, unwell())
    assert not told.sent
    assert told.error == "no answer within 0 s"


def test_many_slow_channels_are_waited_for_together(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    hanging = [AlertChannel(f"json-{number}", Secret(receiver.alert_url())) for number in range(12)]
    monkeypatch.setattr("tidegauge.observe.channels.TIMEOUT", PATIENCE)
    # The server answers none of them before all are there.
    monkeypatch.setattr(receiver, "hold", threading.Barrier(len(hanging), timeout=PATIENCE))
    apprise_library()  # its import takes seconds
    answers = send_all([(channel, [Message("title", "body")]) for channel in hanging])
    assert {*answers.values()} == {None}


def test_failures_are_told_from_the_wanted_number_on(tmp_path: Path, receiver: Receiver) -> None:
    address = f"sqlite:///{tmp_path / 'ledger.db'}"
    project = project_at(address, tmp_path, receiver.alert_url(), after=3)
    assert tell(project, unwell(failures=2)) == []
    [told] = tell(project, unwell(failures=3))
    assert told.sent
    assert receiver.requests[0].json["message"] == "orders: failed: 3 times in a row: it broke"


def test_what_is_not_known_is_not_over(tmp_path: Path, receiver: Receiver) -> None:
    project = project_at(f"sqlite:///{tmp_path / 'ledger.db'}", tmp_path, receiver.alert_url())
    gone = HealthFinding(HealthCheck.STATUS, HealthLevel.CRITICAL, "it went back", AlertKind.REGRESSED)
    tell(project, well().adding([gone]))
    assert tell(project, replace(well(), unknown=(AlertKind.REGRESSED,))) == []
    assert tell(project, well("items")) == [], "nor is what was not looked at"
    [told] = tell(project, well())
    assert told.incidents == ("recovered from regressed of orders",)


def test_a_run_that_cannot_reach_its_ledger_is_told_without_it_and_not_each_minute(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = project_at(f"sqlite:///{tmp_path / 'ledger.db'}", tmp_path, receiver.alert_url())

    def unreachable(*_: object, **__: object) -> None:
        raise LedgerUnreachable("the ledger cannot be reached", hint="look")

    monkeypatch.setattr(alerts, "open_ledger", unreachable)
    error = LedgerUnreachable("the ledger cannot be reached", hint="look")
    [told] = send_alerts(project, error=error, found=[])
    assert told.sent
    assert send_alerts(project, error=error, found=[]) == []
    assert receiver.titles == ["[shop] failed: (run)"]
    [untold] = tell(project, unwell())
    assert not untold.sent
    assert "the ledger cannot be reached" in str(untold.error)


def test_totals_are_what_the_runs_and_events_add_up_to(store_address: str) -> None:
    with open_ledger(store_address, create=True) as ledger:
        assert ledger.run_totals("shop") == []
        plan = ledger.plan([draft(batches=1)], owner=ME, run_id="one")["orders"]
        claim = ledger.claim(plan, owner=ME, run_id="one", lease=MINUTE)
        ledger.finish(claim, State.FAILED, {"type": "Boom", "message": "it broke"})
        ledger.plan([nothing_new("items")], owner=ME, run_id="two")
        ledger.note("shop", "orders", "not_as_expected", owner=ME, reason="why", rows=3)
        ledger.note("shop", "orders", "not_as_expected", owner=ME, reason="why", rows=4)
        ledger.plan([draft("orders", pipeline="other")], owner=ME, run_id="three")
        found = [(one.flow, one.state, one.runs) for one in ledger.run_totals("shop")]
        assert found == [("items", State.SKIPPED, 1), ("orders", State.FAILED, 1)]
        events = {(one.flow, one.event): (one.events, one.rows) for one in ledger.event_totals("shop")}
    assert events["orders", "not_as_expected"] == (2, 7)
    assert events["items", "skipped"] == (1, 0)
    assert events["orders", "failed"] == (1, 0)


def test_times_that_nobody_ran_for_are_told_once_and_that_a_scheduler_is_back(
    store_address: str, receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scheduler runs for one time and dies. An hour passes; then another one runs."""
    source = sqlite_database(tmp_path / "source.db")
    source.execute("CREATE TABLE t (id INTEGER PRIMARY KEY)")
    text = (
        f"pipeline: shop\nledger: '{store_address}'\nschedule: every 1 minute\n"
        f"alerts: {{to: ['{receiver.alert_url()}']}}\nhealth: {{missed: 10}}\n"
        f"connections:\n  app: {source.connection}\n  lake: {{type: parquet, path: lake}}\n"
        "sync:\n  - {from: app, to: lake, tables: [t], cursor: id, key: id}\n"
    )
    monkeypatch.setenv("TG_LEDGER", store_address)
    (tmp_path / "tidegauge.yml").write_text(text.replace(store_address, "${env:TG_LEDGER}"))
    project = load_project(tmp_path / "tidegauge.yml")
    [part] = find_scheduled(project)
    with open_ledger(project.ledger, create=True) as ledger:
        kind, begun = type(ledger), ledger.now()
        ledger.take_tick("shop", part.schedule, owner=ME)
        ledger.end_tick("shop", part.schedule, owner=ME)
    assert tell(project) == []
    name = f"(schedule {part.schedule})"
    monkeypatch.setattr(kind, "now", lambda _: begun + 60 * MINUTE)
    [told] = tell(project)
    assert told.incidents == (f"late of {name}",)
    assert tell(project) == []
    assert receiver.titles == [f"[shop] late: {name}"]
    assert "that nobody ran for" in receiver.requests[0].json["message"]
    # Who looks at single flows alone has no word on schedules.
    assert send_alerts(project, selection=["t"], found=[well("t")]) == []
    monkeypatch.setattr(kind, "now", lambda _: begun + MINUTE)
    [told] = tell(project)
    assert told.incidents == (f"recovered from late of {name}",)
    assert tell(project) == []
    assert receiver.titles[1:] == [f"[shop] recovered: {name}"]
