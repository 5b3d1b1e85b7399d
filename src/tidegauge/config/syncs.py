"""The entries of `sync:` → what is moved from where to where."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidegauge.config.check import Check
from tidegauge.config.connections import Connections
from tidegauge.config.models import SyncKeys, TableKeys
from tidegauge.config.problems import Trail, quoted, suggest
from tidegauge.model.spec import Database, Lake, NullCursor, Sync, TableOptions

_NEED_CURSOR = "add `cursor: COLUMN` to the sync, or to every override"


def make_syncs(check: Check, written: Any, connections: Connections) -> list[Sync]:
    found = [
        _sync(check, body, ("sync", index), connections)
        for index, body in enumerate(written if isinstance(written, list) else ())
    ]
    return [sync for sync in found if sync is not None]


def _sync(check: Check, body: Any, trail: Trail, connections: Connections) -> Sync | None:
    if not isinstance(body, dict):
        check.add("each entry of `sync` must be a mapping", trail)
        return None
    keys = check.keys(SyncKeys, body, trail)
    overrides = body["override"] if isinstance(body.get("override"), dict) else {}
    tables: dict[str, TableKeys | None] = {
        pattern: check.keys(TableKeys, part, (*trail, "override", pattern))
        for pattern, part in overrides.items()
    }
    if keys is None:
        return None
    source = _source(check, keys.from_, (*trail, "from"), connections)
    output = _output(check, keys, trail, connections)
    options = _table_options(check, _given(keys), trail)
    merged: dict[str, TableOptions] = {}
    for pattern, part in tables.items():
        if part is not None:
            where = (*trail, "override", pattern)
            kept = {
                key: value
                for key, value in _given(keys).items()
                if overrides[pattern].get(key, "") is not None
            }
            merged[pattern] = _table_options(check, {**kept, **_given(part)}, where)
    if not options.cursor:
        if not tables:
            check.add("the key `cursor` is missing", trail, hint=_NEED_CURSOR, at_key=True)
        _require_cursors(check, merged, trail)
    if source is None or output is None:
        return None
    return Sync(
        source=source,
        output=output,
        tables=keys.tables,
        exclude=keys.exclude,
        options=options,
        override=merged,
        tags=keys.tags,
        place=check.document.place(trail),
    )


def _given(keys: TableKeys) -> dict[str, Any]:
    """What the user wrote of the keys that belong to a table."""
    return {name: getattr(keys, name) for name in TableKeys.model_fields if name in keys.model_fields_set}


def _table_options(check: Check, given: dict[str, Any], trail: Trail) -> TableOptions:
    keys = TableKeys.model_construct(**given)
    return TableOptions(
        cursor=keys.cursor or "",
        key=keys.key,
        settle=keys.settle,
        lookback=keys.lookback,
        initial=keys.initial,
        batch_rows=keys.batch_rows,
        parallel=keys.parallel,
        null_cursor=NullCursor(keys.null_cursor),
        ignore_transactions_after=keys.open_transactions,
        types=keys.types,
        zero_dates=keys.zero_dates,
        rename=keys.rename,
        place=check.document.key_place(trail),
    )


def _require_cursors(check: Check, merged: Mapping[str, TableOptions], trail: Trail) -> None:
    for pattern, options in merged.items():
        if not options.cursor:
            where = (*trail, "override", pattern)
            check.add(
                f"the key `cursor` is missing for {quoted(pattern)}", where, hint=_NEED_CURSOR, at_key=True
            )


def _source(check: Check, name: str, trail: Trail, connections: Connections) -> Database | None:
    found = _named(check, name, trail, connections)
    if isinstance(found, Lake):
        databases = [key for key, item in connections.items() if isinstance(item, Database)]
        check.add(f"{quoted(name)} is a lake; `from` names a database", trail, hint=suggest("", databases))
        return None
    return found


def _output(check: Check, keys: SyncKeys, trail: Trail, connections: Connections) -> Lake | None:
    if keys.via is not None and keys.to is not None:
        check.add(
            "`via` with `to` loads a warehouse behind the lake; that stage is not in this version",
            (*trail, "to"),
            hint=f"write just `to: {check.document.written((*trail, 'via'))}`",
            at_key=True,
        )
        return None
    name, key = (keys.to, "to") if keys.to is not None else (keys.via, "via")
    if name is None:
        check.add("the key `to` is missing", trail, hint="add `to: LAKE`", at_key=True)
        return None
    found = _named(check, name, (*trail, key), connections)
    if isinstance(found, Database):
        lakes = [other for other, item in connections.items() if isinstance(item, Lake)]
        check.add(
            f"{quoted(name)} is a database; `{key}` names a connection of type `parquet`",
            (*trail, key),
            hint=suggest("", lakes),
        )
        return None
    return found


def _named(check: Check, name: str, trail: Trail, connections: Connections) -> Database | Lake | None:
    if name not in connections:
        check.add(f"there is no connection {quoted(name)}", trail, hint=suggest(name, connections))
        return None
    return connections[name]
