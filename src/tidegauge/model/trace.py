"""Traces the statements and files of a run, for `--debug` only."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from tidegauge.model.secret import mask

TRACE = logging.getLogger("tidegauge.trace")
_LONGEST = 4000


def trace_sql(where: str, sql: str) -> None:
    """Log a SQL statement as it is sent to `where`."""
    if TRACE.isEnabledFor(logging.DEBUG):
        # Masked first: `mask` could not find a secret whose spaces or end were changed.
        text = " ".join(mask(sql).split())
        TRACE.debug("%s: %s", where, text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…")


def trace_files(what: str, paths: Iterable[str]) -> None:
    if TRACE.isEnabledFor(logging.DEBUG):
        for path in paths:
            TRACE.debug("%s: %s", what, path)
