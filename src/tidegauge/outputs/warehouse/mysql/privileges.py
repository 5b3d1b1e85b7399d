"""What a login of MySQL or MariaDB may not do in a warehouse, by what the server says was granted to it."""

from __future__ import annotations

from collections.abc import Iterator

from tidegauge.model.mysql_grants import (
    ALL,
    ask_grants,
    find_allowed,
    find_missing,
    name_login,
    read_grants,
)
from tidegauge.model.privileges import ALTER, MissingPrivilege, QueryRunner, listed
from tidegauge.outputs.warehouse.privileges import SchemaNeeds

_PASSES_READ_ONLY = {ALL, "SUPER", "READ_ONLY ADMIN", "READ ONLY ADMIN"}


def find_lacks(asked: QueryRunner, needs: SchemaNeeds, schema: str) -> Iterator[MissingPrivilege]:
    ((user, read_only),) = asked.rows("SELECT CURRENT_USER(), @@global.read_only")
    login = name_login(str(user))
    grants = read_grants(*ask_grants(asked))
    everywhere = frozenset().union(*(one.verbs for one in grants if one.schema == "*"))
    if read_only and _PASSES_READ_ONLY.isdisjoint(everywhere):
        yield MissingPrivilege(
            "the server takes no writes from this login: read_only is on",
            "connect to the primary, or SET GLOBAL read_only = OFF on this server",
        )
    anywhere = find_allowed(grants, schema, "*")
    missing = find_missing(needs.made, anywhere)
    there = _list_visible(asked, schema)
    lacking = {
        need.table.table: find_missing(need.verbs, find_allowed(grants, schema, need.table.table))
        for need in needs.tables
    }
    # A privilege on a missing table cannot be granted, so it is needed on the whole schema.
    missing |= frozenset().union(*(verbs for table, verbs in lacking.items() if table not in there))
    quoted = f"`{schema.replace('`', '``')}`"
    pattern = quoted.replace("_", "\\_").replace("%", "\\%")
    if missing:
        yield MissingPrivilege(
            f"{user} may not {listed(missing)} in {schema}",
            f"GRANT {listed(missing)} ON {pattern}.* TO {login}",
        )
    for table, verbs in lacking.items():
        if verbs - missing:
            named = f"{quoted}.`{table.replace('`', '``')}`"
            yield MissingPrivilege(
                f"{user} may not {listed(verbs - missing)} {schema}.{table}",
                f"GRANT {listed(verbs - missing)} ON {named} TO {login}",
            )
    if find_missing({ALTER}, anywhere):
        yield MissingPrivilege(
            f"{user} may not {ALTER} tables in {schema}: a column that is added at the source could not be"
            " added there",
            f"GRANT {ALTER} ON {pattern}.* TO {login}",
            later=True,
        )


def _list_visible(asked: QueryRunner, schema: str) -> frozenset[str]:
    found = asked.rows("SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = \0", (schema,))
    return frozenset(str(name) for (name,) in found)
