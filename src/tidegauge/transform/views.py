"""Frames under names, in a session of the flow's own, so that SQL can read them."""

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
"""Lines of ours before the user's SQL."""


class Views:
    """The frames of one batch.

    Each has a view of its own for as long as the batch lasts, and the query says which view stands for which
    name: a frame that is resolved late, as Spark Connect does it, still reads what it was made over.
    """

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._known: list[tuple[DataFrame, str]] = []
        self.inputs: dict[str, str] = {}
        """Which input each view stands for."""

    def table(self, frame: DataFrame, name: str) -> DataFrame:
        """The frame, read by way of its view, which marks in a plan where the user's own part ends."""
        return self._session.table(self._view(frame, name))

    def sql(self, text: str, frames: Mapping[str, DataFrame]) -> DataFrame:
        """The result of a query over frames by name. The text is a query and can do nothing else."""
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
    """Without the semicolon that may stand at its end, and without what follows."""
    try:
        tokens = sqlglot.tokenize(text, read="spark")
    except SqlglotError:
        return text
    end = next((token.end for token in reversed(tokens) if token.token_type != TokenType.SEMICOLON), None)
    return text if end is None else text[: end + 1]
