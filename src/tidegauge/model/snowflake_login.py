"""How sources and outputs connect to Snowflake, and how its errors read."""

from __future__ import annotations

from typing import Any

from tidegauge.errors import RuntimeMissing
from tidegauge.model.secret import mask
from tidegauge.model.spec import Database

_CONNECT_SECONDS = 30


def snowflake_login(database: Database) -> dict[str, Any]:
    """Return the arguments of the connector's `connect`, including the password."""
    options = database.options
    wanted: dict[str, Any] = {
        "account": database.account,
        "user": database.user,
        "password": database.password.reveal() if database.password else None,
        "database": database.database,
        "schema": database.schema or "PUBLIC",
        "warehouse": database.warehouse,
        "role": database.role,
        "host": options.get("host"),
        "port": options.get("port"),
        "protocol": options.get("protocol"),
    }
    return {
        **{key: value for key, value in wanted.items() if value is not None},
        "login_timeout": int(options.get("connect_timeout", _CONNECT_SECONDS)),
        "paramstyle": "qmark",
        "application": "tidegauge",
        "session_parameters": {"TIMEZONE": "UTC", "QUERY_TAG": "tidegauge"},
    }


def import_connector() -> Any:
    try:
        import snowflake.connector
    except ImportError as error:
        raise RuntimeMissing(
            "Snowflake is reached by its connector, snowflake-connector-python, which is not installed",
            hint="pip install 'tidegauge[snowflake]'",
        ) from error
    return snowflake.connector


def snowflake_words(error: Exception) -> str:
    """Return the server's error message, as one line, without secrets."""
    text = getattr(error, "raw_msg", None) or getattr(error, "msg", None) or str(error)
    return mask(" ".join(str(text).split())) or type(error).__name__
