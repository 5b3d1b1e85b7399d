"""What the error codes of MySQL and MariaDB mean for a connection, to a source as to a warehouse."""

from __future__ import annotations

from pymysql.constants import CR, ER

LOGIN_REFUSED = frozenset({ER.ACCESS_DENIED_ERROR, ER.DBACCESS_DENIED_ERROR, ER.BAD_DB_ERROR, 1698})
CONNECTION_LOST = frozenset(
    {
        *(CR.CR_SERVER_GONE_ERROR, CR.CR_SERVER_LOST, CR.CR_CONN_HOST_ERROR),
        *(ER.CON_COUNT_ERROR, ER.SERVER_SHUTDOWN),
        1927,  # MariaDB ended the connection
        4031,  # MySQL ended it, since it was idle
        0,
    }
)
"""A later attempt may succeed: also a server that has no room, or is being stopped."""
