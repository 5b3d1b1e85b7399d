"""Translate errors of file storage into the ledger's errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tidegauge.errors import LedgerError, LedgerUnreachable, OutputError, OutputUnreachable


@contextmanager
def translate_storage_error(shown: str) -> Iterator[None]:
    """Turn each OutputError that `storage` raises in this block into LedgerUnreachable or LedgerError."""
    try:
        yield
    except OutputUnreachable as error:
        raise LedgerUnreachable(
            f"the ledger at {shown} cannot be used: {error.message}",
            hint=_hint(error),
            retryable=error.retryable,
            detail=error.detail,
        ) from error
    except OutputError as error:
        raise LedgerError(
            f"the ledger at {shown} cannot be used: {error.message}", hint=_hint(error), detail=error.detail
        ) from error


def _hint(error: OutputError) -> str | None:
    return error.hint and error.hint.replace(" of the connection", " in the ledger's address")
