"""Every error Tidegauge raises on purpose.

    TidegaugeError
    ├── ConfigError                the project file is wrong, or the command was used wrongly (exit code 2)
    ├── SourceError                the database we read from
    │   ├── SourceUnreachable      server down, login refused, file missing
    │   ├── TableMissing           no such table, or not visible to this login
    │   ├── ColumnMissing          a cursor, key or typed column that the table does not have
    │   ├── CursorUnsuitable       a cursor that cannot be ordered safely (float, NULLs, mixed text)
    │   ├── KeyUnsuitable          no key, a key that repeats, a key with NULLs
    │   ├── TypeNotHeld            a column or value that Parquet cannot hold exactly
    │   ├── VersionsMissing        versions of a Delta table that were not read yet cannot be read any more
    │   └── TableReplaced          the table that we read from was replaced by another one
    ├── LedgerError                the store of watermarks
    │   ├── LedgerUnreachable      server down, file read-only or locked
    │   ├── LedgerVersion          made by newer code, or not migrated yet
    │   ├── WrongState             the state machine refuses an event in a state
    │   ├── FlowHeld               another runner holds the flow
    │   ├── LeaseLost              this runner's claim was taken over
    │   ├── FlowSuspended          somebody suspended the flow, or its whole pipeline, by hand
    │   └── SchedulersDisagree     another scheduler of this pipeline has other flows or schedules
    ├── OutputError                the place we write to
    │   ├── OutputUnreachable      bucket missing, keys refused, disk full
    │   ├── OutputNotEmpty         files are there that the ledger knows nothing of
    │   ├── OutputDisagrees        ledger and output contradict each other
    │   ├── OutputUnsafe           the store does not honour conditional puts
    │   └── MassDelete             more rows would be deleted than are allowed without a confirmation
    ├── TransformFailed            the user's SQL or Python, or what came out of it
    │   └── UnknownColumn          a transform reads a column that its inputs do not have now
    ├── ExpectationFailed          rows are not as `expect` says, or cannot be checked
    ├── RuntimeMissing             Java, jars or an optional library
    ├── SparkFailed                a Spark job ended in an error; the last cause, in one sentence
    ├── RunFailed                  a flow failed in a run that was asked for in Python; has the run's `result`
    ├── NotCompared                `verify` has nothing that it could compare (exit code 2)
    ├── PositionError              a position that cannot be read, or compared here
    └── Stopped                    a signal asked us to stop; nothing is wrong
        └── LimitReached           the flow stopped at the number of rows that `--limit` gave

Each carries one sentence with the cause, a `hint` that says what to do, the `place` in a file where
there is one, and whether trying again may help (`retryable`).
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar


@dataclass(frozen=True)
class Place:
    """A place in a file that the user wrote; line and column count from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class TidegaugeError(Exception):
    exit_code: ClassVar[int] = 1
    default_retryable: ClassVar[bool] = False

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        place: Place | None = None,
        retryable: bool | None = None,
        detail: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.place = place
        self.retryable = self.default_retryable if retryable is None else retryable
        self.detail = detail
        """More about the error, such as a Java stack trace; only `--debug` shows it."""

    @property
    def type(self) -> str:
        return type(self).__name__

    @property
    def sentence(self) -> str:
        """The message, with the place in front of it if there is one."""
        return f"{self.place}: {self.message}" if self.place else self.message

    def __str__(self) -> str:
        """The sentence and the hint: in a Python traceback nothing else prints the hint."""
        return f"{self.sentence}\nhint: {self.hint}" if self.hint else self.sentence


def unexpected_error(fault: Exception, *, flow: str | None = None) -> TidegaugeError:
    """Make the error for an exception that no code of ours raises on purpose."""
    of = f"{flow}: " if flow else ""
    return TidegaugeError(
        f"{of}unexpected {type(fault).__name__}: {fault}",
        hint="this is a bug of Tidegauge; please report it with what --debug shows",
        detail="".join(traceback.format_exception(fault)),
    )


@contextmanager
def at_place(place: Place | None) -> Iterator[None]:
    """Give this place to each TidegaugeError raised in the block that has none of its own."""
    try:
        yield
    except TidegaugeError as error:
        error.place = error.place or place
        raise


class ConfigError(TidegaugeError):
    exit_code = 2


class SourceError(TidegaugeError):
    pass


class SourceUnreachable(SourceError):
    default_retryable = True


class TableMissing(SourceError):
    pass


class ColumnMissing(SourceError):
    pass


class CursorUnsuitable(SourceError):
    pass


class KeyUnsuitable(SourceError):
    pass


class TypeNotHeld(SourceError):
    types: tuple[str, ...] = ()
    """The source's types that Parquet cannot hold; empty where a line under `types:` would not help."""


def tell_types(types: Iterable[str]) -> str:
    """A hint with the `types:` line that lets columns of these types arrive as text."""
    said = ", ".join(f"{_yaml_key(one)}: string" for one in dict.fromkeys(types))
    return f"let them arrive as the database's own text: add `types: {{{said}}}` to the sync"


def share_types(errors: Iterable[TidegaugeError | None]) -> None:
    """Give all TypeNotHeld errors one hint, whose `types:` line names the types of all of them."""
    found = [one for one in errors if isinstance(one, TypeNotHeld) and one.types]
    for error in found:
        error.hint = tell_types(word for one in found for word in one.types)


def _yaml_key(word: str) -> str:
    return word if word.replace("_", "").isalnum() else f'"{word}"'


class VersionsMissing(SourceError):
    pass


class TableReplaced(SourceError):
    pass


class LedgerError(TidegaugeError):
    pass


class LedgerUnreachable(LedgerError):
    default_retryable = True


class LedgerVersion(LedgerError):
    pass


class WrongState(LedgerError):
    pass


class FlowHeld(LedgerError):
    default_retryable = True


class LeaseLost(LedgerError):
    default_retryable = True


class FlowSuspended(LedgerError):
    pass


class SchedulersDisagree(LedgerError):
    pass


class OutputError(TidegaugeError):
    pass


class OutputUnreachable(OutputError):
    default_retryable = True


class OutputNotEmpty(OutputError):
    pass


class OutputDisagrees(OutputError):
    pass


class OutputUnsafe(OutputError):
    pass


class MassDelete(OutputError):
    pass


class TransformFailed(TidegaugeError):
    pass


class UnknownColumn(TransformFailed):
    """A transform reads a column that its inputs do not have now."""


class ExpectationFailed(TidegaugeError):
    pass


class RuntimeMissing(TidegaugeError):
    pass


class SparkFailed(TidegaugeError):
    default_retryable = True


class RunFailed(TidegaugeError):
    def __init__(self, message: str, *, hint: str | None, result: Any) -> None:
        super().__init__(message, hint=hint)
        self.result = result
        """The result of the whole run, including the flows that ended well."""


class NotCompared(TidegaugeError):
    exit_code = 2

    def __init__(self, message: str, *, hint: str | None = None, excused: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.excused = excused
        """Whether the table can never be compared, so that it is no failure if other tables were compared."""


class PositionError(TidegaugeError):
    pass


class Stopped(TidegaugeError):
    default_retryable = True


class LimitReached(Stopped):
    pass
