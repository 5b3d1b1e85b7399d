"""Actions under way: each is a command in a process of its own, which outlives the server.

The server only starts and watches the command, so killing the server does not harm the action.
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
"""How many bytes are shown of what a command wrote to stderr."""
_PREVIEW_SECONDS = 300
_MOVED = "WrongState"


@dataclass
class ActionProcess:
    """An action that was started, and its outcome once it has ended."""

    id: str
    request: ActionRequest
    actor: str
    preview: bool
    """Whether this is a dry run."""
    began: datetime
    out: IO[bytes] = field(repr=False)
    err: IO[bytes] = field(repr=False)
    code: int | None = None
    """The command's exit code; None while it runs."""
    ended: datetime | None = None
    document: Mapping[str, Any] = field(default_factory=dict)
    """The JSON that the command printed; empty while it runs."""
    again: ActionProcess | None = None
    """A new preview, started if the flow had moved since the one that the user agreed to."""
    done: threading.Event = field(default_factory=threading.Event)

    @property
    def running(self) -> bool:
        return self.code is None

    @property
    def moved(self) -> bool:
        """Whether the command refused because something else would have happened than was shown."""
        errors = [self.document.get("error"), *(one.get("error") for one in self.flows)]
        return self.code not in (None, 0) and any(one and one.get("type") == _MOVED for one in errors)

    @property
    def error(self) -> Mapping[str, Any] | None:
        """The error of the command as a whole, if it had one."""
        found = self.document.get("error")
        return found if isinstance(found, Mapping) else None

    @property
    def flows(self) -> list[Mapping[str, Any]]:
        """The results for each flow, or for each table that was compared."""
        found = self.document.get("flows") or self.document.get("tables") or []
        return [one for one in found if isinstance(one, Mapping)]

    @property
    def said(self) -> str:
        """The end of what the command wrote to stderr, masked."""
        size = os.fstat(self.err.fileno()).st_size
        text = os.pread(self.err.fileno(), _TAIL, max(0, size - _TAIL)).decode("utf-8", "replace")
        return mask(text.strip())


class ActionProcesses:
    """The actions that this server has started. Safe to use from many threads."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._lock = threading.Lock()
        self._kept: dict[str, ActionProcess] = {}

    def start(self, request: ActionRequest, actor: str, *, preview: bool = False) -> ActionProcess:
        """Start the command. Raises ConfigError if the flow has an action under way, or too many are."""
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
        """The actions on this flow, newest first, without previews."""
        with self._lock:
            return [
                one for one in reversed(self._kept.values()) if one.request.flow == flow and not one.preview
            ]

    def pulse(self) -> object:
        """A value that changes whenever a page about actions would change."""
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
            # A Ctrl-C that stops the server must not reach the command.
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
    """The JSON object that a command printed; empty if it printed none, as when it was killed."""
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
