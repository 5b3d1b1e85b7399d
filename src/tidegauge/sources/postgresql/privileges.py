"""What a login of PostgreSQL may not read, according to the catalogue, which every login may read."""

from __future__ import annotations

from collections.abc import Sequence

from tidegauge.model.privileges import UNSEEN, MissingPrivilege, QueryRunner, ReadAccess
from tidegauge.model.spec import TableName
from tidegauge.sources.dialect import COMMENT
from tidegauge.sources.postgresql.engine import quote


def find_access(asked: QueryRunner, tables: Sequence[TableName]) -> ReadAccess:
    ((user,),) = asked.rows(f"SELECT {COMMENT} current_user::text")
    login = quote(user)
    found = asked.rows(
        f"SELECT {COMMENT} n.nspname, c.relname, has_schema_privilege(n.oid, 'USAGE'),"
        " has_table_privilege(c.oid, 'SELECT') FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT c.relispartition"
        " AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname !~ '^pg_(toast|temp)'"
        " AND NOT (has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT'))"
        " ORDER BY 1, 2"
    )
    lacks: dict[TableName, MissingPrivilege] = {}
    for schema, table, enters, selects in found:
        grants = [] if enters else [f"GRANT USAGE ON SCHEMA {quote(schema)} TO {login}"]
        grants += [] if selects else [f"GRANT SELECT ON {quote(schema)}.{quote(table)} TO {login}"]
        verb = "SELECT" if enters else "use the schema of"
        lacks[TableName(schema, table)] = MissingPrivilege(
            f"{user} may not {verb} {schema}.{table}", "; ".join(grants)
        )
    return ReadAccess(
        {table: lack for table, lack in lacks.items() if table in tables},
        {table: lack for table, lack in lacks.items() if table not in tables},
        MissingPrivilege(UNSEEN, f"GRANT pg_read_all_stats TO {login}", later=True),
    )
