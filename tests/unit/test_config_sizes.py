"""Sizes as people write them."""

from __future__ import annotations

import pytest

from tidegauge.config.sizes import parse_size
from tidegauge.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "count"), [("1KB", 1024), ("128MB", 128 * 2**20), ("128mb", 128 * 2**20), ("2GB", 2 * 2**30)]
)
def test_a_number_with_its_unit(text: str, count: int) -> None:
    assert parse_size(text) == count


@pytest.mark.parametrize(
    "text", ["", "128", "0MB", "-1MB", "1.5GB", "128 MB", "MB", "1TB", "١MB", "9" * 12 + "KB"]
)
def test_anything_else_is_refused_with_examples(text: str) -> None:
    with pytest.raises(ConfigError, match="is not a size") as refused:
        parse_size(text)
    assert "128MB" in (refused.value.hint or "")
