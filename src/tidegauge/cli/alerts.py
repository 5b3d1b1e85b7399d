"""`tidegauge alerts`: whether the channels work, and what is open."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from tidegauge.cli.group import make_group
from tidegauge.cli.options import DebugOption, JsonOption, ProjectOption
from tidegauge.cli.output import print_json, print_table, say
from tidegauge.cli.project import open_project
from tidegauge.errors import ConfigError

if TYPE_CHECKING:
    from tidegauge.operations.incidents import Incident

app = make_group("Try the alert channels, and list what is open.")


@app.command("test")
def try_channels(
    project: ProjectOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,  # noqa: ARG001 - read where errors are shown
) -> None:
    """Send a test message to every channel; exit 1 if one did not take it."""
    from tidegauge.operations.alerts import send_test

    opened = open_project(project)
    settings = opened.telemetry.alerts
    if settings is None:
        raise ConfigError(
            "this project has no alert channel", hint='add `alerts: {to: ["${env:SLACK_URL}"]}` to its file'
        )
    told = send_test(settings, opened.pipeline)
    if json:
        channels = [{"channel": one.channel, "sent": one.sent, "error": one.error} for one in told]
        print_json({"schema": "tidegauge/alerts-test/1", "channels": channels})
    else:
        print_table(
            ["", "channel", "what"],
            [["✓" if one.sent else "✗", one.channel, one.error or "sent"] for one in told],
        )
    raise typer.Exit(0 if all(one.sent for one in told) else 1)


@app.command("list")
def list_open(
    project: ProjectOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,  # noqa: ARG001 - read where errors are shown
) -> None:
    """List the incidents that are open, and whom they were told."""
    from tidegauge.operations.alerts import list_incidents

    found = list_incidents(open_project(project))
    if json:
        print_json({"schema": "tidegauge/alerts/1", "incidents": [_to_json(one) for one in found]})
    elif not found:
        say("no incident is open")
    else:
        print_table(
            ["since (UTC)", "flow", "kind", "told", "what"],
            [
                [f"{one.opened_at:%Y-%m-%d %H:%M:%S}", one.flow, one.kind, _told(one), one.says]
                for one in found
            ],
        )


def _told(incident: Incident) -> str:
    return ", ".join(f"{'✓' if state.sent_at else '✗'} {name}" for name, state in incident.channels.items())


def _to_json(incident: Incident) -> dict[str, object]:
    from tidegauge.operations.status import iso

    return {
        "incident": incident.id,
        "flow": incident.flow,
        "kind": incident.kind.value,
        "since": iso(incident.opened_at),
        "says": incident.says,
        "channels": [
            {"channel": name, "told_at": iso(state.sent_at) if state.sent_at else None, "error": state.error}
            for name, state in incident.channels.items()
        ],
    }
