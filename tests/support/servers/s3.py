"""An S3 server: moto, in a separate process."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from tests.support.servers.process import HOST, await_server, free_port, fresh_name, server_home


@dataclass(frozen=True)
class S3:
    endpoint: str
    region: str
    access_key: str
    secret_key: str
    pid: int

    def client(self) -> Any:
        import boto3

        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name=self.region,
            aws_access_key_id=self.access_key,
            aws_secret_access_key=self.secret_key,
        )

    def create_bucket(self) -> str:
        name = fresh_name("bucket").replace("_", "-")
        self.client().create_bucket(
            Bucket=name, CreateBucketConfiguration={"LocationConstraint": self.region}
        )
        return name


@contextmanager
def start_s3() -> Iterator[S3]:
    """Start moto's S3 server, with serialized writes, in a separate process; it keeps its data in memory."""
    port = free_port()
    with server_home(None, None) as home:
        command = [sys.executable, str(Path(__file__).parents[1] / "s3_server.py"), HOST, str(port)]
        with home.serve(command) as process:
            endpoint = f"http://{HOST}:{port}"
            await_server(process, home, lambda: urlopen(endpoint, timeout=5).close())
            yield S3(endpoint, "eu-central-1", "test-access-key", "test-secret-key", process.pid)
