"""A scheduler's health over HTTP, for monitoring."""

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
"""Only this machine; a container or a proxy can open it to others."""


def describe_health(state: SchedulerState) -> tuple[int, dict[str, Any]]:
    """Return HTTP status and document; 503 while a schedule's last run failed or the ledger is silent."""
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
    """Answer `GET /health` on this machine's port during the block; gives the port, and 0 picks a free one.

    `port` None: do nothing. Raises ConfigError if the port is taken.
    """
    if port is None:
        yield None
        return
    try:
        server = ThreadingHTTPServer((_PLACE, port), _make_handler(state))
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


def _make_handler(state: SchedulerState) -> type[BaseHTTPRequestHandler]:
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
            """Log nothing, because probes come every few seconds."""

    return _Health


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else f"{moment.isoformat(timespec='microseconds')}Z"
