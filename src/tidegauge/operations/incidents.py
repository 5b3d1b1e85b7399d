"""Incidents: from the ledger's log of what was told, and what is wrong now, to what has to be told. Pure.

The log is a list of entries, oldest first. Whoever wants to tell somebody writes a claim first and reads the
log again: of several claims the first one counts, so that one of many runners tells.
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
"""A claim that led to nothing, because its process died, counts no longer than that."""
_OWED = timedelta(days=7)
"""How long a channel that is down is still told that something is over."""

Key = tuple[str, AlertKind]


@dataclass(frozen=True)
class AlertEntry:
    """An event of the log, as the ledger keeps it."""

    at: datetime
    event: str
    body: Mapping[str, Any]

    def incidents(self) -> list[dict[str, Any]]:
        return list(self.body.get("incidents", ()))


@dataclass
class ChannelState:
    sent_at: datetime | None = None
    over_at: datetime | None = None
    """When it was told that the incident is over."""
    claim: tuple[datetime, str] | None = None
    error: str | None = None
    """Why the last message did not arrive; None: it did."""


@dataclass
class Incident:
    id: str
    flow: str
    kind: AlertKind
    opened_at: datetime
    says: str
    after: int = 1
    """Told once it was seen so often: of what the ledger does not count, the log does."""
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
        """Enough to know it by, also where the log's older part is gone."""
        return {
            "id": self.id,
            "flow": self.flow,
            "kind": self.kind.value,
            "opened": self.opened_at.isoformat(),
            "says": self.says,
            "after": self.after,
        }


@dataclass(frozen=True)
class Due:
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
    """None for what was not written by this code."""
    try:
        body = json.loads(reason or "")
    except ValueError:
        return None
    return AlertEntry(at, event, body) if isinstance(body, dict) else None


def describe_reason(event: str, reason: str | None) -> str:
    """Why something happened, for people: of the log's own events "failed of orders, to slack: no answer"."""
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
    """The incidents that are open, and those closed ones of which a channel has yet to hear, oldest first."""
    known: dict[str, Incident] = {}
    open_: dict[Key, str] = {}
    for entry in entries:
        for body in entry.incidents():
            found = _find(known, open_, body, entry)
            if found is not None:
                _apply(found, entry, body)
                if found.closed_at is not None and open_.get(found.key) == found.id:
                    del open_[found.key]
    return [one for one in known.values() if one.closed_at is None or _owed(one)]


def _find(
    known: dict[str, Incident], open_: dict[Key, str], body: Mapping[str, Any], entry: AlertEntry
) -> Incident | None:
    """The incident that an entry is about; one that another opened at the same time is that one."""
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


def _owed(incident: Incident) -> bool:
    return any(one.sent_at is not None and one.over_at is None for one in incident.channels.values())


def find_due(incidents: Sequence[Incident], settings: AlertSettings, now: datetime) -> list[Due]:
    """What has to be told now, and is not being told by another."""
    found = []
    for incident in incidents:
        if incident.seen < incident.after and not incident.channels:
            continue
        for name in (channel.name for channel in settings.to):
            state = incident.channels.setdefault(name, ChannelState())
            if state.claim is not None and now - state.claim[0] <= CLAIM_LIFE:
                continue
            if incident.closed_at is None and _wants_telling(state, settings, now):
                found.append(Due(incident, name))
            elif incident.closed_at is not None and _wants_end(incident, state, now):
                found.append(Due(incident, name, over=True))
    return found


def _wants_telling(state: ChannelState, settings: AlertSettings, now: datetime) -> bool:
    if state.sent_at is None:
        return True
    return bool(settings.remind) and now - state.sent_at >= settings.remind


def _wants_end(incident: Incident, state: ChannelState, now: datetime) -> bool:
    assert incident.closed_at is not None
    return state.sent_at is not None and state.over_at is None and now - incident.closed_at < _OWED


def keep_won(due: Sequence[Due], incidents: Sequence[Incident], token: str) -> list[Due]:
    """Those whose claim, in the log as it is now, has this token, and which nobody has told meanwhile."""
    now = {one.id: one for one in incidents}
    return [one for one in due if one.incident.id in now and _is_won(one, now[one.incident.id], token)]


def _is_won(due: Due, now: Incident, token: str) -> bool:
    then, state = due.incident.channels[due.channel], now.channels.get(due.channel)
    if state is None or state.claim is None or state.claim[1] != token:
        return False
    return (state.sent_at, state.over_at) == (then.sent_at, then.over_at)
