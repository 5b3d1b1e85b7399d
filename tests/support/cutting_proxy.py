"""A TCP proxy on loopback that counts round trips, and cuts a connection at a given word, before or after the
server has received it."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

HOST = "127.0.0.1"


class Proxy:
    def __init__(self, port: int) -> None:
        self._server = port
        self._listener = socket.create_server((HOST, 0))
        self.port: int = self._listener.getsockname()[1]
        self.cuts = 0
        self.trips = 0
        """Round trips: how often a client has sent something after an answer."""
        self._word: bytes | None = None
        self._heard = True
        threading.Thread(target=self._accept, daemon=True).start()

    def cut_at(self, word: bytes, *, heard: bool) -> None:
        """Cut once, at the next message with the word. `heard`: only the server's answer is lost."""
        self._word, self._heard = word, heard

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection((HOST, self._server))
                lost, answered = threading.Event(), threading.Event()
                ends = client, server, lost, answered
                threading.Thread(target=self._forward_requests, args=ends, daemon=True).start()
                threading.Thread(target=self._forward_answers, args=ends, daemon=True).start()

    def _forward_requests(
        self, client: socket.socket, server: socket.socket, lost: threading.Event, answered: threading.Event
    ) -> None:
        with suppress(OSError):
            while data := client.recv(1 << 16):
                if answered.is_set():
                    answered.clear()
                    self.trips += 1
                if self._word is not None and self._word in data:
                    self._word = None
                    self.cuts += 1
                    lost.set()
                    if self._heard:
                        server.sendall(data)
                        server.recv(1 << 16)  # The server has answered, so it has executed the request.
                    break
                server.sendall(data)
        _close_all(client, server)

    def _forward_answers(
        self, client: socket.socket, server: socket.socket, lost: threading.Event, answered: threading.Event
    ) -> None:
        with suppress(OSError, ValueError):
            while data := _read_answer(server, lost):
                answered.set()
                client.sendall(data)
        if not lost.is_set():
            _close_all(client, server)


def _read_answer(server: socket.socket, lost: threading.Event) -> bytes:
    """Read from the server; empty once the connection is cut."""
    while not lost.is_set():
        ready, _, _ = select.select([server], [], [], 0.02)
        if ready and not lost.is_set():
            return server.recv(1 << 16)
    return b""


def _close_all(*sockets: socket.socket) -> None:
    for one in sockets:
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
        one.close()


@contextmanager
def cutting(port: int) -> Iterator[Proxy]:
    proxy = Proxy(port)
    try:
        yield proxy
    finally:
        proxy.close()
