"""Who this process is, and whether another one still runs."""

from __future__ import annotations

import getpass
import os
import socket
from pathlib import Path

from tidegauge.model.claim import Owner

ACTOR = "TIDEGAUGE_ACTOR"
"""Names in the environment on whose behalf a process works, where that is not who started it."""


def this_process() -> Owner:
    pid = os.getpid()
    actor = os.environ.get(ACTOR, "").strip() or f"{_user()}@{socket.gethostname()}"
    return Owner(actor=actor, host=_host(), pid=pid, started=_read_start(pid))


def is_gone(owner: Owner) -> bool:
    """True only when it is certain: same machine, same boot, same process namespace, and no such process."""
    if not owner.host or owner.host != _host():
        return False
    return _read_start(owner.pid) != owner.started


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def _host() -> str:
    """Containers may share a host's name and boot, so the process namespace is part of who we are."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{socket.gethostname()}/{boot}/{Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""


def _read_start(pid: int) -> str:
    """The kernel's start mark of a process; empty when there is none, or it is a zombie."""
    try:
        # The second field is the command in parentheses, which may itself hold spaces and parentheses.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] == "Z" else fields[19]
