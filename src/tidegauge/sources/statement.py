"""The beginning of another session's SQL statement, safe to show: its values are replaced by `?`."""

from __future__ import annotations

import re

from tidegauge.model.secret import mask

_VALUES = re.compile(r"'(?:[^'\\]|\\.|'')*'?|\"(?:[^\"\\]|\\.|\"\")*\"?|\b\d[\w.]*", re.DOTALL)
_LONGEST = 60


def show_head(statement: str | None) -> str:
    """`: UPDATE orders SET total = ? …`; empty if there is no statement."""
    text = mask(_VALUES.sub("?", " ".join((statement or "").split())))
    if not text:
        return ""
    return ": " + text[:_LONGEST] + ("…" if len(text) > _LONGEST else "")
