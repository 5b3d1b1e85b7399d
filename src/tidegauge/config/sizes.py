"""Sizes as people write them: `64MB`, `1GiB`, or a plain number of bytes."""

from __future__ import annotations

import re

from tidegauge.errors import ConfigError

_FORM = re.compile(r"(\d{1,18})\s*(?:([kmgt]?)(i?)b)?", re.ASCII | re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def parse_size(text: str) -> int:
    """Read a size in bytes: `1MB` is 1000 * 1000, `1MiB` is 1024 * 1024. Raises ConfigError."""
    match = _FORM.fullmatch(text)
    if match and (match[2] or not match[3]):
        size: int = int(match[1]) * (1024 if match[3] else 1000) ** _POWERS[(match[2] or "").lower()]
        if 0 < size < 2**63:
            return size
    raise ConfigError(
        f"`{text[:60]}` is not a size of at least one byte",
        hint="write it as `64MB`, `1GiB`, or in bytes",
    )
