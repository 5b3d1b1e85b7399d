"""Temporary views over frames, in the flow's own session, so that SQL can read them by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import sqlglot
from sqlglot import TokenType
from sqlglot.errors import SqlglotError

from tidegauge.model.trace import trace_sql
from tidegauge.model.types import quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PREFIX = "__tidegauge_v"
ABOVE = 1
"""How many lines `Views.sql` puts before the user's SQL."""


class Views:
    """The views over the frames of one batch.

    Each frame keeps its own view for the whole batch, and a query maps input names to views: a frame that is
    resolved late, as in Spark Connect, still reads the frames that it was made from.
    """

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._known: list[tuple[DataFrame, str]] = []
        self.inputs: dict[str, str] = {}
        """For each view, the name of its input."""

    def table(self, frame: DataFrame, name: str) -> DataFrame:
        """The frame, read through its view, which marks in Spark's plan where the user's part ends."""
        return self._session.table(self._view(frame, name))

    def sql(self, text: str, frames: Mapping[str, DataFrame]) -> DataFrame:
        """The result of a query over frames by name. The text stands in a subquery, so it can only be a
        query."""
        given = ", ".join(
            f"{quote(name)} AS (SELECT * FROM {quote(self._view(frame, name))})"
            for name, frame in frames.items()
        )
        trace_sql("Spark", text)
        return self._session.sql(f"WITH {given} SELECT * FROM (\n{without_semicolon(text)}\n)")

    def _view(self, frame: DataFrame, name: str) -> str:
        for known, view in self._known:
            if known is frame and self.inputs[view] == name:
                return view
        view = f"{PREFIX}{len(self._known)}"
        frame.createOrReplaceTempView(view)
        self._known.append((frame, view))
        self.inputs[view] = name
        return view


def without_semicolon(text: str) -> str:
    """The SQL text without semicolons at its end and what follows them."""
    try:
        tokens = sqlglot.tokenize(text, read="spark")
    except SqlglotError:
        return text
    end = next((token.end for token in reversed(tokens) if token.token_type != TokenType.SEMICOLON), None)
    return text if end is None else text[: end + 1]
