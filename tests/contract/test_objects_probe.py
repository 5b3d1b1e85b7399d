"""Stores that say they honour If-Match and do not."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from hashlib import md5
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.support.output_parts import s3_lake
from tests.support.servers import S3
from tidegauge.errors import OutputUnsafe
from tidegauge.storage.local import LocalFiles
from tidegauge.storage.probe import check_store
from tidegauge.storage.store import open_store


class Liar(BaseHTTPRequestHandler):
    """Just enough of S3. If-None-Match is honoured; If-Match as `lie` says."""

    objects: dict[str, bytes]
    turn: threading.Lock
    lie: str
    protocol_version = "HTTP/1.1"

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        wanted = self.headers["If-Match"]
        with self.turn:
            found = self.objects.get(self.path)
            if self.headers["If-None-Match"] and found is not None:
                return self.answer(412)
            if wanted and self.refuses(wanted, found):
                return self.answer(412)
            if not (wanted and self.lie == "races"):
                self.objects[self.path] = body
                return self.answer(200, tag_of=body)
        time.sleep(0.2)  # between looking and putting, as a gateway that does not lock
        self.objects[self.path] = body
        return self.answer(200, tag_of=body)

    def refuses(self, wanted: str, found: bytes | None) -> bool:
        match self.lie:
            case "ignores":
                return False
            case "always refuses":
                return True
            case "only looks whether it is there":
                return found is None
            case _:
                return found is None or wanted.strip('"') != tag(found)

    def do_GET(self) -> None:
        found = self.objects.get(self.path)
        return self.answer(404) if found is None else self.answer(200, found, tag_of=found)

    def do_POST(self) -> None:
        asked = self.rfile.read(int(self.headers["Content-Length"]))
        keys = re.findall(rb"<Key>.*?</Key>", asked)
        gone = b"".join(b"<Deleted>" + key + b"</Deleted>" for key in keys)
        return self.answer(200, b"<DeleteResult>" + gone + b"</DeleteResult>")

    def answer(self, status: int, body: bytes = b"", *, tag_of: bytes | None = None) -> None:
        self.send_response(status)
        if tag_of is not None:
            self.send_header("ETag", f'"{tag(tag_of)}"')
        self.send_header("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


def tag(body: bytes) -> str:
    return md5(body).hexdigest()


@contextmanager
def liar(lie: str) -> Iterator[str]:
    handler = type("Handler", (Liar,), {"objects": {}, "turn": threading.Lock(), "lie": lie})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize("lie", ["ignores", "always refuses", "only looks whether it is there", "races"])
def test_c7_a_store_that_does_not_keep_if_match_is_refused(lie: str, s3: S3) -> None:
    with liar(lie) as endpoint:
        store = open_store(replace(s3_lake(s3), endpoint=endpoint))
        check_store(store, endpoint)  # good enough for what is put only once
        for _ in range(2):  # a refusal is not remembered as proof
            with pytest.raises(OutputUnsafe, match=r"conditional puts \(If-Match\)") as caught:
                check_store(store, endpoint, replacing=True)
            assert caught.value.hint


def test_a_store_that_keeps_both_is_taken(s3: S3) -> None:
    with liar("no lie") as endpoint:
        check_store(open_store(replace(s3_lake(s3), endpoint=endpoint)), endpoint, replacing=True)


class Forgetful(LocalFiles):
    """Every put that lands says that it was refused, as one does that was sent again after a lost answer."""

    def put_if_absent(self, path: str, body: bytes) -> bool:
        super().put_if_absent(path, body)
        return False


def test_b3_a_lost_answer_does_not_make_a_store_unsafe(tmp_path: Path) -> None:
    check_store(Forgetful(str(tmp_path)), str(tmp_path))
    assert list(tmp_path.iterdir()) == []


class Generous(LocalFiles):
    def put_if_absent(self, path: str, body: bytes) -> bool:
        super().put_if_absent(path, body)
        return True


def test_a_store_that_lets_everybody_win_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OutputUnsafe):
        check_store(Generous(str(tmp_path)), str(tmp_path))
