"""Serves the pages until asked to stop."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from typing import Any

import uvicorn
from fastapi import FastAPI

from tidegauge.errors import ConfigError


def open_socket(host: str, port: int) -> socket.socket:
    """A listening socket, opened before the address is printed. Raises ConfigError if it cannot be opened."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host.strip("[]"), port))
        made.listen(128)
    except OSError as error:
        made.close()
        raise ConfigError(
            f"{host}:{port} cannot be listened on: {error.strerror or error}",
            hint="another program has it: choose a port with --port, or 0 for any that is free"
            if port
            else "choose another --host",
        ) from error
    return made


def serve(app: FastAPI, listening: socket.socket) -> Callable[[], None]:
    """Serve in a thread of its own. The returned function stops the server."""
    settings: dict[str, Any] = {
        "log_level": "critical",
        "access_log": False,
        "server_header": False,
        "date_header": False,
        "timeout_graceful_shutdown": 2,
        "lifespan": "off",
        "proxy_headers": False,
        "ws": "none",  # else it looks for websocket libraries, which are not needed
    }
    server = uvicorn.Server(uvicorn.Config(app, **settings))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()

    def end() -> None:
        app.state.watch.ended = True
        server.should_exit = True
        thread.join()
        listening.close()

    return end
