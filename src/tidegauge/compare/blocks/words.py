"""What is asked of an engine so that it hashes rows as `model.canonical` says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tidegauge.model.canonical import CanonicalForm


@dataclass(frozen=True)
class HashedColumn:
    expression: str
    """SQL of the value."""
    type: str
    """The Spark type of the expression: `bigint` for a date that comes as a number of days."""
    form: CanonicalForm


class HashWords(Protocol):
    floats: str
    """Whose text of a float it writes: two engines with the same word write the same. Empty: nobody's."""
    check: str
    """A SELECT of one value that is 1 where the hash can be relied on; empty: nothing to ask."""

    in_process: bool
    """Functions of this process hash the rows: they also take a text for what it means (`types:`), and a
    connection of somebody else's, such as a JDBC driver's, does not have them."""
    whole: str
    """SQL behind a table's name that makes the server read it from end to end, and not along an index."""

    def hash(self, columns: Sequence[HashedColumn]) -> str:
        """SQL of `model.canonical.hash_row` of the columns; never NULL. Where that cannot be had it is an
        error, or a number that no second row has."""

    def total(self, expression: str) -> str:
        """SQL of the sum of such hashes, however many; `DISTINCT …` is an expression too."""
