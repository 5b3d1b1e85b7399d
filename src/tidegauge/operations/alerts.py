"""Sends alerts to the channels, once for each incident, even if many runners find the same one.

What was sent is recorded in the ledger's history, under a name of its own. `incidents` has the rules.
"""

from __future__ import annotations

import contextlib
import json
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from tidegauge.errors import ConfigError, LedgerError, Stopped, TidegaugeError
from tidegauge.flows.selection.scheduled import find_scheduled
from tidegauge.ledger.open import Ledger, open_ledger
from tidegauge.ledger.owner import this_process
from tidegauge.model.alert import AlertChannel, AlertKind, AlertResult, AlertSettings
from tidegauge.model.protocols.ledger import LedgerReader
from tidegauge.model.secret import mask
from tidegauge.model.spec import Project
from tidegauge.model.state import State
from tidegauge.observe.channels import Message, send_all
from tidegauge.operations.health import Health, check_health
from tidegauge.operations.health_pipeline import examine_schedules
from tidegauge.operations.incidents import (
    CLAIMED,
    CLOSED,
    FAILED,
    OPENED,
    SENT,
    DueAlert,
    Incident,
    Key,
    find_due,
    keep_won,
    read_entry,
    replay,
)
from tidegauge.run.report import RunReport

LOG = "(alerts)"
"""Stands in place of a flow's name in the history."""
RUN = "(run)"
"""Stands in place of a flow's name in an incident about a run that could not begin."""
SCHEDULE = "(schedule "
"""What stands in place of a flow's name in an incident about a schedule begins with this."""
_EVENTS = 1000
_PAUSE = 3600.0
_LEVELS = {AlertKind.RECOVERED: "success", AlertKind.LATE: "warning", AlertKind.REGRESSED: "warning"}


@dataclass(frozen=True)
class AlertAssessment:
    """What is wrong now, and what was checked and found to be well."""

    wrong: dict[Key, str]
    well: frozenset[Key]
    uncounted: frozenset[Key] = frozenset()
    """The part of `wrong` that the ledger does not know, and so cannot count how often it failed."""
    seen: frozenset[str] = frozenset()
    """Names of the flows and schedules that were checked."""
    whole: bool = False
    """Whether a run of all flows has ended, so that any flow not in `seen` no longer exists."""

    def is_over(self, key: Key) -> bool:
        return key not in self.wrong and (key in self.well or (self.whole and key[0] not in self.seen))


def send_alerts(
    project: Project,
    *,
    selection: Sequence[str] = (),
    report: RunReport | None = None,
    error: TidegaugeError | None = None,
    found: Sequence[Health] | None = None,
) -> list[AlertResult]:
    """Check the selected flows, and send every channel what it has not been sent yet. Never raises.

    `report` is the run that has just ended, `error` what it raised instead, `found` the flows' health if it
    is known already. Returns an entry for each channel that was tried; the next call tries a failed channel
    again.
    """
    settings = project.telemetry.alerts
    if settings is None:
        return []
    try:
        health = check_health(project, selection, look_at_sources=False)[1] if found is None else found
        with open_ledger(project.ledger, create=True) as ledger:
            situation = _judge(settings, health, report, error, whole=not selection)
            if not selection:
                situation = _add_schedules(situation, settings, project, ledger)
            return _Teller(project, settings, ledger).tell(situation)
    except TidegaugeError as fault:
        if error is not None and isinstance(fault, LedgerError):
            return _tell_without_ledger(project, settings, error)
        return _report_failure(settings, fault.message)
    except Exception as fault:  # a bug here must not fail the run
        return _report_failure(settings, f"unexpected {type(fault).__name__}: {fault}")


def send_test(settings: AlertSettings, pipeline: str) -> list[AlertResult]:
    """Send each channel a message that says it is a test."""
    message = Message(f"[{pipeline}] test", "This is a test: alerts of this pipeline arrive here.", "info")
    answers = send_all([(channel, [message]) for channel in settings.to])
    return [AlertResult(name, error is None, (), error) for name, error in answers.items()]


def list_incidents(project: Project) -> list[Incident]:
    """List the open incidents in the ledger, oldest first."""
    with open_ledger(project.ledger, create=False) as ledger:
        return [one for one in _read_log(ledger, project.pipeline) if one.closed_at is None]


def _report_failure(settings: AlertSettings, why: str) -> list[AlertResult]:
    said = f"what to alert about could not be found out: {mask(why)}"
    return [AlertResult(channel.name, False, (), said) for channel in settings.to]


def _tell_without_ledger(
    project: Project, settings: AlertSettings, error: TidegaugeError
) -> list[AlertResult]:
    """Report a failed run when the ledger, which knows what was sent, fails: at most hourly per machine."""
    mark = project.root / ".tidegauge" / "told-without-ledger"
    with contextlib.suppress(OSError):
        if time.time() - mark.stat().st_mtime < _PAUSE:
            return []
    message = Message(f"[{project.pipeline}] failed: {RUN}", f"{RUN}: {mask(error.message)}")
    answers = send_all([(channel, [message]) for channel in settings.to])
    if any(why is None for why in answers.values()):
        with contextlib.suppress(OSError):
            mark.parent.mkdir(exist_ok=True)
            mark.touch()
    return [AlertResult(name, why is None, (f"failed of {RUN}",), why) for name, why in answers.items()]


def _judge(
    settings: AlertSettings,
    health: Sequence[Health],
    report: RunReport | None,
    error: TidegaugeError | None,
    *,
    whole: bool,
) -> AlertAssessment:
    wrong: dict[Key, str] = {}
    well: set[Key] = set()
    for one in health:
        says = {kind: _find_wrong(one, kind, settings.after) for kind in AlertKind}
        wrong |= {(one.flow, kind): said for kind, said in says.items() if said}
        well |= {(one.flow, kind) for kind, said in says.items() if not said and kind not in one.unknown}
    uncounted = {key for key in wrong if _is_uncounted(health, key)}
    seen = {one.flow for one in health}
    failed, ended = _judge_run(report, error, seen)
    wrong |= failed
    return AlertAssessment(
        {key: mask(says) for key, says in wrong.items() if key[1] in settings.on},
        frozenset((well | ended) - set(wrong)),
        frozenset(uncounted | set(failed)),
        frozenset(seen),
        whole=whole and report is not None,
    )


def _add_schedules(
    situation: AlertAssessment, settings: AlertSettings, project: Project, ledger: LedgerReader
) -> AlertAssessment:
    """Add the schedules, and which of them missed their times."""
    known = {f"{SCHEDULE}{one.schedule})" for one in find_scheduled(project)}
    late = {
        (f"{SCHEDULE}{name})", AlertKind.LATE): mask(found.says)
        for name, found in examine_schedules(project, ledger).items()
        if found.alert is AlertKind.LATE and AlertKind.LATE in settings.on
    }
    well = {(name, AlertKind.LATE) for name in known} - set(late)
    return replace(
        situation,
        wrong=situation.wrong | late,
        well=situation.well | well,
        seen=situation.seen | known,
    )


def _judge_run(
    report: RunReport | None, error: TidegaugeError | None, seen: set[str]
) -> tuple[dict[Key, str], set[Key]]:
    """Return the failures that the ledger does not know, and what of that kind ended well: views, names
    without a table, databases that do not answer, and the run itself."""
    failed: dict[Key, str] = {}
    ended: set[Key] = set()
    for flow in report.flows if report else ():
        key = (flow.flow, AlertKind.FAILED)
        if flow.flow in seen:
            continue
        if flow.state is State.FAILED and flow.error is not None:
            failed[key] = flow.error.message
        elif flow.ok:
            ended.add(key)
    if error is not None and not isinstance(error, Stopped | ConfigError):
        failed[RUN, AlertKind.FAILED] = error.message
    elif report is not None:
        ended.add((RUN, AlertKind.FAILED))
    return failed, ended


def _find_wrong(one: Health, kind: AlertKind, after: int) -> str | None:
    said = "; ".join(finding.says for finding in one.findings if finding.alert is kind)
    if kind is not AlertKind.FAILED:
        return said or None
    if _was_never_tried(one):
        return said or None
    if one.failures < after:
        return None
    often = f"{one.failures} times in a row: " if one.failures > 1 else ""
    return f"{often}{said or 'its last run failed'}"


def _was_never_tried(one: Health) -> bool:
    """Whether the ledger has neither a failure nor a success of this name."""
    return not one.failures and one.last_success is None


def _is_uncounted(health: Sequence[Health], key: Key) -> bool:
    return key[1] is AlertKind.FAILED and any(one.flow == key[0] and _was_never_tried(one) for one in health)


class _Teller:
    def __init__(self, project: Project, settings: AlertSettings, ledger: Ledger) -> None:
        self._project = project
        self._settings = settings
        self._ledger = ledger
        self._owner = this_process()

    def tell(self, situation: AlertAssessment) -> list[AlertResult]:
        incidents = self._update(situation)
        due = find_due(incidents, self._settings, self._ledger.now())
        if not due:
            return []
        token = uuid.uuid4().hex
        self._note(CLAIMED, {"token": token, "incidents": [one.to_body() for one in due]})
        won = keep_won(due, self._read(), token)
        return [
            self._record(channel, self._select_channel(won, channel)) for channel in self._send_messages(won)
        ]

    def _update(self, situation: AlertAssessment) -> list[Incident]:
        """Open new incidents, close those that are over, and return all."""
        incidents = self._read()
        open_ = {one.key: one for one in incidents if one.closed_at is None}
        new = self._find_new(situation, open_)
        over = [one for key, one in open_.items() if situation.is_over(key)]
        if new:
            self._note(OPENED, {"incidents": [one.to_body() for one in new]})
        if over:
            self._note(CLOSED, {"incidents": [one.to_body() for one in over]})
        found = self._read() if new or over else incidents
        for one in found:
            one.says = situation.wrong.get(one.key, one.says) if one.closed_at is None else one.says
        return found

    def _find_new(self, situation: AlertAssessment, open_: Mapping[Key, Incident]) -> list[Incident]:
        """Return incidents to record as seen: new ones, and those seen less often than `after` demands."""
        found, now = [], self._ledger.now()
        for key, says in situation.wrong.items():
            after = self._settings.after if key in situation.uncounted else 1
            if key not in open_:
                found.append(Incident(uuid.uuid4().hex[:12], *key, now, says, after))
            elif key in situation.uncounted and open_[key].seen < after:
                found.append(open_[key])
        return found

    def _send_messages(self, won: Sequence[DueAlert]) -> list[tuple[AlertChannel, str | None]]:
        wanted = [
            (channel, write_messages(self._project.pipeline, mine, self._ledger.now()))
            for channel in self._settings.to
            if (mine := [one for one in won if one.channel == channel.name])
        ]
        answers = send_all(wanted)
        return [(channel, answers[channel.name]) for channel, _ in wanted]

    def _select_channel(
        self, won: Sequence[DueAlert], answer: tuple[AlertChannel, str | None]
    ) -> list[DueAlert]:
        return [one for one in won if one.channel == answer[0].name]

    def _record(self, answer: tuple[AlertChannel, str | None], mine: Sequence[DueAlert]) -> AlertResult:
        channel, error = answer
        more = {} if error is None else {"error": error}
        bodies = [{**one.to_body(), **more} for one in mine]
        self._note(SENT if error is None else FAILED, {"incidents": bodies})
        labels = tuple(f"{'recovered from ' if one.over else ''}{one.incident.label}" for one in mine)
        return AlertResult(channel.name, error is None, labels, error)

    def _read(self) -> list[Incident]:
        return _read_log(self._ledger, self._project.pipeline)

    def _note(self, event: str, body: dict[str, object]) -> None:
        text = json.dumps(body, ensure_ascii=False)
        self._ledger.note(self._project.pipeline, LOG, event, owner=self._owner, reason=text)


def _read_log(ledger: LedgerReader, pipeline: str) -> list[Incident]:
    events = ledger.history(pipeline, flow=LOG, limit=_EVENTS)
    entries = (read_entry(one.at, one.event, one.reason) for one in reversed(events))
    return replay(entry for entry in entries if entry is not None)


def write_messages(pipeline: str, due: Iterable[DueAlert], now: datetime) -> list[Message]:
    """Write one message for each kind, so that a broken server gives one message, not one for each flow."""
    groups: dict[AlertKind, list[DueAlert]] = {}
    for one in due:
        groups.setdefault(AlertKind.RECOVERED if one.over else one.incident.kind, []).append(one)
    return [
        Message(
            f"[{pipeline}] {kind}: {_name(mine)}",
            "\n".join(_write_line(one, now) for one in mine),
            _LEVELS.get(kind, "failure"),
        )
        for kind, mine in groups.items()
    ]


def _name(due: Sequence[DueAlert]) -> str:
    flows = list(dict.fromkeys(one.incident.flow for one in due))
    return ", ".join(flows) if len(flows) <= 3 else f"{len(flows)} flows"


def _write_line(one: DueAlert, now: datetime) -> str:
    incident = one.incident
    if one.over:
        ended = incident.closed_at or now
        return f"{incident.flow}: no longer {incident.kind}, after {_format_age(incident.opened_at, ended)}"
    word = f"still {incident.kind}" if one.again else str(incident.kind)
    since = f", since {incident.opened_at:%Y-%m-%d %H:%M} UTC" if one.again else ""
    return f"{incident.flow}: {word}{since}: {incident.says}"


def _format_age(begun: datetime, ended: datetime) -> str:
    seconds = max((ended - begun).total_seconds(), 0.0)
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
