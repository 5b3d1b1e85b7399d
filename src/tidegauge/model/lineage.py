"""Where the rows of a flow come from and go to, by OpenLineage's naming of datasets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Dataset:
    namespace: str
    """Where the dataset is: `postgres://HOST:PORT`, `s3://BUCKET`, `file`."""
    name: str
    """The dataset's name within the namespace."""
    input: str | None = None
    """The name as an input of the flow; None: the dataset is the output."""
    columns: tuple[tuple[str, str], ...] = ()
    """Name and type of each column; empty if not known."""


@dataclass(frozen=True)
class FlowLineage:
    inputs: tuple[Dataset, ...]
    output: Dataset
    sql: str | None = None
    """SQL of the flow's transform, if it has one."""
    columns: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    """For each output column the (input, column) pairs that it is computed from, if that is certain."""
