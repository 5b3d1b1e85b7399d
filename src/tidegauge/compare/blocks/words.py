"""What an engine has to give so that it hashes rows as `model.canonical` says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tidegauge.model.canonical import CanonicalForm


@dataclass(frozen=True)
class HashedColumn:
    expression: str
    """SQL of the column's value."""
    type: str
    """The Spark type of the expression: `bigint` for a date that comes as a number of days."""
    form: CanonicalForm


class HashSql(Protocol):
    floats: str
    """Names the text form in which the engine writes floats: engines with the same word write the same text.
    Empty: floats cannot be compared by hash."""
    check: str
    """A SELECT of one value that is 1 where the hash can be relied on; empty: nothing to ask."""

    in_process: bool
    """Whether functions of this process hash the rows. They can also read a text as the value that it means
    (`types:`), and other connections, such as a JDBC driver's, do not have them."""
    whole: str
    """SQL behind a table's name that makes the server read it from end to end, and not along an index."""

    def hash(self, columns: Sequence[HashedColumn]) -> str:
        """SQL of `model.canonical.hash_row` of the columns; never NULL. Where the hash cannot be computed,
        the SQL fails or gives a random number."""

    def total(self, expression: str) -> str:
        """SQL of the sum of such hashes, however many; `DISTINCT …` is an expression too."""
