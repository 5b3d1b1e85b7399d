"""The names of the views that rewritten SQL reads."""

from __future__ import annotations


def delta_name(name: str) -> str:
    """The view of an input's changed rows: `came`, or `gone`, or both."""
    return f"__tidegauge_delta_{name}"


def all_name(name: str) -> str:
    """The view of an input's rows before and after: `now` and `gone`."""
    return f"__tidegauge_all_{name}"
