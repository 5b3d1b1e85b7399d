"""Sizes as people write them: `128MB`, `1GB`."""

from __future__ import annotations

import re

from tidegauge.errors import ConfigError

_FORM = re.compile(r"(\d{1,9})(KB|MB|GB)", re.ASCII | re.IGNORECASE)
_UNITS = {"KB": 2**10, "MB": 2**20, "GB": 2**30}


def parse_size(text: str) -> int:
    """Bytes. Raises ConfigError, with examples, for anything but a whole number above 0 with its unit."""
    match = _FORM.fullmatch(text)
    if not match or not int(match[1]):
        raise ConfigError(f"`{text[:60]}` is not a size", hint="write it as `512KB`, `128MB` or `1GB`")
    return int(match[1]) * _UNITS[match[2].upper()]
