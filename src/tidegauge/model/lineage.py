"""Where the rows of a flow come from and go to, as catalogues of lineage name it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Dataset:
    namespace: str
    """Where it is: `postgres://HOST:PORT`, `s3://BUCKET`, `file`."""
    name: str
    """What it is called there."""
    input: str | None = None
    """Its name as an input of the flow; None: it is the output."""
    columns: tuple[tuple[str, str], ...] = ()
    """Name and type of each; none where they are not known."""


@dataclass(frozen=True)
class FlowLineage:
    inputs: tuple[Dataset, ...]
    output: Dataset
    sql: str | None = None
    """Of its transform."""
    columns: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    """By column of the output, the inputs' names and columns that it is made from, where that is certain."""
