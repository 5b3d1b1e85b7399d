"""A stand-in for Snowflake that speaks its protocol: fakesnow's server, in a thread of this process.

Snowflake's own connector talks to it, from this process and from others. `docs/warehouses.md` lists what the
stand-in does not support.
"""

from __future__ import annotations

import importlib
import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from tests.support.servers.process import free_port
from tidegauge.model.secret import Secret
from tidegauge.model.snowflake_login import snowflake_login
from tidegauge.model.spec import Database, Engine

IDLE = [
    r"ALTER SESSION SET LOCK_TIMEOUT",
    r"DROP STAGE",
    r"SHOW PARAMETERS",
]
"""Statements that fakesnow does not know and whose effect no test needs."""
DATABASE = "DW"


@dataclass(frozen=True)
class SnowflakeServer:
    port: int

    def database(self, name: str, schema: str = "PUBLIC") -> Database:
        return Database(
            name,
            Engine.SNOWFLAKE,
            account="test",
            user="tester",
            password=Secret("snow secret"),
            database=DATABASE,
            schema=schema,
            options={"host": "127.0.0.1", "port": str(self.port), "protocol": "http"},
        )

    def create_schema(self) -> str:
        schema = f"S_{uuid.uuid4().hex[:12].upper()}"
        self.run(f"CREATE SCHEMA {schema}")
        return schema

    def connect(self, schema: str = "PUBLIC") -> Any:
        import snowflake.connector

        return snowflake.connector.connect(**snowflake_login(self.database("test", schema)))

    def run(self, statement: str, schema: str = "PUBLIC") -> list[tuple[Any, ...]]:
        with closing(self.connect(schema)) as connection:
            return [tuple(row) for row in connection.cursor().execute(statement).fetchall()]


@contextmanager
def start_snowflake() -> Iterator[SnowflakeServer]:
    import uvicorn
    from fakesnow.instance import FakeSnow

    # By its full name, because the package also has a function called `server`.
    module = importlib.import_module("fakesnow.server")

    class Instance(FakeSnow):
        def connect(self, *args: Any, **options: Any) -> Any:
            return super().connect(*args, **{**options, "nop_regexes": IDLE})

    vars(module)["shared_fs"] = Instance()
    # Else each new connector asks a cloud's services where it runs, which are not there.
    os.environ["SNOWFLAKE_DISABLE_PLATFORM_DETECTION"] = "true"
    # Tests check which statements are refused; the server's own log would only fill the tests' output.
    logging.getLogger("sqlglot").setLevel(logging.ERROR)
    logging.getLogger("fakesnow.server").setLevel(logging.CRITICAL)
    port = free_port()
    config = uvicorn.Config(module.app, host="127.0.0.1", port=port, log_level="critical")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, name="snowflake stand-in", daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive(), "the stand-in did not start"
        time.sleep(0.01)
    try:
        yield SnowflakeServer(port)
    finally:
        server.should_exit = True
        server.force_exit = True
        # Wakes its loop, which sleeps on if a test has set this process's clock meanwhile.
        with suppress(OSError):
            socket.create_connection(("127.0.0.1", port)).close()
        # A timeout, because a statement that DuckDB never answers would hold the thread forever.
        thread.join(timeout=30)
