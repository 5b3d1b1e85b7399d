"""Joins the Spark that an earlier command has left warm, or starts one that stays warm for the next.

`spark: {keep_warm: 15m}` asks for it. Each command runs in its own process, with its own code, environment
and session; it shares only Java with other commands. `TIDEGAUGE_KEEP_WARM=off` switches it off.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Collection, Mapping, Set
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegauge import __version__
from tidegauge.errors import SparkFailed
from tidegauge.model.secret import mask
from tidegauge.model.spec import SparkSettings
from tidegauge.spark.jars import JarSet
from tidegauge.spark.pyspark_private import join_java
from tidegauge.spark.warm_sockets import address_of, all_sockets, ask, locked, peer_of, socket_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SWITCH = "TIDEGAUGE_KEEP_WARM"
_PATIENCE = 120.0
"""Seconds to wait while another command starts a Spark for this folder."""
_SEEN_BY_JAVA = (
    *("AWS_", "AZURE_", "GOOGLE_", "HADOOP_", "HIVE_", "JAVA", "JDK_", "KRB5", "LC_", "LD_", "PYSPARK_"),
    *("PYTHON", "SPARK_", "SSL_", "TIDEGAUGE_", "_JAVA"),
)
_ALSO_SEEN = frozenset(
    {"HOME", "LANG", "PATH", "TMPDIR", "TZ", "USER", "VIRTUAL_ENV", "TEMP", "TMP"}
    | {f"{name}_PROXY" for name in ("HTTP", "HTTPS", "NO", "ALL")}
)

_lines: list[socket.socket] = []
"""Connections to keepers, open as long as this process lives: they show a keeper that its Spark is in use."""


def take_up(settings: SparkSettings, needs: Collection[JarSet]) -> SparkSession | None:
    """A session of the Spark that is kept warm, which is started where there is none.

    None where `keep_warm` is not set or is switched off, where another command takes too long to start one,
    and where the warm Spark has other settings and is in use. Raises SparkFailed where it does not start.
    """
    if settings.keep_warm is None or os.environ.get(SWITCH) == "off":
        return None
    path = socket_of(str(Path.cwd()))
    wanted = set(needs)
    with locked(path, patience=_PATIENCE) as lock:
        if lock is None:
            return None
        fingerprint = fingerprint_of(settings)
        for _ in range(2):
            answer = _lease(path, settings, fingerprint, wanted)
            if "port" in answer:
                return join_java(answer["port"], answer["secret"])
            if answer.get("ended") is False:
                return None
            wanted |= {JarSet(name) for name in answer.get("needs", ())}
            _start(path, settings, fingerprint, wanted, lock)
        answer = _lease(path, settings, fingerprint, wanted)
    if "port" not in answer:
        raise SparkFailed("the Spark that is to be kept warm ended at once", hint=f"set {SWITCH}=off")
    return join_java(answer["port"], answer["secret"])


def is_kept(settings: SparkSettings) -> bool:
    """Whether there seems to be a warm Spark for this folder; its socket may still be dead."""
    wanted = settings.keep_warm is not None and os.environ.get(SWITCH) != "off"
    return wanted and socket_of(str(Path.cwd())).exists()


def fingerprint_of(settings: SparkSettings) -> str:
    """A digest of all that Java keeps from its start: versions, settings, environment. Secrets go into it,
    and cannot be read out of it."""
    import pyspark

    seen = {
        name: value
        for name, value in os.environ.items()
        if name.startswith(_SEEN_BY_JAVA) or name.upper() in _ALSO_SEEN
    }
    parts = [
        *(__version__, __file__, sys.executable, pyspark.__version__, pyspark.__file__),
        *(settings.master, sorted(settings.conf.items()), settings.digest, sorted(seen.items())),
        *(str(Path.cwd()), _umask(), [_state_of(path) for path in _key_files()]),
    ]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def find_kept() -> list[dict[str, Any]]:
    """The status of each Spark that is kept warm for this user. Removes dead sockets."""
    found = []
    for path in all_sockets():
        answer = ask(path, {"ask": "status"})
        if answer is None:
            path.unlink(missing_ok=True)
            continue
        answer[1].close()
        found.append(answer[0])
    return found


def describe_kept(status: Mapping[str, Any]) -> str:
    """The status of a warm Spark as one line for people."""
    count = status["commands"]
    served = f"{count} command{'' if count == 1 else 's'} so far"
    users = ", ".join(f"{one['command']} (process {one['pid']})" for one in status["used_by"])
    until = (
        f"used by {users}"
        if users
        else f"ends in {max(1, round(status['ends_in'] / 60))} min if nobody comes"
    )
    size = f"{status['memory'] >> 20:,} MiB"
    return f"kept warm in {status['folder']} (process {status['pid']}, {size}, {served}): {until}"


def stop_kept(*, force: bool = False) -> list[dict[str, Any]]:
    """End each warm Spark that nobody uses, or all with `force`. Returns their last status, and under `ended`
    whether they have ended."""
    told = []
    for path in all_sockets():
        try:
            status = ask(path, {"ask": "status"})
            answer = ask(path, {"ask": "stop", "force": force})
        except SparkFailed:
            if not force:
                raise
            _kill(path)
            status = answer = None
        for each in (status, answer):
            if each is not None:
                each[1].close()
        if status is None:
            path.unlink(missing_ok=True)
        else:
            told.append(status[0] | {"ended": answer is None or answer[0].get("ended", False)})
    return told


def _lease(path: Path, settings: SparkSettings, fingerprint: str, needs: Set[JarSet]) -> dict[str, Any]:
    """Ask the keeper for its Java: the port and secret, or that this Spark is another one; empty where nobody
    listens."""
    assert settings.keep_warm is not None
    answer = ask(
        path,
        {
            "ask": "lease",
            "fingerprint": fingerprint,
            "needs": sorted(needs),
            "keep_warm": settings.keep_warm.total_seconds(),
            "command": " ".join(["tidegauge", *sys.argv[1:2]]),
        },
    )
    if answer is None:
        return {}
    if "port" in answer[0]:
        _lines.append(answer[1])
    else:
        answer[1].close()
    return answer[0]


def _start(path: Path, settings: SparkSettings, fingerprint: str, needs: Set[JarSet], lock: int) -> None:
    """Start a keeper. Raises SparkFailed. Settings go through a pipe, as everybody sees a command line."""
    assert settings.keep_warm is not None
    asked = {
        "path": str(path),
        "lock": lock,
        "fingerprint": fingerprint,
        "needs": sorted(needs),
        "keep_warm": settings.keep_warm.total_seconds(),
        "master": settings.master,
        "conf": dict(settings.conf),
    }
    keeper = subprocess.Popen(
        [sys.executable, "-m", "tidegauge.spark.warm_server"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        pass_fds=[lock],
        start_new_session=True,
    )
    assert keeper.stdin is not None
    assert keeper.stdout is not None
    with closing(keeper.stdout):
        with suppress(BrokenPipeError):
            keeper.stdin.write(json.dumps(asked).encode() + b"\n")
            keeper.stdin.close()
        said: Mapping[str, Any] = json.loads(keeper.stdout.readline() or b"{}")
    if "ready" in said:
        # The keeper outlives this process: with a return code, Popen does not complain that it still runs.
        keeper.returncode = 0
        return
    error = said.get("error") or {"message": "Spark did not start", "hint": f"set {SWITCH}=off"}
    raise SparkFailed(mask(error["message"]), hint=error["hint"], detail=mask(error.get("detail") or ""))


def _kill(path: Path) -> None:
    """Kill a keeper that does not answer, and with its process group also its Java."""
    with socket.socket(socket.AF_UNIX) as wire, suppress(OSError):
        with address_of(path) as address:
            wire.connect(address)
        pid, _ = peer_of(wire)
        if pid is not None and os.getpgid(pid) == pid:
            os.killpg(pid, signal.SIGKILL)


def _umask() -> str:
    """The umask line of this process, or nothing; `os.umask` would change the umask for a moment."""
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("Umask:"):
                return line
    return ""


def _key_files() -> list[Path]:
    folder = Path.home() / ".aws"
    return [
        Path(os.environ.get("AWS_SHARED_CREDENTIALS_FILE") or folder / "credentials"),
        Path(os.environ.get("AWS_CONFIG_FILE") or folder / "config"),
    ]


def _state_of(path: Path) -> list[int]:
    try:
        facts = path.stat()
    except OSError:
        return []
    return [facts.st_size, facts.st_mtime_ns]
