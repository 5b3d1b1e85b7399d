"""Who this process is, and whether another one still runs."""

from __future__ import annotations

import getpass
import os
import socket
from pathlib import Path

from tidegauge.model.claim import Owner

ACTOR = "TIDEGAUGE_ACTOR"
"""The environment variable that names on whose behalf a process works, if not its user's."""


def this_process() -> Owner:
    pid = os.getpid()
    actor = os.environ.get(ACTOR, "").strip() or f"{_user()}@{socket.gethostname()}"
    return Owner(actor=actor, host=_host(), pid=pid, started=_read_start(pid))


def is_gone(owner: Owner) -> bool:
    """Whether the process has ended. True only if that is certain: same machine, same boot, same process
    namespace, and no such process."""
    if not owner.host or owner.host != _host():
        return False
    return _read_start(owner.pid) != owner.started


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def _host() -> str:
    """This machine's name, boot and process namespace (containers may share the first two); empty where the
    system does not tell."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{socket.gethostname()}/{boot}/{Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""


def _read_start(pid: int) -> str:
    """When a process started, in the kernel's clock ticks; empty if there is no such process, or a zombie."""
    try:
        # The second field is the command in parentheses, which may itself hold spaces and parentheses.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] == "Z" else fields[19]
