"""Bring a database to the tables of this version. Only this module imports Alembic, and only if needed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, Engine, inspect, text
from sqlalchemy.exc import OperationalError

from tidegauge.errors import ConfigError, LedgerError, LedgerUnreachable, LedgerVersion
from tidegauge.ledger.address import Address, parse
from tidegauge.ledger.database_errors import translate_database_error
from tidegauge.ledger.sql_connect import BUSY_SECONDS, WRITE, connect
from tidegauge.ledger.sql_tables import VERSION_TABLE, VERSIONS, WORKABLE, metadata
from tidegauge.model.secret import Secret

_LOCK_NAME = "tidegauge ledger migration"
_LOCK_NUMBER = 0x7469646567617567
"""`tidegaug` in ASCII: PostgreSQL's advisory locks have numbers for names."""


@dataclass(frozen=True)
class Migrated:
    before: str | None
    """The version that was found; None if there was no ledger."""
    after: str


def migrate(address: str | Secret) -> Migrated:
    """Make the ledger, or bring it up to date: all or nothing where the database can do that. MySQL cannot;
    there the next call goes on where one was cut off. Raises LedgerVersion for a ledger of newer code."""
    parsed = parse(address)
    if parsed.lake is not None:
        raise ConfigError(
            f"the ledger at {parsed.shown} has no tables to migrate",
            hint="files and Delta tables are brought up to date as they are written",
        )
    prepare_place(parsed)
    engine = connect(parsed, create=True)
    try:
        return upgrade(engine, parsed)
    finally:
        engine.dispose()


def prepare_place(address: Address) -> None:
    """Make the folder of a SQLite file."""
    if address.path is None:
        return
    try:
        address.path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LedgerUnreachable(
            f"the folder of the ledger at {address.shown} cannot be made: {error.strerror}",
            hint="give this user the right to make it, or point `ledger:` elsewhere",
            retryable=False,
        ) from error


def version(connection: Connection) -> str | None:
    """The store's version; None where there is no ledger."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    found = connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar_one_or_none()
    return None if found is None else str(found)


def check_version(found: str, shown: str) -> None:
    if found not in VERSIONS:
        raise LedgerVersion(
            f"the ledger at {shown} has version {found}, made by a newer Tidegauge; this one knows"
            f" {VERSIONS[-1]}",
            hint="upgrade Tidegauge on this machine",
        )
    if found not in WORKABLE:
        raise LedgerVersion(
            f"the ledger at {shown} has version {found}, and this Tidegauge works with {VERSIONS[-1]}",
            hint="run `tidegauge ledger migrate`",
        )


def upgrade(engine: Engine, address: Address) -> Migrated:
    with translate_database_error(address.shown):
        if address.path is not None:
            _enable_wal(engine)
        with engine.connect().execution_options(**WRITE) as connection, _lock(connection, address):
            before = version(connection)
            if before is not None and before not in VERSIONS:
                check_version(before, address.shown)
            if before is None:
                _refuse_strange_tables(connection, address)
            if before != VERSIONS[-1]:
                _run_migrations(connection)
            return Migrated(before, VERSIONS[-1])


def _run_migrations(connection: Connection) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _enable_wal(engine: Engine) -> None:
    """Switch a SQLite file to WAL, so that readers and the writer do not wait for each other. The file keeps
    the setting."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            with engine.connect() as connection:
                cursor = connection.connection.cursor()
                cursor.execute("PRAGMA journal_mode=WAL")
                return
        except OperationalError:
            raise
        except Exception as error:
            # This change ignores the timeout of the connection if another process is making the same file.
            if getattr(error, "sqlite_errorname", "") != "SQLITE_BUSY" or time.monotonic() > deadline:
                raise OperationalError("PRAGMA journal_mode=WAL", None, error) from error
            time.sleep(0.02)


@contextmanager
def _lock(connection: Connection, address: Address) -> Iterator[None]:
    """One migration at a time: the second process waits, and then finds the work done."""
    if address.scheme == "mysql":
        # On MySQL every CREATE TABLE commits, so the lock must not end with the transaction.
        taken = connection.execute(
            text("SELECT GET_LOCK(:name, :seconds)"), {"name": _LOCK_NAME, "seconds": BUSY_SECONDS}
        )
        if taken.scalar_one() != 1:
            raise LedgerUnreachable(
                f"the ledger at {address.shown} is being migrated by another process",
                hint="wait until that one is done, and run again",
            )
        try:
            yield
            connection.commit()
        finally:
            connection.rollback()
            connection.execute(text("SELECT RELEASE_LOCK(:name)"), {"name": _LOCK_NAME})
        return
    with connection.begin():
        if address.scheme == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": _LOCK_NUMBER})
        yield


def _refuse_strange_tables(connection: Connection, address: Address) -> None:
    """Raise LedgerError for a table with a name of the ledger's but other columns: it is somebody else's."""
    inspector = inspect(connection)
    for name in inspector.get_table_names():
        ours = metadata.tables.get(name)
        if ours is None:
            continue
        found = {column["name"] for column in inspector.get_columns(name)}
        # Columns may be missing: a migration was cut off.
        if not {column.name for column in ours.primary_key} <= found <= {column.name for column in ours.c}:
            raise LedgerError(
                f"the ledger's database, {address.shown}, has a table '{name}' that is not the ledger's",
                hint="give the ledger a database of its own",
            )
