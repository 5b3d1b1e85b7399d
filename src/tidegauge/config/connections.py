"""Turns the entries of `connections:` into databases and lakes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from tidegauge.config import values
from tidegauge.config.check import Problems
from tidegauge.config.connection_keys import (
    CONNECTIONS,
    DeltaKeys,
    FileKeys,
    ParquetKeys,
    RedshiftKeys,
    ServerKeys,
    SnowflakeKeys,
)
from tidegauge.config.forms import Keys
from tidegauge.config.options import check_options
from tidegauge.config.problems import InvalidValue, KeyPath, quoted, suggest
from tidegauge.model.engines import Engine
from tidegauge.model.spec import Database, Lake

Connections = dict[str, Database | Lake | None]
"""Connections by name. One that has problems is None, so that no second error calls it unknown."""

_CONNECTION_NAMES = {"mariadb": ("mysql", "MariaDB is type `mysql`"), "postgres": ("postgresql", None)}


def make_connections(check: Problems, written: Any) -> Connections:
    if not isinstance(written, dict):
        return {}
    return {
        name: _make_connection(check, name, body, ("connections", name)) for name, body in written.items()
    }


def _make_connection(check: Problems, name: str, body: Any, trail: KeyPath) -> Database | Lake | None:
    if not isinstance(body, dict):
        check.require("be a mapping with a `type`", trail)
        return None
    model = _find_keys_model(check, body, trail)
    if model is None:
        return None
    keys = check.keys(model, {key: value for key, value in body.items() if key != "type"}, trail)
    if keys is None:
        return None
    before = len(check.problems)
    made = _make_database_or_lake(check, name, body["type"], keys, trail)
    return made if len(check.problems) == before else None


def _find_keys_model(check: Problems, body: dict[str, Any], trail: KeyPath) -> type[Keys] | None:
    kind = body.get("type")
    if "type" not in body:
        check.add("the key `type` is missing", trail, hint=suggest("", CONNECTIONS), at_key=True)
    elif not isinstance(kind, str):
        check.require("be text", (*trail, "type"))
    elif kind not in CONNECTIONS:
        right, why = _CONNECTION_NAMES.get(kind.lower(), (None, None))
        hint = why or (f"did you mean `{right}`?" if right else suggest(kind, CONNECTIONS))
        check.add(f"unknown type {quoted(kind)}", (*trail, "type"), hint=hint)
    else:
        return CONNECTIONS[kind]
    return None


def _make_database_or_lake(
    check: Problems, name: str, kind: str, keys: Keys, trail: KeyPath
) -> Database | Lake | None:
    base = check.document.file.parent
    place = check.document.key_place(trail)
    if isinstance(keys, ParquetKeys):
        return _lake(check, name, keys, trail)
    engine, schema = Engine(kind), getattr(keys, "schema_", None)
    if isinstance(keys, FileKeys):
        path = check.attempt(lambda: _file_path(keys.path, base), (*trail, "path"))
        return Database(name, engine, path=path, schema=schema, place=place)
    assert isinstance(keys, ServerKeys | SnowflakeKeys)
    options = check.attempt(
        lambda: check_options(keys.options, engine=engine, base=base), (*trail, "options")
    )
    made = Database(
        name,
        engine,
        database=keys.database,
        user=keys.user,
        password=keys.password,
        schema=schema,
        options=options or {},
        place=place,
    )
    if isinstance(keys, SnowflakeKeys):
        return replace(made, account=keys.account, warehouse=keys.warehouse, role=keys.role)
    made = replace(made, host=keys.host, port=getattr(keys, "port", None))
    if not isinstance(keys, RedshiftKeys):
        return made
    _check_key_pair(check, keys, trail)
    if keys.iam_role is not None and keys.access_key is not None:
        check.add(
            "`iam_role` and `access_key` both say how COPY reads the lake",
            (*trail, "access_key"),
            hint="keep one of them",
            at_key=True,
        )
    return replace(made, iam_role=keys.iam_role, access_key=keys.access_key, secret_key=keys.secret_key)


def _file_path(written: str, base: Path) -> Path:
    if written.startswith((":memory:", "file::memory:")):
        raise InvalidValue("a database in memory is empty for everyone else", hint="name a file")
    return Path(values.local_path(written, base))


def _lake(check: Problems, name: str, keys: ParquetKeys, trail: KeyPath) -> Lake:
    path = check.attempt(lambda: values.lake_path(keys.path, check.document.file.parent), (*trail, "path"))
    lake = Lake(
        name=name,
        path=path or "",
        endpoint=keys.endpoint,
        region=keys.region,
        access_key=keys.access_key,
        secret_key=keys.secret_key,
        delta=isinstance(keys, DeltaKeys),
        place=check.document.key_place(trail),
    )
    if path and not lake.on_s3:
        for key in sorted(keys.model_fields_set - {"path"}):
            check.add(
                f"the key `{key}` belongs to an `s3a://` path",
                (*trail, key),
                hint="remove it, or mend `path`",
                at_key=True,
            )
    _check_key_pair(check, keys, trail)
    return lake


def _check_key_pair(check: Problems, keys: ParquetKeys | RedshiftKeys, trail: KeyPath) -> None:
    for one, other in (("access_key", "secret_key"), ("secret_key", "access_key")):
        if getattr(keys, one) is not None and getattr(keys, other) is None:
            check.add(
                f"`{one}` is of no use without `{other}`", (*trail, one), hint=f"add `{other}`", at_key=True
            )
