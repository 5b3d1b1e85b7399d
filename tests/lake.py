"""Reads a lake table the way a stranger would who knows only the documented layout."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tests.servers import S3


class LocalLake:
    def __init__(self, root: Path) -> None:
        self.root = root

    def names(self, folder: str) -> list[str]:
        base = self.root / folder
        return sorted(str(path.relative_to(base)) for path in base.rglob("*") if path.is_file())

    def get(self, folder: str, name: str) -> bytes:
        return (self.root / folder / name).read_bytes()


class S3Lake:
    def __init__(self, s3: S3, bucket: str, prefix: str) -> None:
        self._client = s3.client()
        self._bucket = bucket
        self._prefix = prefix

    def names(self, folder: str) -> list[str]:
        base = f"{self._prefix}/{folder}/"
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=base)
        return sorted(item["Key"].removeprefix(base) for page in pages for item in page.get("Contents", []))

    def get(self, folder: str, name: str) -> bytes:
        key = f"{self._prefix}/{folder}/{name}"
        body: bytes = self._client.get_object(Bucket=self._bucket, Key=key)["Body"].read()
        return body


Lake = LocalLake | S3Lake


def manifests(lake: Lake, folder: str) -> list[dict[str, Any]]:
    """In the order of their sequence numbers, which have no gap."""
    found = [name for name in lake.names(folder) if name.startswith("_tidegauge/") and name.endswith(".json")]
    numbers = {int(Path(name).stem): name for name in found}
    assert sorted(numbers) == list(range(1, len(numbers) + 1)), sorted(numbers)
    return [json.loads(lake.get(folder, numbers[seq])) for seq in sorted(numbers)]


def rows(lake: Lake, folder: str) -> list[dict[str, Any]]:
    """Every row version, batch by batch; each manifest's counts are checked against its files."""
    everything: list[dict[str, Any]] = []
    for manifest in manifests(lake, folder):
        batch: list[dict[str, Any]] = []
        for file in manifest["files"]:
            body = lake.get(folder, file["path"])
            part = pq.read_table(io.BytesIO(body)).to_pylist()
            assert len(part) == file["rows"]
            assert len(body) == file["bytes"]
            batch += part
        assert len(batch) == manifest["rows"]
        everything += batch
    return everything


def latest(lake: Lake, folder: str, *key: str) -> dict[tuple[Any, ...], dict[str, Any]]:
    return {tuple(row[name] for name in key): row for row in rows(lake, folder)}
