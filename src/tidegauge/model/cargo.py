"""What a reader hands to an output: the rows of one batch, in whichever forms they can be had.

An output takes the form that is fastest for it. All forms hold the same rows; the order of the stretches, and
of the files, is the order in which they were read: of two rows with one key the later counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from tidegauge.model.spec import Lake
from tidegauge.model.table import Layout

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


class Stretch(Protocol):
    """Rows that one task reads by itself, straight from where they are.

    Can be pickled and read again. One stretch never holds a key twice. Its errors are ours, or a sentence
    that begins with `tidegauge: `.
    """

    def batches(self) -> Iterator[pa.RecordBatch]:
        """With exactly `model.arrow.schema_of(layout)`."""


@dataclass(frozen=True)
class LakeFile:
    """A committed file of a lake."""

    lake: Lake
    path: str
    """Below the lake's path."""
    rows: int
    bytes: int


@dataclass(frozen=True)
class Cargo:
    """At least one of `stretches` and `frame` is there; `files` only where the rows lie in a lake already."""

    layout: Layout
    rows: int | None = None
    """Where they were counted before they are read: exact in a lake, at a live source a moment old."""
    deletes: bool = False
    """The rows are keys alone, and what the output has under them goes."""
    files: tuple[LakeFile, ...] = ()
    """In order; a file in here has as many rows and bytes as it says, or the batch fails."""
    stretches: tuple[Stretch, ...] = ()
    """With files: one for each, in the same order."""
    paths: tuple[str, ...] = ()
    """Where in the lake the rows come from, in full; also where the files cannot be read just as they are."""
    frame: Callable[[SparkSession], DataFrame] | None = None
    """Lazy: nothing is read until the frame is written."""
