"""Reads MySQL's and MariaDB's grants, and finds what they allow a login. Pure, except for `ask_grants`.

These servers have no function that checks a right. Grants are on names, also of tables that do not exist yet,
and whoever creates a table gets no further rights on it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from tidegauge.model.privileges import QueryRunner

_NAME = r"(?:\*|[`\"](?:[^`\"]|``|\"\")*[`\"])"
_GRANT = re.compile(
    rf"(?P<how>GRANT|REVOKE) (?P<verbs>.+?) ON (?:TABLE )?(?P<schema>{_NAME})\.(?P<table>{_NAME})"
    r" (?:TO|FROM) (?P<to>\S+)"
)
ALL = "ALL PRIVILEGES"
_OF_COLUMNS = re.compile(r" ?\([^)]*\)")


@dataclass(frozen=True)
class Grant:
    to: str
    schema: str
    """A LIKE pattern for schemas; `*` for all."""
    table: str
    """A table; `*` for all."""
    verbs: frozenset[str]
    takes: bool = False
    """Whether it is a partial revoke, which takes away what another grant gives."""


def read_grants(lines: Iterable[str], active: Iterable[str] = ()) -> list[Grant]:
    """Parse the lines of SHOW GRANTS. A role's grants count only if the role is in `active`. Grants on single
    columns are left out: Tidegauge's statements name all columns."""
    roles, found = {*active}, []
    for line in lines:
        match = _GRANT.match(line)
        if match is None:
            continue
        to = match["to"]
        if "@" not in to and _unquote(to) not in roles:
            continue
        verbs = _split_verbs(match["verbs"])
        grant = Grant(
            to, _unquote(match["schema"]), _unquote(match["table"]), verbs, match["how"] == "REVOKE"
        )
        found.append(grant)
    return found


def find_allowed(grants: Iterable[Grant], schema: str, table: str) -> frozenset[str]:
    """Return the verbs allowed on a table; `*` stands for any table without grants of its own."""
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
        elif one.table == table and _unescape_schema(one.schema) == schema and not one.takes:
            allowed |= one.verbs
    for several in schemas.values():
        # Of all patterns that match a schema, the server uses only the most exact one.
        allowed |= max(several, key=lambda one: _measure_exactness(one.schema)).verbs
    return frozenset(allowed - taken)


def ask_grants(asked: QueryRunner) -> tuple[list[str], list[str]]:
    """Query the lines of SHOW GRANTS and the active roles, for `read_grants`."""
    ((version,),) = asked.rows("SELECT VERSION()")
    if "MariaDB" in str(version):
        roles = [
            str(role)
            for (role,) in asked.rows("SELECT ROLE_NAME FROM information_schema.ENABLED_ROLES")
            if role is not None
        ]
        return [str(line) for (line,) in asked.rows("SHOW GRANTS")], roles
    ((active,),) = asked.rows("SELECT CURRENT_ROLE()")
    # MySQL merges the grants of roles into those of the login.
    using = "" if str(active) in ("NONE", "None", "") else f" USING {active}"
    return [str(line) for (line,) in asked.rows(f"SHOW GRANTS FOR CURRENT_USER(){using}")], []


def name_login(user: str) -> str:
    """Quote a login, as CURRENT_USER() returns it, for a GRANT."""
    name, _, host = user.rpartition("@")
    return f"'{name}'@'{host}'"


def find_missing(wanted: Iterable[str], allowed: frozenset[str]) -> frozenset[str]:
    return frozenset() if ALL in allowed else frozenset(wanted) - allowed


def _split_verbs(verbs: str) -> frozenset[str]:
    parts = re.split(r", (?![^(]*\))", verbs)
    return frozenset(part.strip() for part in parts if not _OF_COLUMNS.search(part))


def _unquote(quoted: str) -> str:
    if quoted == "*":
        return quoted
    mark = quoted[0] if quoted[0] in "`\"'" else ""
    return quoted.strip(mark).replace(mark * 2, mark) if mark else quoted


def _unescape_schema(pattern: str) -> str:
    """In a grant on a single table, the schema is not a pattern: unescape it."""
    return pattern.replace("\\_", "_").replace("\\%", "%")


def _matches(pattern: str, schema: str) -> bool:
    parts = re.findall(r"\\.|.", pattern, re.DOTALL)
    words = {"%": ".*", "_": "."}
    regex = "".join(words.get(part) or re.escape(part.removeprefix("\\")) for part in parts)
    return re.fullmatch(regex, schema, re.DOTALL) is not None


def _measure_exactness(pattern: str) -> int:
    """Return how many characters come before the first wildcard; most for a pattern without one."""
    found = re.search(r"(?<!\\)[%_]", pattern)
    return len(pattern) + 1000 if found is None else found.start()
