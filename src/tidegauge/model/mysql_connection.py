"""Connections to MySQL and MariaDB that prepare TLS once for a process.

Why: where a connection does not say `ssl`, PyMySQL prepares TLS for a server that may offer it. For that it
reads every authority that the machine trusts, and then checks no certificate.
Gain: 20 ms of processor time for each connection.
Switch: with any `ssl` option a connection is PyMySQL's own affair.
"""

from __future__ import annotations

import ssl
from functools import cache
from typing import TYPE_CHECKING, Any

from pymysql.connections import Connection

if TYPE_CHECKING:
    from pymysql.cursors import Cursor

    _Connection = Connection[Cursor]
else:
    _Connection = Connection  # Only the stubs know it as generic.


class MysqlConnection(_Connection):
    def _create_ssl_ctx(self, sslp: Any) -> ssl.SSLContext:
        if sslp:
            made: ssl.SSLContext = super()._create_ssl_ctx(sslp)  # type: ignore[misc]
            return made
        return _unchecked()


@cache
def _unchecked() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
