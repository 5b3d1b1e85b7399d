"""What is told, to whom, and how often: the rules over the log, without a ledger."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

from tidegauge.model.alert import AlertChannel, AlertKind, AlertSettings
from tidegauge.model.secret import Secret
from tidegauge.operations.alerts import write_messages
from tidegauge.operations.incidents import (
    CLAIM_LIFE,
    CLAIMED,
    CLOSED,
    FAILED,
    OPENED,
    SENT,
    AlertEntry,
    DueAlert,
    Incident,
    describe_reason,
    find_due,
    keep_won,
    read_entry,
    replay,
)

T = datetime(2026, 1, 1, 12)
HOUR = timedelta(hours=1)
SETTINGS = AlertSettings(
    tuple(AlertKind),
    (AlertChannel("json", Secret("json://h/a")), AlertChannel("slack", Secret("slack://b"))),
    remind=6 * HOUR,
)


def body(name: str = "i1", flow: str = "orders", **more: Any) -> dict[str, Any]:
    return {**Incident(name, flow, AlertKind.FAILED, T, "it broke").to_body(), **more}


def entry(event: str, hours: float, *bodies: dict[str, Any], **more: Any) -> AlertEntry:
    return AlertEntry(T + hours * HOUR, event, {"incidents": list(bodies), **more})


def sent(hours: float, channel: str = "json", *, over: bool = False) -> AlertEntry:
    return entry(SENT, hours, body(channel=channel, over=over))


def due(entries: list[AlertEntry], hours: float) -> list[tuple[str, str, bool]]:
    found = find_due(replay(entries), SETTINGS, T + hours * HOUR)
    return [(one.incident.flow, one.channel, one.over) for one in found]


def test_an_incident_is_due_once_for_each_channel() -> None:
    log = [entry(OPENED, 0, body())]
    assert due(log, 0) == [("orders", "json", False), ("orders", "slack", False)]
    log.append(sent(0))
    assert due(log, 1) == [("orders", "slack", False)]
    log.append(sent(1, "slack"))
    assert due(log, 5.9) == []


def test_a_reminder_comes_after_its_interval_and_counts_from_the_last_message() -> None:
    log = [entry(OPENED, 0, body()), sent(0), sent(3, "slack")]
    assert due(log, 6) == [("orders", "json", False)]
    log.append(sent(6))
    assert due(log, 8.9) == []
    assert due(log, 9) == [("orders", "slack", False)]


def test_a_reminder_interval_of_nothing_means_never() -> None:
    never = AlertSettings(SETTINGS.on, SETTINGS.to, remind=timedelta(0))
    incidents = replay([entry(OPENED, 0, body()), sent(0), sent(0, "slack")])
    assert find_due(incidents, never, T + 10_000 * HOUR) == []


def test_what_did_not_arrive_is_due_again() -> None:
    log = [
        entry(OPENED, 0, body()),
        sent(0, "slack"),
        entry(FAILED, 0, body(channel="json", over=False, error="x")),
    ]
    assert due(log, 0.1) == [("orders", "json", False)]
    assert replay(log)[0].channels["json"].error == "x"


def test_the_end_is_told_only_to_who_heard_of_it() -> None:
    log = [entry(OPENED, 0, body()), sent(0), entry(CLOSED, 1, body())]
    assert due(log, 1) == [("orders", "json", True)]
    log.append(sent(1, over=True))
    assert due(log, 2) == []
    assert replay(log) == []


def test_the_same_thing_again_is_another_incident() -> None:
    log = [entry(OPENED, 0, body()), sent(0), sent(0, "slack"), entry(CLOSED, 1, body())]
    log += [sent(1, over=True), sent(1, "slack", over=True), entry(OPENED, 2, body("i2"))]
    assert [one.id for one in replay(log)] == ["i2"]
    assert len(due(log, 2)) == 2


def test_of_two_runners_that_open_one_incident_the_first_counts() -> None:
    log = [entry(OPENED, 0, body("first")), entry(OPENED, 0, body("second"))]
    assert [one.id for one in replay(log)] == ["first"]


def test_of_two_claims_the_first_tells_and_the_other_does_not() -> None:
    log = [entry(OPENED, 0, body())]
    wanted = find_due(replay(log), SETTINGS, T)
    claims = [one.to_body() for one in wanted]
    log += [entry(CLAIMED, 0, *claims, token="mine"), entry(CLAIMED, 0, *claims, token="theirs")]
    assert keep_won(wanted, replay(log), "mine") == wanted
    assert keep_won(wanted, replay(log), "theirs") == []
    assert due(log, 0.01) == [], "while somebody is telling, nobody else does"


def test_a_claim_that_comes_after_another_has_told_is_not_won() -> None:
    log = [entry(OPENED, 0, body())]
    late = [one for one in find_due(replay(log), SETTINGS, T) if one.channel == "json"]
    claim = late[0].to_body()
    log += [entry(CLAIMED, 0, claim, token="first"), sent(0), entry(CLAIMED, 0, claim, token="late")]
    assert keep_won(late, replay(log), "late") == []


def test_a_claim_of_a_process_that_died_runs_out() -> None:
    log = [entry(OPENED, 0, body()), entry(CLAIMED, 0, body(channel="json", over=False), token="dead")]
    assert due(log, 0) == [("orders", "slack", False)]
    later = CLAIM_LIFE / HOUR + 0.001
    assert len(due(log, later)) == 2
    log.append(entry(CLAIMED, later, body(channel="json", over=False), token="next"))
    assert len(keep_won([DueAlert(replay(log)[0], "json")], replay(log), "next")) == 1


def test_what_the_ledger_does_not_count_is_counted_by_the_log() -> None:
    seen = [entry(OPENED, hour, body(after=3)) for hour in range(3)]
    assert due(seen[:2], 2) == []
    assert len(due(seen, 2)) == 2


def test_an_incident_is_known_by_any_of_its_entries() -> None:
    """The first ones may have been pruned."""
    [found] = replay([sent(0)])
    assert (found.flow, found.kind, found.opened_at, found.says) == (
        "orders",
        AlertKind.FAILED,
        T,
        "it broke",
    )


def test_an_entry_that_somebody_else_wrote_is_passed_over() -> None:
    assert read_entry(T, OPENED, "by hand") is None
    assert read_entry(T, OPENED, None) is None
    assert read_entry(T, OPENED, "[1]") is None
    found = read_entry(T, OPENED, json.dumps({"incidents": [body()]}))
    assert found is not None
    assert found.incidents() == [body()]


def test_many_flows_that_fail_are_one_message() -> None:
    log = [entry(OPENED, 0, *(body(f"i{number}", f"t{number}") for number in range(5)))]
    wanted = [one for one in find_due(replay(log), SETTINGS, T) if one.channel == "json"]
    [message] = write_messages("shop", wanted, T)
    assert message.title == "[shop] failed: 5 flows"
    assert message.body.splitlines()[0] == "t0: failed: it broke"
    assert message.level == "failure"


def test_a_reminder_and_an_end_say_that_they_are() -> None:
    log = [entry(OPENED, 0, body()), sent(0)]
    reminder = write_messages(
        "shop", [one for one in find_due(replay(log), SETTINGS, T + 7 * HOUR) if one.again], T
    )
    assert reminder[0].body == "orders: still failed, since 2026-01-01 12:00 UTC: it broke"
    log.append(entry(CLOSED, 2, body()))
    [end] = write_messages("shop", find_due(replay(log), SETTINGS, T + 2 * HOUR), T + 2 * HOUR)
    assert (end.title, end.level) == ("[shop] recovered: orders", "success")
    assert end.body == "orders: no longer failed, after 2 h"


def test_the_history_tells_of_alerts_in_words() -> None:
    def tell(event: str, **more: Any) -> str:
        return describe_reason(event, json.dumps({"incidents": [body(**more)]}))

    assert tell(OPENED) == f"failed of orders: {body()['says']}"
    assert (
        tell(FAILED, channel="slack", over=False, error="no answer")
        == "failed of orders, to slack: no answer"
    )
    assert tell(SENT, channel="slack", over=True) == "failed of orders, to slack, that it is over"
    assert describe_reason("reset", "{because}") == "{because}"
    assert describe_reason("skipped", None) == ""
