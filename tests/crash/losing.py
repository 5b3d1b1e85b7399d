"""A proxy before a database server that drops a connection at a COMMIT."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum


class Fate(Enum):
    """What happens to the next COMMIT, whose answer never reaches the client."""

    TAKEN = "the server has it"
    LOST = "it never reaches the server"
    TAKEN_AND_SILENT = "the server has it, and cannot be asked"


class LosingProxy:
    def __init__(self, server: tuple[str, int]) -> None:
        self._server = server
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._fate: Fate | None = None
        self._silent = False
        self.lost = 0
        """How many COMMITs lost their answer so far."""

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def lose_next_commit(self, fate: Fate) -> None:
        self._fate = fate

    def answer_again(self) -> None:
        self._silent = False

    def serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._silent:
                client.close()
                continue
            threading.Thread(target=self._forward, args=[client], daemon=True).start()

    def close(self) -> None:
        # Without this, `accept` would not notice that the socket is closed.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _forward(self, client: socket.socket) -> None:
        with client, socket.create_connection(self._server) as server:
            while True:
                ready, _, _ = select.select([client, server], [], [], 60)
                for end in ready:
                    try:
                        data = end.recv(1 << 16)
                        if not data:
                            return
                        if end is client and self._drop_commit(data, server):
                            return
                        (server if end is client else client).sendall(data)
                    except OSError:
                        return

    def _drop_commit(self, data: bytes, server: socket.socket) -> bool:
        """Drop the message if it is the COMMIT to lose: PostgreSQL's and MySQL's end with the statement."""
        fate = self._fate
        if fate is None or not data.rstrip(b"\0").endswith(b"COMMIT"):
            return False
        self._fate, self.lost = None, self.lost + 1
        if fate is not Fate.LOST:
            server.sendall(data)
            server.recv(1 << 16)
            self._silent = fate is Fate.TAKEN_AND_SILENT
        return True


@contextmanager
def start_losing(host: str, port: int) -> Iterator[LosingProxy]:
    proxy = LosingProxy((host, port))
    thread = threading.Thread(target=proxy.serve, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.close()
        thread.join(10)
