"""moto's S3 server with serialized writes: python tests/support/s3_server.py HOST PORT

S3 does a conditional put in one step. moto checks first and then writes, so that two of its threads could
both find no object and write.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any

from moto.moto_server.werkzeug_app import (
    DomainDispatcherApplication,
    MotoRequestHandler,
    create_backend_app,
)
from werkzeug.serving import run_simple


class InTurn:
    def __init__(self, application: Callable[..., Iterable[bytes]]) -> None:
        self._application = application
        self._turn = threading.Lock()

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] in ("GET", "HEAD"):
            return self._application(environ, start_response)
        with self._turn:
            return list(self._application(environ, start_response))


def main(host: str, port: str) -> None:
    application = InTurn(DomainDispatcherApplication(create_backend_app))
    run_simple(host, int(port), application, threaded=True, request_handler=MotoRequestHandler)


if __name__ == "__main__":
    main(*sys.argv[1:])
