"""S3 that is not there, does not know us, or does not keep its word."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.request import Request, urlopen

import pytest

from tests.support.output_parts import LAYOUT, batch, s3_lake, staged, tag
from tests.support.servers import S3, free_port, start_s3
from tidegauge.errors import ConfigError, OutputUnreachable, OutputUnsafe
from tidegauge.model.secret import Secret
from tidegauge.model.spec import Lake
from tidegauge.outputs.lake.output import LakeOutput


def fails(lake: Lake) -> list[OutputUnreachable]:
    """The errors of everything one can ask of the output."""
    output = LakeOutput(lake, "t")
    window = batch("2025-01-01 00:00:00")
    errors = []
    for ask in (
        output.prepare,
        output.is_empty,
        lambda: output.receipt(tag(1)),
        lambda: output.commit(tag(1), window, staged(), layout=LAYOUT, run_id="r"),
    ):
        with pytest.raises(OutputUnreachable) as caught:
            ask()
        errors.append(caught.value)
    return errors


def test_a_missing_bucket_is_named(s3: S3) -> None:
    for error in fails(s3_lake(s3, bucket="no-such-bucket")):
        assert "there is no bucket no-such-bucket" in error.message
        assert "\n" not in error.message
        assert error.hint
        assert not error.retryable


def test_e3_wrong_keys_are_told_without_showing_them() -> None:
    with start_s3() as server:
        bucket = server.create_bucket()
        # From here on the server checks every signature.
        switch = Request(f"{server.endpoint}/moto-api/reset-auth", b"0", {"Content-Type": "text/plain"})
        urlopen(switch).close()
        for error in fails(s3_lake(server, bucket=bucket, secret="wrong-secret-key")):
            assert f"refused the keys for the bucket {bucket}" in error.message
            assert error.hint
            assert not error.retryable
            shown = f"{error.message} {error.hint} {error.detail}"
            assert "wrong-secret-key" not in shown
            assert server.access_key not in shown


def test_an_endpoint_that_is_down_is_an_error_within_seconds(s3: S3) -> None:
    endpoint = f"http://127.0.0.1:{free_port()}"
    start = time.monotonic()
    for error in fails(replace(s3_lake(s3), endpoint=endpoint)):
        assert endpoint in error.message
        assert error.retryable
    assert time.monotonic() - start < 300  # four questions, for each of which its library would take 180


def test_an_endpoint_that_never_answers_is_an_error_within_seconds(s3: S3) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
        start = time.monotonic()
        with pytest.raises(OutputUnreachable, match="127"):
            LakeOutput(replace(s3_lake(s3), endpoint=endpoint), "t").prepare()
        assert time.monotonic() - start < 150


def test_an_outage_between_two_questions_is_not_taken_for_an_empty_table() -> None:
    with start_s3() as server:
        lake = s3_lake(server)
        output = LakeOutput(lake, "t")
        output.prepare()
        output.commit(tag(1), batch("2025-01-01 00:00:00"), staged(), layout=LAYOUT, run_id="r")
    for ask in (output.is_empty, lambda: output.receipt(tag(1)), lambda: output.receipt(tag(2))):
        with pytest.raises(OutputUnreachable):
            ask()


def test_no_credentials_anywhere_is_one_sentence(s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    lake = replace(s3_lake(s3), access_key=None, secret_key=None)
    with pytest.raises(OutputUnreachable, match="no AWS credentials were found"):
        LakeOutput(lake, "t").prepare()


def test_keys_of_the_environment_are_the_usual_chain(s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3.secret_key)
    lake = replace(s3_lake(s3), access_key=None, secret_key=None)
    LakeOutput(lake, "t").prepare()


@pytest.mark.parametrize("path", ["s3a://", "s3a://bucket/a//b", "s3a://bucket/../b"])
def test_a_path_that_s3_would_take_literally_is_refused(path: str) -> None:
    with pytest.raises(ConfigError):
        LakeOutput(Lake("lake", path), "t")


def test_one_key_without_the_other_is_refused() -> None:
    with pytest.raises(ConfigError, match="only one of"):
        LakeOutput(Lake("lake", "s3a://bucket", access_key=Secret("half-a-key")), "t")


class Careless(BaseHTTPRequestHandler):
    """Just enough of S3, with every If-None-Match ignored, or only honoured for those who come late."""

    objects: dict[str, bytes]
    ignores_all = True
    protocol_version = "HTTP/1.1"

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        known = self.path in self.objects
        if known and not self.ignores_all:
            return self.answer(412)
        if not self.ignores_all:
            time.sleep(0.2)  # between looking and putting, as a gateway that does not lock
        self.objects[self.path] = body
        return self.answer(200)

    def do_GET(self) -> None:
        found = self.objects.get(self.path)
        return self.answer(404) if found is None else self.answer(200, found)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        return self.answer(200, b"<DeleteResult/>")

    def answer(self, status: int, body: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("ETag", '"x"')
        self.send_header("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize("ignores_all", [True, False], ids=["always", "in a race"])
def test_c7_a_store_that_lets_two_writers_win_is_refused(ignores_all: bool, s3: S3) -> None:
    handler = type("Handler", (Careless,), {"objects": {}, "ignores_all": ignores_all})
    with serving(handler) as endpoint:
        output = LakeOutput(replace(s3_lake(s3), endpoint=endpoint), "t")
        for _ in range(2):  # a refusal is not remembered as proof
            with pytest.raises(OutputUnsafe, match="conditional puts"):
                output.prepare()


class Busy(Careless):
    """Takes only every third request, and tells the others to come again."""

    refused: list[str]
    guard: threading.Lock

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.is_busy():
            return None
        with self.guard:
            if self.path in self.objects and self.headers["If-None-Match"]:
                return self.answer(412)
            self.objects[self.path] = body
        return self.answer(200)

    def do_GET(self) -> None:
        return None if self.is_busy() else super().do_GET()

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        return (
            None
            if self.is_busy()
            else self.answer(200, b"<DeleteResult><Deleted><Key>x</Key></Deleted></DeleteResult>")
        )

    def is_busy(self) -> bool:
        with self.guard:
            self.refused.append(self.path)
            busy = len(self.refused) % 3 != 0
        if busy:
            status, code = (503, b"SlowDown") if len(self.refused) % 2 else (500, b"InternalError")
            self.answer(status, b"<Error><Code>" + code + b"</Code></Error>")
        return busy


def test_throttling_and_faults_of_the_server_are_waited_out(s3: S3) -> None:
    handler = type("Handler", (Busy,), {"objects": {}, "refused": [], "guard": threading.Lock()})
    with serving(handler) as endpoint:
        lake = replace(s3_lake(s3), endpoint=endpoint)
        output = LakeOutput(lake, "t")
        output.prepare()
        published = output.commit(tag(1), batch("2025-01-01 00:00:00"), staged(), layout=LAYOUT, run_id="r")
        assert output.receipt(tag(1)) == published
    assert len(handler.refused) > 10  # type: ignore[attr-defined]
