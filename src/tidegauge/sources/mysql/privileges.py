"""What a login of MySQL or MariaDB may not read, according to its grants.

The server shows a login every table on which it has any right, even if it may not SELECT; a table on which it
has none seems not to exist.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidegauge.model.mysql_grants import ask_grants, find_allowed, find_missing, name_login, read_grants
from tidegauge.model.privileges import SELECT, UNSEEN, MissingPrivilege, QueryRunner, ReadAccess
from tidegauge.model.spec import TableName
from tidegauge.sources.dialect import COMMENT
from tidegauge.sources.mysql.engine import quote


def find_access(asked: QueryRunner, tables: Sequence[TableName]) -> ReadAccess:
    """What the login may not read of these tables, whether they exist or not."""
    ((user,),) = asked.rows(f"SELECT {COMMENT} CURRENT_USER()")
    login, grants = name_login(user), read_grants(*ask_grants(asked))
    lacks: dict[TableName, MissingPrivilege] = {}
    for table in tables:
        schema = table.schema or ""
        allowed = find_allowed(grants, schema, table.table)
        # A login that may SELECT some columns sees only those, and only those are read.
        if find_missing({SELECT}, allowed) and not _may_read_some_columns(asked, table):
            named = f"{quote(schema)}.{quote(table.table)}"
            lacks[table] = MissingPrivilege(
                f"{user} may not SELECT {table}", f"GRANT SELECT ON {named} TO {login}"
            )
    return ReadAccess(lacks, {}, MissingPrivilege(UNSEEN, f"GRANT PROCESS ON *.* TO {login}", later=True))


def _may_read_some_columns(asked: QueryRunner, table: TableName) -> bool:
    found = asked.rows(
        f"SELECT {COMMENT} 1 FROM information_schema.COLUMN_PRIVILEGES WHERE TABLE_SCHEMA = \0"
        " AND TABLE_NAME = \0 AND PRIVILEGE_TYPE = 'SELECT' LIMIT 1",
        (table.schema, table.table),
    )
    return bool(found)
