"""Sizes as people write them."""

from __future__ import annotations

import pytest

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
