"""What a login may not do in a database, and the words of a GRANT."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tidegauge.model.spec import TableName

SELECT, INSERT, UPDATE, DELETE = "SELECT", "INSERT", "UPDATE", "DELETE"
CREATE, DROP, ALTER, CREATE_VIEW, INDEX = "CREATE", "DROP", "ALTER", "CREATE VIEW", "INDEX"
UNSEEN = (
    "this login may not see other sessions' transactions, and only `settle` guards against late commits; with"
    " this right the bound is exact"
)
_ORDER = (SELECT, INSERT, UPDATE, DELETE, CREATE, CREATE_VIEW, DROP, ALTER, INDEX)


class Asked(Protocol):
    """Anything that answers queries: a `WarehouseSession`, a ledger, a source."""

    def rows(self, sql: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]: ...


@dataclass(frozen=True)
class Lack:
    """One thing that the login may not do."""

    says: str
    fix: str
    later: bool = False
    """No run needs it as things are."""


@dataclass(frozen=True)
class ReadAccess:
    """What a login lacks to read a database."""

    lacks: Mapping[TableName, Lack]
    """Of the tables that were asked for."""
    hidden: Mapping[TableName, Lack]
    """Every other table that is there and that the login may not read, where the catalogue shows it."""
    sight: Lack
    """What it takes to see the transactions of other sessions, for a login that does not."""


def listed(verbs: Iterable[str]) -> str:
    """As a GRANT lists them, in an order that stays."""
    return ", ".join(sorted(verbs, key=_ORDER.index))
