"""What a login of PostgreSQL may not do, by its catalogue. Redshift has the same functions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tidegauge.model.privileges import CREATE, DELETE, MissingPrivilege, QueryRunner, listed
from tidegauge.outputs.warehouse.privileges import SchemaNeeds, TableNeed


@dataclass(frozen=True)
class PrivilegeSql:
    """How the SQL for PostgreSQL and for Redshift differs."""

    placeholder: str = "\0"
    owns: str = "pg_has_role(c.relowner, 'USAGE')"
    newer: bool = True
    """Whether a session can be read-only, and columns have privileges of their own."""


POSTGRESQL = PrivilegeSql()
REDSHIFT = PrivilegeSql("?", "pg_get_userbyid(c.relowner) = current_user", newer=False)


def find_lacks(
    asked: QueryRunner, needs: SchemaNeeds, words: PrivilegeSql = POSTGRESQL
) -> Iterator[MissingPrivilege]:
    """What the login lacks. Missing tables need no privileges: whoever makes a table owns it."""
    ((user,),) = asked.rows("SELECT current_user::text")
    login = _quote(user)
    if words.newer and asked.rows("SELECT current_setting('transaction_read_only')") == [("on",)]:
        yield MissingPrivilege(
            "the server takes no writes from this login: it is a standby, or the login is set to read only",
            f"connect to the primary, or ALTER ROLE {login} SET default_transaction_read_only = off",
        )
    schema = needs.schema or "public"
    found = asked.rows(
        "SELECT has_schema_privilege(oid, 'USAGE'), has_schema_privilege(oid, 'CREATE')"
        f" FROM pg_namespace WHERE nspname = {words.placeholder}",
        (schema,),
    )
    if not found:
        yield MissingPrivilege(
            f"there is no schema {schema}", f"CREATE SCHEMA {_quote(schema)} AUTHORIZATION {login}"
        )
        return
    ((usage, create),) = found
    missing = [] if usage else ["USAGE"]
    if CREATE in needs.made and not create:
        missing.append(CREATE)
    if missing:
        verb = "make tables in" if usage else "use"
        yield MissingPrivilege(
            f"{user} may not {verb} the schema {schema}",
            f"GRANT {', '.join(missing)} ON SCHEMA {_quote(schema)} TO {login}",
        )
    for need in needs.tables:
        yield from _find_table_lacks(asked, need, user, schema, words)


def _find_table_lacks(
    asked: QueryRunner, need: TableNeed, user: str, schema: str, words: PrivilegeSql
) -> Iterator[MissingPrivilege]:
    name = need.table.table
    found = asked.rows(
        f"SELECT c.oid::bigint, {words.owns} FROM pg_class c"
        " JOIN pg_namespace n ON n.oid = c.relnamespace"
        f" WHERE n.nspname = {words.placeholder} AND c.relname = {words.placeholder}"
        " AND c.relkind IN ('r', 'p')",
        (schema, name),
    )
    if not found:
        return
    ((oid, owned),) = found
    missing = [verb for verb in need.verbs if not _is_allowed(asked, int(oid), verb, words)]
    quoted = f"{_quote(schema)}.{_quote(name)}"
    if missing:
        yield MissingPrivilege(
            f"{user} may not {listed(missing)} {schema}.{name}",
            f"GRANT {listed(missing)} ON {quoted} TO {_quote(user)}",
        )
    if not owned:
        yield MissingPrivilege(
            f"{user} does not own {schema}.{name}: a column that is added at the source could not be added"
            " there",
            f"ALTER TABLE {quoted} OWNER TO {_quote(user)}",
            later=True,
        )


def _is_allowed(asked: QueryRunner, oid: int, verb: str, words: PrivilegeSql) -> bool:
    ((allowed,),) = asked.rows(f"SELECT has_table_privilege({oid}::oid, '{verb}')")
    if allowed or not words.newer or verb == DELETE:
        return bool(allowed)
    # A privilege on every column is as good as one on the table.
    barred = asked.rows(
        f"SELECT 1 FROM pg_attribute WHERE attrelid = {oid} AND attnum > 0 AND NOT attisdropped"
        f" AND NOT has_column_privilege({oid}::oid, attnum, '{verb}') LIMIT 1"
    )
    return not barred


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
