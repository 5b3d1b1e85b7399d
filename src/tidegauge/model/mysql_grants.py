"""What MySQL and MariaDB say was granted to a login, and what that allows. Pure, but for the questions.

There are no functions to ask. Grants are on names: also of tables that are not there yet, and who makes a
table has no more right on it than before.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from tidegauge.model.privileges import Asked

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


def ask_grants(asked: Asked) -> tuple[list[str], list[str]]:
    """The lines of SHOW GRANTS, and the roles that are active, as `read_grants` takes them."""
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


def name_login(user: str) -> str:
    """What CURRENT_USER() says, as a GRANT names it."""
    name, _, host = user.rpartition("@")
    return f"'{name}'@'{host}'"


def find_missing(wanted: Iterable[str], allowed: frozenset[str]) -> frozenset[str]:
    return frozenset() if ALL in allowed else frozenset(wanted) - allowed


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
