"""`tidegauge ledger export|import`: a ledger as a file with a header line and one line for each flow."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from tidegauge.errors import ConfigError
from tidegauge.ledger.backup import FlowBackup, back_up
from tidegauge.ledger.open import open_ledger
from tidegauge.ledger.owner import this_process
from tidegauge.model.spec import Project
from tidegauge.model.state import State
from tidegauge.operations.status import iso

SCHEMA = "tidegauge/ledger-export/1"


def export_ledger(project: Project, *, every: bool) -> tuple[str, list[FlowBackup]]:
    """Return the file's text and its flows. `every`: of all pipelines, not just the project's."""
    with open_ledger(project.ledger, create=False) as ledger:
        known = ledger.pipelines()
        wanted = known if every else [name for name in known if name == project.pipeline]
        found = back_up(ledger, wanted)
        head = {"schema": SCHEMA, "exported_at": iso(ledger.now()), "flows": len(found)}
    if not found:
        raise ConfigError(
            "the ledger knows no flow, so there is nothing to export", hint="run something first"
        )
    lines = [head, *(one.to_json() for one in found)]
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), found


def read_backup(name: str, text: str) -> list[FlowBackup]:
    """Parse an export. Raises ConfigError, with the line, if the file is no export or is not complete."""
    lines = text.splitlines()
    try:
        head: Any = json.loads(lines[0]) if lines else {}
    except json.JSONDecodeError:
        head = {}
    if not isinstance(head, dict) or head.get("schema") != SCHEMA:
        raise ConfigError(
            f"{name} is no export of a ledger", hint="`tidegauge ledger export FILE` writes one"
        )
    if head["flows"] != len(lines) - 1:
        raise ConfigError(
            f"{name} should have {head['flows']} flows and has {len(lines) - 1}",
            hint="the file was cut or joined with another: export again",
        )
    found: list[FlowBackup] = []
    for number, line in enumerate(lines[1:], start=2):
        try:
            found.append(FlowBackup.from_json(json.loads(line)))
        except (KeyError, TypeError, ValueError) as error:
            raise ConfigError(
                f"{name}, line {number}, cannot be read: {type(error).__name__}: {error}",
                hint="somebody changed the file: export again",
            ) from error
    return found


def import_ledger(project: Project, backups: Sequence[FlowBackup], *, reason: str) -> None:
    """Import the flows. Raises WrongState, and changes nothing, if the ledger knows one of them in
    another state."""
    with open_ledger(project.ledger, create=True) as ledger:
        ledger.restore(backups, owner=this_process(), reason=reason)


def find_running(backups: Iterable[FlowBackup]) -> list[str]:
    """Return the flows that were running when the file was made."""
    return [one.flow_state.flow for one in backups if one.flow_state.state is State.RUNNING]
