"""Incidents: finds out which alerts to send, from the ledger's log of alerts and what is wrong now. Pure.

The log is a list of entries, oldest first. A runner that wants to send writes a claim first and reads the log
again: the first of several claims counts, so that only one of many runners sends.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from tidegauge.model.alert import AlertKind, AlertSettings

OPENED, CLOSED, CLAIMED, SENT, FAILED = (
    "alert_opened",
    "alert_closed",
    "alert_claimed",
    "alert_sent",
    "alert_failed",
)
CLAIM_LIFE = timedelta(minutes=2)
"""How long a claim counts if no message follows, because its process died."""
_OWED = timedelta(days=7)
"""How long to keep trying to report the end of an incident to a channel that is down."""

Key = tuple[str, AlertKind]


@dataclass(frozen=True)
class AlertEntry:
    """An event of the log, as the ledger stores it."""

    at: datetime
    event: str
    body: Mapping[str, Any]

    def incidents(self) -> list[dict[str, Any]]:
        return list(self.body.get("incidents", ()))


@dataclass
class ChannelState:
    sent_at: datetime | None = None
    over_at: datetime | None = None
    """When the channel was told that the incident is over."""
    claim: tuple[datetime, str] | None = None
    error: str | None = None
    """Why the last message did not arrive; None if it did."""


@dataclass
class Incident:
    id: str
    flow: str
    kind: AlertKind
    opened_at: datetime
    says: str
    after: int = 1
    """Alert once it was seen this often: above 1 for failures that the ledger does not count."""
    seen: int = 0
    closed_at: datetime | None = None
    channels: dict[str, ChannelState] = field(default_factory=dict)

    @property
    def key(self) -> Key:
        return self.flow, self.kind

    @property
    def label(self) -> str:
        return f"{self.kind} of {self.flow}"

    def to_body(self) -> dict[str, Any]:
        """Return enough to restore the incident even if the older part of the log is gone."""
        return {
            "id": self.id,
            "flow": self.flow,
            "kind": self.kind.value,
            "opened": self.opened_at.isoformat(),
            "says": self.says,
            "after": self.after,
        }


@dataclass(frozen=True)
class DueAlert:
    """A message to send: an incident, a channel, and whether it says that the incident is over."""

    incident: Incident
    channel: str
    over: bool = False

    @property
    def again(self) -> bool:
        return not self.over and self.incident.channels[self.channel].sent_at is not None

    def to_body(self) -> dict[str, Any]:
        return {**self.incident.to_body(), "channel": self.channel, "over": self.over}


def read_entry(at: datetime, event: str, reason: str | None) -> AlertEntry | None:
    """Parse an entry of the log; None for an event that is not this module's."""
    try:
        body = json.loads(reason or "")
    except ValueError:
        return None
    return AlertEntry(at, event, body) if isinstance(body, dict) else None


def describe_reason(event: str, reason: str | None) -> str:
    """Return an event's reason for people, such as "failed of orders, to slack: no answer" for the log's."""
    entry = read_entry(datetime.min, event, reason) if event.startswith("alert_") else None
    if entry is None:
        return reason or ""
    return "; ".join(_describe(event, body) for body in entry.incidents())


def _describe(event: str, body: Mapping[str, Any]) -> str:
    channel = f", to {body['channel']}" if "channel" in body else ""
    over = ", that it is over" if body.get("over") else ""
    said = body.get("error") if event == FAILED else body["says"] if event == OPENED else None
    return f"{body['kind']} of {body['flow']}{channel}{over}{f': {said}' if said else ''}"


def replay(entries: Iterable[AlertEntry]) -> list[Incident]:
    """Return the open incidents, and the closed ones that a channel was not told about, oldest first."""
    known: dict[str, Incident] = {}
    open_: dict[Key, str] = {}
    for entry in entries:
        for body in entry.incidents():
            found = _find(known, open_, body, entry)
            if found is not None:
                _apply(found, entry, body)
                if found.closed_at is not None and open_.get(found.key) == found.id:
                    del open_[found.key]
    return [one for one in known.values() if one.closed_at is None or _is_owed(one)]


def _find(
    known: dict[str, Incident], open_: dict[Key, str], body: Mapping[str, Any], entry: AlertEntry
) -> Incident | None:
    """Return the incident that an entry is about. If two runners opened it at once, the first one counts."""
    if body["id"] in known:
        return known[body["id"]]
    kind = AlertKind(body["kind"])
    first = open_.get((body["flow"], kind))
    if first is not None:
        return known[first] if entry.event == OPENED else None
    opened = datetime.fromisoformat(body["opened"])
    made = Incident(body["id"], body["flow"], kind, opened, body["says"], body["after"])
    known[made.id] = made
    open_[made.key] = made.id
    return made


def _apply(incident: Incident, entry: AlertEntry, body: Mapping[str, Any]) -> None:
    if entry.event == CLOSED:
        incident.closed_at = incident.closed_at or entry.at
        return
    if entry.event == OPENED:
        incident.seen += 1
        return
    channel = incident.channels.setdefault(body["channel"], ChannelState())
    if entry.event == CLAIMED:
        if channel.claim is None or entry.at - channel.claim[0] > CLAIM_LIFE:
            channel.claim = entry.at, entry.body["token"]
        return
    channel.claim = None
    channel.error = body.get("error")
    if entry.event == SENT and body["over"]:
        channel.over_at = entry.at
    elif entry.event == SENT:
        channel.sent_at = entry.at


def _is_owed(incident: Incident) -> bool:
    return any(one.sent_at is not None and one.over_at is None for one in incident.channels.values())


def find_due(incidents: Sequence[Incident], settings: AlertSettings, now: datetime) -> list[DueAlert]:
    """Return the messages to send now, without those that another runner is sending."""
    found = []
    for incident in incidents:
        if incident.seen < incident.after and not incident.channels:
            continue
        for name in (channel.name for channel in settings.to):
            state = incident.channels.setdefault(name, ChannelState())
            if state.claim is not None and now - state.claim[0] <= CLAIM_LIFE:
                continue
            if incident.closed_at is None and _wants_telling(state, settings, now):
                found.append(DueAlert(incident, name))
            elif incident.closed_at is not None and _wants_end(incident, state, now):
                found.append(DueAlert(incident, name, over=True))
    return found


def _wants_telling(state: ChannelState, settings: AlertSettings, now: datetime) -> bool:
    if state.sent_at is None:
        return True
    return bool(settings.remind) and now - state.sent_at >= settings.remind


def _wants_end(incident: Incident, state: ChannelState, now: datetime) -> bool:
    assert incident.closed_at is not None
    return state.sent_at is not None and state.over_at is None and now - incident.closed_at < _OWED


def keep_won(due: Sequence[DueAlert], incidents: Sequence[Incident], token: str) -> list[DueAlert]:
    """Keep the messages whose claim in the present log has this token, and that were not sent meanwhile."""
    now = {one.id: one for one in incidents}
    return [one for one in due if one.incident.id in now and _is_won(one, now[one.incident.id], token)]


def _is_won(due: DueAlert, now: Incident, token: str) -> bool:
    then, state = due.incident.channels[due.channel], now.channels.get(due.channel)
    if state is None or state.claim is None or state.claim[1] != token:
        return False
    return (state.sent_at, state.over_at) == (then.sent_at, then.over_at)
