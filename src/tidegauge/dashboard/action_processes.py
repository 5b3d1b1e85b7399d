"""Actions under way: each is the command in a process of its own, which outlives the server.

A server that is killed leaves what a killed command leaves, because it is no part of what is done.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import IO, Any

from tidegauge.dashboard.actions import ActionRequest
from tidegauge.errors import ConfigError
from tidegauge.ledger.owner import ACTOR
from tidegauge.model.secret import SERVE_TOKEN, mask
from tidegauge.model.spec import Project

_AT_ONCE, _KEPT = 4, 100
_TAIL = 32_000
"""Bytes of what a command said that are shown."""
_PREVIEW_SECONDS = 300
_MOVED = "WrongState"


@dataclass
class ActionProcess:
    """One action, from its start on."""

    id: str
    request: ActionRequest
    actor: str
    preview: bool
    """It only asks what would happen."""
    began: datetime
    out: IO[bytes] = field(repr=False)
    err: IO[bytes] = field(repr=False)
    code: int | None = None
    """Its exit code; None while it runs."""
    ended: datetime | None = None
    document: Mapping[str, Any] = field(default_factory=dict)
    """What it printed as JSON."""
    again: ActionProcess | None = None
    """What would happen now, where the flow had moved."""
    done: threading.Event = field(default_factory=threading.Event)

    @property
    def running(self) -> bool:
        return self.code is None

    @property
    def moved(self) -> bool:
        """It was refused because something else would have happened than was shown."""
        errors = [self.document.get("error"), *(one.get("error") for one in self.flows)]
        return self.code not in (None, 0) and any(one and one.get("type") == _MOVED for one in errors)

    @property
    def error(self) -> Mapping[str, Any] | None:
        """Why the command did nothing at all."""
        found = self.document.get("error")
        return found if isinstance(found, Mapping) else None

    @property
    def flows(self) -> list[Mapping[str, Any]]:
        """What became of each flow, or of each table that was compared."""
        found = self.document.get("flows") or self.document.get("tables") or []
        return [one for one in found if isinstance(one, Mapping)]

    @property
    def said(self) -> str:
        """The end of what it wrote for people."""
        size = os.fstat(self.err.fileno()).st_size
        text = os.pread(self.err.fileno(), _TAIL, max(0, size - _TAIL)).decode("utf-8", "replace")
        return mask(text.strip())


class ActionProcesses:
    """Those that this server has started, for many threads."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._lock = threading.Lock()
        self._kept: dict[str, ActionProcess] = {}

    def start(self, request: ActionRequest, actor: str, *, preview: bool = False) -> ActionProcess:
        """Raises ConfigError where too much is under way already."""
        with self._lock:
            running = [one for one in self._kept.values() if one.running]
            rival = next((one for one in running if self._is_rival(one, request, preview)), None)
            if rival is not None:
                raise ConfigError(
                    f"{rival.request.kind} of {request.flow}, asked for by {rival.actor}, is under way",
                    hint="wait until it has ended",
                )
            if len(running) >= _AT_ONCE:
                raise ConfigError(
                    f"{len(running)} actions are under way already", hint="wait until one has ended"
                )
            made = self._launch(request, actor, preview)
            self._kept[made.id] = made
            for old in [one for one in self._kept.values() if not one.running][:-_KEPT]:
                del self._kept[old.id]
            return made

    def find(self, name: str) -> ActionProcess | None:
        return self._kept.get(name)

    def of_flow(self, flow: str) -> list[ActionProcess]:
        """Newest first; previews are left out."""
        with self._lock:
            return [
                one for one in reversed(self._kept.values()) if one.request.flow == flow and not one.preview
            ]

    def pulse(self) -> object:
        """Differs as soon as a page about them would."""
        with self._lock:
            return tuple(
                (one.id, one.code, one.again and one.again.code, os.fstat(one.err.fileno()).st_size)
                for one in self._kept.values()
                if one.running or one.again is not None
            ), len(self._kept)

    @staticmethod
    def _is_rival(one: ActionProcess, request: ActionRequest, preview: bool) -> bool:
        return not preview and not one.preview and one.request.flow == request.flow

    def _launch(self, request: ActionRequest, actor: str, preview: bool) -> ActionProcess:
        words = [*request.to_words(preview=preview)]
        end = words.index("--") if "--" in words else len(words)
        words[end:end] = ["--json", f"--project={self._project.file}"]
        out, err = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115 - kept with the action
        environment = {name: text for name, text in os.environ.items() if name != SERVE_TOKEN}
        process = subprocess.Popen(  # noqa: S603 - each value is one word behind its option
            [sys.executable, "-m", "tidegauge.cli.main", *words],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env={**environment, ACTOR: actor},
            # What stops the server is not meant for it.
            start_new_session=True,
        )
        made = ActionProcess(secrets.token_hex(8), request, actor, preview, datetime.now(UTC), out, err)
        threading.Thread(target=self._follow, args=(made, process), daemon=True).start()
        return made

    def _follow(self, action: ActionProcess, process: subprocess.Popen[bytes]) -> None:
        try:
            code = process.wait(_PREVIEW_SECONDS if action.preview else None)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        action.out.seek(0)
        action.document = _read(action.out.read())
        action.ended = datetime.now(UTC)
        action.code = code
        if action.moved and not action.preview:
            with self._lock:
                action.again = self._launch(action.request.as_preview, action.actor, True)
                self._kept[action.again.id] = action.again
            action.again.done.wait()
        action.done.set()


def _read(text: bytes) -> dict[str, Any]:
    """What a command printed; one that was killed has printed nothing."""
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
