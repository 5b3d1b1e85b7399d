"""What a run does behind its progress lines: statements and files, for `--debug`. Nobody else listens."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from tidegauge.model.secret import mask

TRACE = logging.getLogger("tidegauge.trace")
_LONGEST = 4000


def trace_sql(where: str, sql: str) -> None:
    """A statement, as it is sent there."""
    if TRACE.isEnabledFor(logging.DEBUG):
        # Masked first: a secret that lost a space, or its end, would not be found any more.
        text = " ".join(mask(sql).split())
        TRACE.debug("%s: %s", where, text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…")


def trace_files(what: str, paths: Iterable[str]) -> None:
    if TRACE.isEnabledFor(logging.DEBUG):
        for path in paths:
            TRACE.debug("%s: %s", what, path)
