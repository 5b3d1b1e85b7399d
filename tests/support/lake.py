"""Reads a lake table by its documented layout alone, without Tidegauge's code."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tests.support.servers import S3


class LocalLake:
    def __init__(self, root: Path) -> None:
        self.root = root

    def names(self, folder: str) -> list[str]:
        # `os.walk` bears folders that vanish while they are listed, as another process may be writing there.
        base = self.root / folder
        return sorted(
            str((Path(here) / name).relative_to(base)) for here, _, names in os.walk(base) for name in names
        )

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
    """Read the manifests of the newest epoch and those it continues, in order; check that none is missing."""
    names = [name for name in lake.names(folder) if name.startswith("_tidegauge/") and name.endswith(".json")]
    newest = max([int(Path(name).parts[1]) for name in names if name.endswith("/open.json")], default=0)
    return _read_epoch(lake, folder, names, newest, None)


def _read_epoch(
    lake: Lake, folder: str, names: list[str], epoch: int, upto: int | None
) -> list[dict[str, Any]]:
    before: list[dict[str, Any]] = []
    if epoch:
        continues = json.loads(lake.get(folder, f"_tidegauge/{epoch}/open.json"))["continues"]
        if continues is not None:
            before = _read_epoch(lake, folder, names, continues["epoch"], continues["upto"])
    top = f"_tidegauge/{epoch}/"
    numbers = sorted(int(Path(name).stem) for name in names if name.startswith(top) and "open" not in name)
    assert numbers == list(range(1, len(numbers) + 1)), numbers
    own = numbers if upto is None else numbers[:upto]
    assert upto is None or len(own) == upto, (epoch, upto, numbers)
    return before + [json.loads(lake.get(folder, f"{top}{seq}.json")) for seq in own]


def rows(lake: Lake, folder: str, *, compacted: bool = True) -> list[dict[str, Any]]:
    """Read every row version, batch by batch, and check each manifest's counts against its files.

    `compacted=False` reads the original files, as a reader does that does not know of compaction.
    """
    everything: list[dict[str, Any]] = []
    for manifest in manifests(lake, folder):
        batch: list[dict[str, Any]] = []
        moved = manifest.get("compacted") if compacted else None
        for at, file in enumerate(manifest["files"]):
            if moved is not None:
                place = moved["files"][at]
                batch += _part(lake, folder, place, file["rows"], manifest["seq"])
                continue
            body = lake.get(folder, file["path"])
            part = pq.read_table(io.BytesIO(body)).to_pylist()
            assert len(part) == file["rows"]
            assert len(body) == file["bytes"]
            batch += part
        assert len(batch) == manifest["rows"]
        everything += batch
    return everything


def _part(lake: Lake, folder: str, place: dict[str, Any], count: int, seq: int) -> list[dict[str, Any]]:
    """Read the rows of one file of a batch from a compacted file, where each row has its batch number."""
    body = lake.get(folder, place["path"])
    assert len(body) == place["bytes"]
    part: list[dict[str, Any]] = pq.read_table(io.BytesIO(body)).slice(place["first"], count).to_pylist()
    assert [row.pop("_tidegauge_seq") for row in part] == [seq] * count
    return part


def latest(lake: Lake, folder: str, *key: str) -> dict[tuple[Any, ...], dict[str, Any]]:
    return {tuple(row[name] for name in key): row for row in rows(lake, folder)}
