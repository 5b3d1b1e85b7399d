"""Privileges that a login lacks in a database, and the verbs of a GRANT."""

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


class QueryRunner(Protocol):
    """Anything that answers queries: a `WarehouseSession`, a ledger, a source."""

    def rows(self, sql: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]: ...


@dataclass(frozen=True)
class MissingPrivilege:
    """A privilege that the login lacks: what it cannot do, and how to fix it."""

    says: str
    fix: str
    later: bool = False
    """Whether no run needs the privilege at present."""


@dataclass(frozen=True)
class ReadAccess:
    """What a login lacks to read a database."""

    lacks: Mapping[TableName, MissingPrivilege]
    """What is lacking for the tables that were asked for."""
    hidden: Mapping[TableName, MissingPrivilege]
    """Other tables that the login may not read, if the catalogue shows them."""
    sight: MissingPrivilege
    """What the login lacks to see the transactions of other sessions, for a login that does not see them."""


def listed(verbs: Iterable[str]) -> str:
    """Join verbs for a GRANT, in a fixed order."""
    return ", ".join(sorted(verbs, key=_ORDER.index))
