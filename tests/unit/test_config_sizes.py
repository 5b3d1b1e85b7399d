"""Sizes as people write them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.project import here
from tidegauge.config.sizes import parse_size
from tidegauge.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("1KB", 1000),
        ("1KiB", 1024),
        ("128MB", 128 * 10**6),
        ("128mib", 128 * 2**20),
        ("2 GB", 2 * 10**9),
        ("1TiB", 2**40),
        ("9", 9),
        ("9B", 9),
    ],
)
def test_a_number_with_its_unit(text: str, count: int) -> None:
    assert parse_size(text) == count


@pytest.mark.parametrize(
    "text", ["", "0MB", "-1MB", "1.5GB", "MB", "1PB", "5ib", "١MB", "9" * 19, "9" * 18 + "KB"]
)
def test_anything_else_is_refused_with_examples(text: str) -> None:
    with pytest.raises(ConfigError, match="is not a size") as refused:
        parse_size(text)
    assert "64MB" in (refused.value.hint or "")


@pytest.mark.parametrize(
    ("words", "count"),
    [
        ((), 128 * 2**20),
        (("--target-size", "64MB"), 64 * 10**6),
        (("--target-size", "64MiB"), 64 * 2**20),
    ],
)
def test_files_compact_makes_files_of_the_size_that_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], count: int
) -> None:
    requests: list[Any] = []

    def compact(_project: object, _flows: object, request: Any, *, reason: object) -> list[object]:
        requests.append(request)
        return []

    monkeypatch.setattr("tidegauge.operations.files.compact", compact)
    (tmp_path / "tidegauge.yml").write_text("pipeline: shop\n")
    ran = here("files", "compact", "--dry-run", *words, "--project", tmp_path / "tidegauge.yml")
    assert ran.code == 0, ran.said
    assert [request.target_bytes for request in requests] == [count]
