"""A web server on loopback that keeps what is posted to it, as a web hook, Pushgateway or lineage server."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Receiver:
    port: int
    requests: list[Request] = field(default_factory=list)
    status: int = 200
    """The status code that the server answers; a request is kept only if this is below 300."""
    hold: threading.Event = field(default_factory=threading.Event)
    """Set while the server answers; when cleared, it reads requests and does not answer them."""

    def alert_url(self, path: str = "hook") -> str:
        return f"json://127.0.0.1:{self.port}/{path}"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def titles(self) -> list[str]:
        """The titles of the web hook messages received."""
        return [request.json["title"] for request in self.requests]


@contextmanager
def receiving() -> Iterator[Receiver]:
    receiver = Receiver(0)
    receiver.hold.set()

    class Handler(BaseHTTPRequestHandler):
        def _take(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            receiver.hold.wait()
            if receiver.status < 300:
                request = Request(self.command, self.path, dict(self.headers), body)
                receiver.requests.append(request)
            self.send_response(receiver.status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_POST = do_PUT = _take  # noqa: N815

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    receiver.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        receiver.hold.set()
        server.shutdown()
        server.server_close()
        thread.join()
