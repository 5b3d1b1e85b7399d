"""Where a sync reads and where it writes: its `from`, `via` and `to`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeGuard

from tidegauge.config.check import Problems
from tidegauge.config.connections import Connections
from tidegauge.config.problems import KeyPath, quoted, suggest
from tidegauge.config.project_keys import SyncKeys
from tidegauge.model.default_schema import default_schema
from tidegauge.model.engines import READABLE, name_readable
from tidegauge.model.one_database import are_one
from tidegauge.model.spec import Database, Engine, Lake, TableOptions


@dataclass(frozen=True)
class SyncEnds:
    source: Database
    via: Lake | None
    to: Lake | Database


def find_ends(check: Problems, keys: SyncKeys, trail: KeyPath, connections: Connections) -> SyncEnds | None:
    """The connections that a sync reads and writes; None, with problems in `check`, if that is not clear."""
    source = _source(check, keys.from_, (*trail, "from"), connections)
    if keys.to is None and keys.via is None:
        check.add("the key `to` is missing", trail, hint="add `to: CONNECTION`", at_key=True)
        return None
    behind = (
        _find_lake_between(check, keys.via, (*trail, "via"), connections) if keys.via is not None else None
    )
    to = _named(check, keys.to, (*trail, "to"), connections) if keys.to is not None else None
    via = _refuse_database(check, behind, (*trail, "via"), connections)
    if keys.via is not None and via is None:
        return None
    if keys.to is None:
        to, via = via, None
    elif to is None or not _check_via_and_to(check, via, to, trail, connections):
        return None
    return SyncEnds(source, via, to) if source is not None and to is not None else None


def _refuse_database(
    check: Problems, found: Database | Lake | None, trail: KeyPath, connections: Connections
) -> Lake | None:
    if not isinstance(found, Database):
        return found
    check.add(
        f"{quoted(found.name)} is a database; `via` names a connection of type `parquet`",
        trail,
        hint=suggest("", [name for name, item in connections.items() if _is_lake(item)]),
    )
    return None


def _check_via_and_to(
    check: Problems, via: Lake | None, to: Lake | Database, trail: KeyPath, connections: Connections
) -> bool:
    if via is not None and _is_lake(to):
        check.add(
            "`to` is a lake behind a lake: `via` with `to` loads a warehouse from the lake",
            (*trail, "to"),
            hint=f"write just `to: {check.document.written((*trail, 'to'))}`, or name a database in `to`",
        )
        return False
    if isinstance(to, Database) and to.engine is Engine.REDSHIFT and (via is None or not via.on_s3):
        _refuse_redshift(check, via, trail, connections)
        return False
    return True


def refuse_itself(
    check: Problems,
    ends: SyncEnds,
    tables: tuple[str, ...],
    options: TableOptions,
    override: Mapping[str, TableOptions],
    trail: KeyPath,
) -> None:
    """Note a problem for each pattern whose tables would be written onto themselves.

    Without the catalogue only the schemas of the patterns can be compared.
    """
    if not isinstance(ends.to, Database) or not are_one(ends.source, ends.to):
        return
    home = default_schema(ends.to)
    for index, pattern in enumerate(tables):
        schema = pattern.rpartition(".")[0] or default_schema(ends.source)
        elsewhere = schema not in (None, home) and home is not None and not set("*?[") & set(schema)
        if override.get(pattern, options).rename in (None, "{table}") and not elsewhere:
            several = isinstance(check.document.written((*trail, "tables")), list)
            check.add(
                f"{quoted(pattern)} would be written onto itself: `from` and `to` are the same database",
                (*trail, "tables", index) if several else (*trail, "tables"),
                hint='give it another name with `rename: "{table}_COPY"`, or name another connection in `to`',
            )


def _refuse_redshift(check: Problems, via: Lake | None, trail: KeyPath, connections: Connections) -> None:
    lakes = [name for name, item in connections.items() if _is_lake(item) and item.on_s3]
    named = f"`via: {lakes[0]}`" if lakes else "`via: LAKE`, a connection of type `parquet` on `s3a://`"
    if via is None:
        check.add("Redshift is loaded from S3, so `to` needs a `via`", (*trail, "to"), hint=f"add {named}")
    else:
        check.add(
            f"Redshift is loaded from S3, and `via` is the local folder of {quoted(via.name)}",
            (*trail, "via"),
            hint=f"write {named}",
        )


def _source(check: Problems, name: str, trail: KeyPath, connections: Connections) -> Database | None:
    found = _named(check, name, trail, connections)
    readable = [
        key for key, item in connections.items() if isinstance(item, Database) and item.engine in READABLE
    ]
    if isinstance(found, Lake):
        check.add(f"{quoted(name)} is a lake; `from` names a database", trail, hint=suggest("", readable))
        return None
    if found is not None and found.engine not in READABLE:
        check.add(
            f"{quoted(name)} is of type `{found.engine}`, which is written to and not read from",
            trail,
            hint=suggest("", readable) if readable else "`from` names " + " or ".join(name_readable("`")),
        )
        return None
    return found


def _is_lake(item: Database | Lake | None) -> TypeGuard[Lake]:
    return isinstance(item, Lake) and not item.delta


def _find_lake_between(
    check: Problems, name: str, trail: KeyPath, connections: Connections
) -> Database | Lake | None:
    found = _named(check, name, trail, connections)
    if isinstance(found, Lake) and found.delta:
        check.add(
            f"{quoted(name)} is of type `delta`; `via` names a connection of type `parquet`",
            trail,
            hint=f"write just `to: {name}` for Delta tables that are filled straight from the database",
        )
        return None
    return found


def _named(check: Problems, name: str, trail: KeyPath, connections: Connections) -> Database | Lake | None:
    """The connection of this name; None, with a problem noted, if there is none."""
    if name not in connections:
        check.add(f"there is no connection {quoted(name)}", trail, hint=suggest(name, connections))
        return None
    return connections[name]
