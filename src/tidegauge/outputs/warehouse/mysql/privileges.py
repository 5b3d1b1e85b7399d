"""What a login of MySQL or MariaDB may not do, by what the server says was granted to it.

There are no functions to ask. Grants are on names: also of tables that are not there yet, and who makes a
table has no more right on it than before.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tidegauge.outputs.warehouse.privileges import ALTER, Asked, Lack, SchemaNeeds, listed

_NAME = r"(?:\*|[`\"](?:[^`\"]|``|\"\")*[`\"])"
_GRANT = re.compile(
    rf"(?P<how>GRANT|REVOKE) (?P<verbs>.+?) ON (?:TABLE )?(?P<schema>{_NAME})\.(?P<table>{_NAME})"
    r" (?:TO|FROM) (?P<to>\S+)"
)
_ALL = "ALL PRIVILEGES"
_PASSES_READ_ONLY = {_ALL, "SUPER", "READ_ONLY ADMIN", "READ ONLY ADMIN"}
_OF_COLUMNS = re.compile(r" ?\([^)]*\)")


@dataclass(frozen=True)
class Grant:
    to: str
    schema: str
    """A pattern as LIKE has it; `*` for all."""
    table: str
    """`*` for all."""
    verbs: frozenset[str]
    takes: bool = False
    """It takes away what another one gives."""


def read_grants(lines: Iterable[str], active: Iterable[str] = ()) -> list[Grant]:
    """Of what SHOW GRANTS answers. Lines of roles count where they are active. Rights on single columns are
    left out: our statements name all columns."""
    roles, found = {*active}, []
    for line in lines:
        match = _GRANT.match(line)
        if match is None:
            continue
        to = match["to"]
        if "@" not in to and _plain(to) not in roles:
            continue
        verbs = _split(match["verbs"])
        grant = Grant(to, _plain(match["schema"]), _plain(match["table"]), verbs, match["how"] == "REVOKE")
        found.append(grant)
    return found


def find_allowed(grants: Iterable[Grant], schema: str, table: str) -> frozenset[str]:
    """The verbs on one table; for any other table of the schema give `*`."""
    allowed: set[str] = set()
    taken: set[str] = set()
    schemas: dict[str, list[Grant]] = {}
    for one in grants:
        if one.schema == "*":
            allowed |= one.verbs
        elif one.table == "*" and _matches(one.schema, schema):
            if one.takes:
                taken |= one.verbs
            else:
                schemas.setdefault(one.to, []).append(one)
        elif one.table == table and _plain_schema(one.schema) == schema and not one.takes:
            allowed |= one.verbs
    for several in schemas.values():
        # Of the patterns that fit a schema the server obeys one alone: the most exact.
        allowed |= max(several, key=lambda one: _exactness(one.schema)).verbs
    return frozenset(allowed - taken)


def find_lacks(asked: Asked, needs: SchemaNeeds, schema: str) -> Iterator[Lack]:
    ((user, read_only),) = asked.rows("SELECT CURRENT_USER(), @@global.read_only")
    name, _, host = str(user).rpartition("@")
    login = f"'{name}'@'{host}'"
    grants = read_grants(*_ask(asked))
    everywhere = frozenset().union(*(one.verbs for one in grants if one.schema == "*"))
    if read_only and _PASSES_READ_ONLY.isdisjoint(everywhere):
        yield Lack(
            "the server takes no writes from this login: read_only is on",
            "connect to the primary, or SET GLOBAL read_only = OFF on this server",
        )
    anywhere = find_allowed(grants, schema, "*")
    missing = _missing(needs.made, anywhere)
    there = _list_visible(asked, schema)
    lacking = {
        need.table.table: _missing(need.verbs, find_allowed(grants, schema, need.table.table))
        for need in needs.tables
    }
    # A right on a table that is not there cannot be granted.
    missing |= frozenset().union(*(verbs for table, verbs in lacking.items() if table not in there))
    quoted = f"`{schema.replace('`', '``')}`"
    pattern = quoted.replace("_", "\\_").replace("%", "\\%")
    if missing:
        yield Lack(
            f"{user} may not {listed(missing)} in {schema}",
            f"GRANT {listed(missing)} ON {pattern}.* TO {login}",
        )
    for table, verbs in lacking.items():
        if verbs - missing:
            named = f"{quoted}.`{table.replace('`', '``')}`"
            yield Lack(
                f"{user} may not {listed(verbs - missing)} {schema}.{table}",
                f"GRANT {listed(verbs - missing)} ON {named} TO {login}",
            )
    if _missing({ALTER}, anywhere):
        yield Lack(
            f"{user} may not {ALTER} tables in {schema}: a column that is added at the source could not be"
            " added there",
            f"GRANT {ALTER} ON {pattern}.* TO {login}",
            later=True,
        )


def _ask(asked: Asked) -> tuple[list[str], list[str]]:
    """What was granted, and the roles that are active."""
    ((version,),) = asked.rows("SELECT VERSION()")
    if "MariaDB" in str(version):
        roles = [
            str(role)
            for (role,) in asked.rows("SELECT ROLE_NAME FROM information_schema.ENABLED_ROLES")
            if role is not None
        ]
        return [str(line) for (line,) in asked.rows("SHOW GRANTS")], roles
    ((active,),) = asked.rows("SELECT CURRENT_ROLE()")
    # MySQL adds up what roles give, and shows it as the login's own.
    using = "" if str(active) in ("NONE", "None", "") else f" USING {active}"
    return [str(line) for (line,) in asked.rows(f"SHOW GRANTS FOR CURRENT_USER(){using}")], []


def _list_visible(asked: Asked, schema: str) -> frozenset[str]:
    found = asked.rows("SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = \0", (schema,))
    return frozenset(str(name) for (name,) in found)


def _missing(wanted: Iterable[str], allowed: frozenset[str]) -> frozenset[str]:
    return frozenset() if _ALL in allowed else frozenset(wanted) - allowed


def _split(verbs: str) -> frozenset[str]:
    parts = re.split(r", (?![^(]*\))", verbs)
    return frozenset(part.strip() for part in parts if not _OF_COLUMNS.search(part))


def _plain(quoted: str) -> str:
    if quoted == "*":
        return quoted
    mark = quoted[0] if quoted[0] in "`\"'" else ""
    return quoted.strip(mark).replace(mark * 2, mark) if mark else quoted


def _plain_schema(pattern: str) -> str:
    """On single tables a schema is no pattern."""
    return pattern.replace("\\_", "_").replace("\\%", "%")


def _matches(pattern: str, schema: str) -> bool:
    parts = re.findall(r"\\.|.", pattern, re.DOTALL)
    words = {"%": ".*", "_": "."}
    regex = "".join(words.get(part) or re.escape(part.removeprefix("\\")) for part in parts)
    return re.fullmatch(regex, schema, re.DOTALL) is not None


def _exactness(pattern: str) -> int:
    """How many characters stand before the first that means any."""
    found = re.search(r"(?<!\\)[%_]", pattern)
    return len(pattern) + 1000 if found is None else found.start()
