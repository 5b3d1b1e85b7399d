"""A scheduler's health over HTTP, for whoever watches the process."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tidegauge.errors import ConfigError
from tidegauge.model.secret import mask
from tidegauge.operations.schedule import BEAT, SchedulerState

_SILENT = 3 * BEAT
_PLACE = "127.0.0.1"
"""Nobody else's business; a container or a proxy can open it to others."""


def describe_health(state: SchedulerState) -> tuple[int, dict[str, Any]]:
    """The HTTP status and the document: 503 while a schedule's last run failed, or the ledger is silent."""
    silent = time.monotonic() - state.looked
    failing = {name: count for name, count in state.failing.items() if count}
    ok = not failing and silent < _SILENT and state.trouble is None
    return 200 if ok else 503, {
        "schema": "tidegauge/schedule-health/1",
        "ok": ok,
        "last_tick": state.last.to_json() if state.last else None,
        "next_tick": _iso(state.next),
        "ticks": state.ticks,
        "skipped": state.skipped,
        "missed": state.missed,
        "failures": state.failed,
        "failing": failing,
        "trouble": state.trouble,
        "seconds_since_ledger": round(silent, 3),
    }


@contextmanager
def serve_health(state: SchedulerState, port: int | None) -> Iterator[int | None]:
    """Answer `GET /health` on this port of this machine while the block runs; 0 is any free one.

    Raises ConfigError where the port is taken.
    """
    if port is None:
        yield None
        return
    try:
        server = ThreadingHTTPServer((_PLACE, port), _handler(state))
    except OSError as error:
        raise ConfigError(
            f"nothing can listen at {_PLACE}:{port}: {error.strerror}", hint="choose another --health-port"
        ) from error
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, name="tidegauge-health", daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(state: SchedulerState) -> type[BaseHTTPRequestHandler]:
    class _Health(BaseHTTPRequestHandler):
        timeout = 10

        def do_GET(self) -> None:
            if self.path.partition("?")[0] != "/health":
                self.send_error(404, "ask for /health")
                return
            code, document = describe_health(state)
            body = mask(json.dumps(document)).encode() + b"\n"
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """A probe every few seconds is not worth a line each."""

    return _Health


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else f"{moment.isoformat(timespec='microseconds')}Z"
