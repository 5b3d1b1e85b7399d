"""Translate errors of a database driver into the ledger's errors: one sentence with the cause, and a hint."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from tidegauge.errors import LedgerError, LedgerUnreachable
from tidegauge.model.secret import mask


class _Fault(NamedTuple):
    says: str
    hint: str
    retryable: bool = True


_LOCKED = _Fault(
    "is locked by another process",
    "wait until that one is done, and run again; a process that hangs has to be ended first",
)
_READ_ONLY = _Fault(
    "cannot be written: the file or its folder is read-only",
    "give this user the right to write both the file and its folder",
    False,
)
_NO_FILE = _Fault(
    "cannot be opened", "check that the path exists and that this user may read and write it", False
)
_NOT_OURS = _Fault(
    "is not a SQLite database, or is damaged", "point `ledger:` at another file, or bring back a copy", False
)
_FULL = _Fault("cannot be written: the disk is full or failing", "make room, and run again")
_PASSWORD = _Fault("refused the login", "check user and password in the ledger's address", False)
_NO_DATABASE = _Fault(
    "has no such database", "create the database, or correct its name in the address", False
)
_NO_RIGHT = _Fault(
    "does not let this user do that",
    "grant the user SELECT, INSERT, UPDATE, DELETE, CREATE, CREATE VIEW, DROP, ALTER and INDEX",
    False,
)
_DOWN = _Fault("cannot be reached", "check host and port in its address, and that the server runs")
_BUSY = _Fault("has no room for another connection", "wait, and run again with less in parallel")

_SQLITE = {
    "SQLITE_BUSY": _LOCKED,
    "SQLITE_LOCKED": _LOCKED,
    "SQLITE_READONLY": _READ_ONLY,
    "SQLITE_CANTOPEN": _NO_FILE,
    "SQLITE_PERM": _NO_FILE,
    "SQLITE_AUTH": _NO_FILE,
    "SQLITE_NOTADB": _NOT_OURS,
    "SQLITE_CORRUPT": _NOT_OURS,
    "SQLITE_FULL": _FULL,
    "SQLITE_IOERR": _FULL,
}
_MYSQL = {
    1040: _BUSY,
    1044: _NO_RIGHT,
    1045: _PASSWORD,
    1049: _NO_DATABASE,
    1142: _NO_RIGHT,
    1205: _LOCKED,
    1213: _LOCKED,
    1290: _READ_ONLY,
    1698: _PASSWORD,
    1836: _READ_ONLY,
    2002: _DOWN,
    2003: _DOWN,
    2006: _DOWN,
    2013: _DOWN,
}
_POSTGRESQL = {
    "25006": _READ_ONLY,
    "28000": _PASSWORD,
    "28P01": _PASSWORD,
    "3D000": _NO_DATABASE,
    "40001": _LOCKED,
    "40P01": _LOCKED,
    "42501": _NO_RIGHT,
    "53100": _FULL,
    "53300": _BUSY,
    "55P03": _LOCKED,
    "57P03": _DOWN,
}
# A login that fails has the server's message, but no code.
_POSTGRESQL_WORDS = {
    "password authentication failed": _PASSWORD,
    "no password supplied": _PASSWORD,
    "no pg_hba.conf entry": _PASSWORD,
    "does not exist": _NO_DATABASE,
    "too many clients": _BUSY,
    "remaining connection slots": _BUSY,
}


@contextmanager
def translate_database_error(
    shown: str, *, but: Callable[[DBAPIError], bool] = lambda _: False
) -> Iterator[None]:
    """Turn errors of SQLAlchemy or a driver in this block into the ledger's errors, except those for which
    `but` is true."""
    try:
        yield
    except PoolTimeout as error:
        raise LedgerUnreachable(f"the ledger at {shown} {_BUSY.says}", hint=_BUSY.hint) from error
    except DBAPIError as error:
        if but(error):
            raise
        raise _to_error(shown, error) from error
    except SQLAlchemyError as error:
        raise LedgerError(
            f"the ledger at {shown} cannot be used: {_driver_words(error)}",
            hint="check the ledger's address, and see `tidegauge doctor`",
        ) from error


def may_succeed_again(error: DBAPIError) -> bool:
    """Whether another writer was a moment earlier, so that the same transaction may well succeed now."""
    if isinstance(error, IntegrityError):
        return True
    return _code(error.orig) in ("40001", "40P01", 1020, 1213)


def _to_error(shown: str, error: DBAPIError) -> LedgerError:
    known = _find_fault(error)
    if known is not None:
        return LedgerUnreachable(
            f"the ledger at {shown} {known.says} ({_driver_words(error)})",
            hint=known.hint,
            retryable=known.retryable,
        )
    if error.connection_invalidated:
        return LedgerUnreachable(
            f"the ledger at {shown} {_DOWN.says} ({_driver_words(error)})", hint=_DOWN.hint
        )
    return LedgerError(
        f"the ledger at {shown} refused a statement: {_driver_words(error)}",
        hint="see `tidegauge doctor`; if tables were changed by hand, bring back a copy",
    )


def _find_fault(error: DBAPIError) -> _Fault | None:
    cause, code = error.orig, _code(error.orig)
    match code:
        case str() if isinstance(cause, sqlite3.Error):
            # Extended codes, such as SQLITE_READONLY_DBMOVED, begin with the plain one.
            return _SQLITE.get("_".join(code.split("_")[:2]))
        case str():
            return _POSTGRESQL.get(code)
        case int():
            return _MYSQL.get(code)
        case _ if isinstance(error, OperationalError) and hasattr(cause, "sqlstate"):
            # psycopg has no code for errors before there is a session.
            by_words = (fault for words, fault in _POSTGRESQL_WORDS.items() if words in str(cause))
            return next(by_words, _DOWN)
        case _:
            return None


def _code(cause: BaseException | None) -> str | int | None:
    """The driver's code: SQLite's name, PostgreSQL's five characters, or MySQL's number; None without one."""
    if cause is not None and cause.args and isinstance(cause.args[0], int):
        return cause.args[0]
    named = getattr(cause, "sqlite_errorname", None) or getattr(cause, "sqlstate", None)
    return None if named is None else str(named)


def _driver_words(error: SQLAlchemyError) -> str:
    cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    words = cause.args[1] if len(cause.args) > 1 and isinstance(cause.args[0], int) else cause
    lines = str(words).strip().splitlines()
    return mask(lines[0].strip()) if lines else type(cause).__name__
