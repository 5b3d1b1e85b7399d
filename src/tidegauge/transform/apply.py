"""Applies a flow's transform to frames in place of its inputs: whole tables, changed rows, or others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tidegauge.errors import TransformFailed
from tidegauge.model.delta_flow import COMMIT_TIMESTAMP, COMMIT_VERSION, DeltaFlow, Function, Sql
from tidegauge.transform.faults import (
    explain_sql_error,
    name_transform,
    silence_pyspark,
)
from tidegauge.transform.function import call
from tidegauge.transform.needed import refuse_without_needed
from tidegauge.transform.nondeterminism import FOR_CHANCE
from tidegauge.transform.spark_plan import find_random, has_plan
from tidegauge.transform.views import ABOVE, Views

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Transform:
    """A flow's transform. Raises TransformFailed, with place or column, for the user's errors."""

    def __init__(self, flow: DeltaFlow, session: SparkSession) -> None:
        self.flow = flow
        self.views = Views(session)
        self._raw = any(part.raw for part in flow.inputs)

    def apply(self, frames: Mapping[str, DataFrame]) -> DataFrame:
        """The result of the transform over these frames, given by input name."""
        match self.flow.transform:
            case Sql(text=text):
                return self._tidy(self.query(text, frames))
            case Function() as function:
                shown = {name: self.views.table(frame, name) for name, frame in frames.items()}
                return self._tidy(call(function, shown))
            case None:
                (frame,) = frames.values()
                return self._tidy(frame)

    def query(self, text: str, frames: Mapping[str, DataFrame]) -> DataFrame:
        """The result of the user's SQL, or of SQL rewritten from it."""
        from pyspark.errors import PySparkException

        try:
            with silence_pyspark():
                frame = self.views.sql(text, frames)
                _ = frame.columns  # Spark Connect reports errors only when it is asked for the columns.
        except PySparkException as error:
            raise explain_sql_error(error, self.flow, above=ABOVE) from error
        return frame

    def _tidy(self, frame: DataFrame) -> DataFrame:
        self.check(frame)
        return frame if self._raw else frame.drop(COMMIT_VERSION, COMMIT_TIMESTAMP)

    def check(self, frame: DataFrame) -> None:
        """Raises TransformFailed for a result that the output cannot use."""
        name = name_transform(self.flow)
        many = Counter(column.casefold() for column in frame.columns)
        for column in frame.columns:
            if many[column.casefold()] > 1:
                raise TransformFailed(
                    f"{name} gives the column {column} more than once",
                    hint="give each column a name of its own, or join by USING",
                )
        refuse_without_needed(self.flow, name, frame.columns)
        if self.flow.transform is None or self.flow.allow_nondeterministic or not has_plan(frame):
            return
        if (found := find_random(frame)) is not None:
            raise TransformFailed(
                f"{name} is not deterministic ({found})", hint=FOR_CHANCE, place=self.flow.place
            )
