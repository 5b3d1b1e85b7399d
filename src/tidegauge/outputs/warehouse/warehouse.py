"""What the core asks of a database that rows are written to.

The core (the files of this folder) writes SQL that every engine understands, and asks an
engine for the words in which they differ. An engine has nothing to do with tags, epochs or modes.

A statement's identifiers come from `name` and `table`; its values are passed separately, with `placeholder`
in their places. No part of an identifier may be taken for a placeholder: an engine whose driver would do that
(`%`, `?`) chooses one that no identifier can hold, and puts the driver's own there to run a statement.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from tidegauge.errors import OutputError, OutputUnreachable
from tidegauge.model.batch_data import BatchRows
from tidegauge.model.spec import Database, TableName, TableOptions
from tidegauge.model.table import Field
from tidegauge.outputs.warehouse import fit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCK_SECONDS = 30.0


class SessionConflict(OutputUnreachable):
    """Another session was in the way of a statement.

    The message says which session, where the server tells. The core names the table and raises
    OutputUnreachable.
    """


class LockTimeout(SessionConflict):
    """Another session held a lock that a statement needs for longer than `Warehouse.patience`."""


class WriteConflict(SessionConflict):
    """The server refused at once, because another session was faster: it made the same table or changed the
    same rows, two waited for each other, or too many wait already. A second look may find the work done.
    """


class ValueRejected(OutputError):
    """The server did not take a value: too long, out of range, NULL where none may be, a repeated key.

    The message is the server's, masked. The core looks for the row and raises OutputError.
    """


class PermissionDenied(OutputError):
    """The login may not do what a statement asks for. The message is the server's, masked."""


class WarehouseSession(Protocol):
    """One connection. Its first statement after `connect`, `commit` or `rollback` begins a transaction.

    Every method raises only our errors: LockTimeout, WriteConflict, ValueRejected, PermissionDenied,
    OutputUnreachable when the connection is lost or was never there (also from `commit`, where it proves
    nothing), and OutputError with the server's masked words for the rest. After an error the caller rolls
    back or closes, and does nothing else.
    """

    def run(self, sql: str, values: Sequence[object] = ()) -> int:
        """Run a statement; returns how many rows it inserted, updated or deleted, 0 for any other one."""

    def rows(self, sql: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """The rows of a SELECT. Only after the transaction's first `run` is it sure to be a part of it;
        before that it may stand alone."""

    def commit(self) -> None:
        """Commit the transaction; it is durable when this returns."""

    def rollback(self) -> None:
        """Roll back the transaction. Never raises: a lost connection is rolled back already."""

    def close(self) -> None:
        """Close the connection, and roll back an open transaction. Never raises."""


@dataclass(frozen=True)
class WarehouseColumn:
    """One column of a table that is to be made."""

    name: str
    type: str
    """The column type in the engine's SQL."""
    required: bool = False


@dataclass(frozen=True)
class StagingTable:
    """The staging table of one attempt: the layout's columns, and the number of each row's split."""

    table: TableName
    fields: tuple[Field, ...]
    key: tuple[str, ...]
    ordinal: str
    """The last column, named like no field: an integer, the number of the split (or file), from 0."""


class Warehouse(ABC):
    """One database that rows are written to. Threads share it: state belongs into a session."""

    placeholder: str = "?"
    """Stands for a value in a statement."""
    now: str = "CURRENT_TIMESTAMP"
    """SQL of the server's time, in UTC without a zone, with microseconds where it has them."""
    timestamp_type: str = "TIMESTAMP"
    """The column type for `now`."""
    integer_type: str = "BIGINT"
    text_type: str = "TEXT"
    """Column types of our own tables: for any 64-bit integer, and for any text."""
    short: str = "VARCHAR(64)"
    """The column type for ASCII text of up to 64 characters that is part of a key."""
    boolean_type: str = "BOOLEAN"
    true: str = "TRUE"
    false: str = "FALSE"
    keys_enforced: bool = True
    """Whether PRIMARY KEY keeps two sessions from inserting the same key. Where not: see `lock`."""
    key_after: bool = False
    """Whether a target gets its key by `declare_key`, once its first rows are there, which is faster."""
    forgets_stages: bool = False
    """Whether staging tables are empty after a crash of the server."""
    drops_with_commit: bool = False
    """Whether staging tables are dropped in their batch's transaction, because nobody else can use them."""
    clock_here: bool = False
    """Whether the server's clock is this machine's."""
    finds_repeats: bool = False
    """Whether an INSERT into a table with a key ends early and cheaply at a repeated key, so that the rows
    for a new target need not be checked before."""
    folds_case: bool = False
    """Whether column names that differ only in the case of letters are the same name."""
    loose_keys: bool = False
    """Whether keys that differ only in case, accents or blanks at the end may be equal."""
    ddl_commits: bool = False
    """Whether CREATE and DROP commit the open transaction."""
    copies_files: bool = False
    """Whether only files of a lake can be loaded: rows that get marks on the way are written to new ones."""
    takes_tasks: bool = False
    """Whether many rows are loaded over several connections at once, one for each task (`tasks`)."""
    keeps_sessions: bool = False
    """Whether a session may be used again after a rollback, also by another thread (`kept_sessions`)."""
    patience: float = LOCK_SECONDS
    """How many seconds a statement waits for a lock that another session holds."""

    def __init__(self, database: Database) -> None:
        self.database = database

    @property
    def place(self) -> str:
        """The database as messages name it: kind and address, no secrets."""
        return f"{self.database.engine} {self.database.name}"

    # Sessions

    def is_there(self) -> bool:
        """False for a file that does not exist yet: `connect` would make it, which a mere look must not."""
        return True

    @abstractmethod
    def connect(self) -> WarehouseSession:
        """A fresh connection, with the lock timeout set. Raises OutputUnreachable, RuntimeMissing."""

    def is_worn(self, session: WarehouseSession) -> bool:  # noqa: ARG002
        """Whether a session, and the other idle sessions of this warehouse, are to be closed after use."""
        return False

    def has_ended(self, session: WarehouseSession) -> bool:  # noqa: ARG002
        """Whether the server, or a fault, has ended a session that nobody was using. Asks no server."""
        return False

    # What is there

    @abstractmethod
    def columns(self, session: WarehouseSession, table: TableName) -> tuple[Field, ...] | None:
        """The table's columns, in its order; None where there is no table. Raises OutputError for a view.

        `type` is the Spark type whose values the column holds, empty where there is none; `source_type` is
        the server's own type, with length and precision, as a column of the same type is declared.
        """

    def find_made(
        self,
        session: WarehouseSession,
        table: TableName,
        made: Sequence[WarehouseColumn],  # noqa: ARG002 - for engines that know from it
    ) -> tuple[Field, ...] | None:
        """Like `columns`, for a table that was just made with these columns."""
        return self.columns(session, table)

    @abstractmethod
    def tables(self, session: WarehouseSession, schema: str | None, prefix: str) -> list[str]:
        """Names of the tables (and views) in a schema that begin with a prefix of ASCII letters and `_`."""

    def is_loose(self, session: WarehouseSession, table: TableName) -> bool:  # noqa: ARG002 - see MySQL
        """Where `loose_keys`: whether this table has such keys."""
        return self.loose_keys

    # Words

    def name(self, identifier: str) -> str:
        """An identifier, quoted. Raises OutputError for one that the engine refuses: too long, with a NUL."""
        return '"' + identifier.replace('"', '""') + '"'

    def table(self, table: TableName) -> str:
        parts = [table.schema, table.table] if table.schema else [table.table]
        return ".".join(self.name(part) for part in parts)

    def select(self, field: Field) -> str:
        """A column's `value` in the list of a SELECT, in a form that the driver reads without loss."""
        return self.value(field)

    @abstractmethod
    def type(self, field: Field, *, key: bool) -> str:
        """The column type that holds every value of a field. `key`: the column is a part of the primary key.

        Raises OutputError, naming the field, where the engine has no such type.
        """

    def value(self, field: Field) -> str:
        """SQL of a column's value as it travels: its text or its bytes, where `Field.through` gives the
        column a type that Spark does not have."""
        return self.name(field.name)

    def fit(self, held: Field, field: Field, *, key: bool) -> fit.Fit:
        """Whether a column that is there holds a field's values: see `fit.FitVerdict`."""
        return fit.by_type(held, field, self.type(field, key=key))

    def misfit(self, held: Field, value: str) -> str:
        """SQL condition that is true where the column would not hold the SQL expression `value` exactly.

        Asked only for columns whose fit is NARROW.
        """
        return fit.misfit(held, value)

    def differs(self, left: str, right: str) -> str:
        """SQL condition: two values are not the same, byte for byte. NULL is the same as NULL; never NULL."""
        return f"{left} IS DISTINCT FROM {right}"

    def changed(self, left: str, right: str, kind: str) -> str:  # noqa: ARG002 - for engines that need it
        """`differs`, for values of the Spark type `kind`, which is empty for a column that Tidegauge adds."""
        return self.differs(left, right)

    def same(self, left: str, right: str) -> str:
        """SQL condition: two keys are equal, as the target compares them, in a form that uses its index."""
        return f"{left} = {right}"

    def create(
        self,
        table: TableName,
        columns: Sequence[WarehouseColumn],
        *,
        key: Sequence[str] = (),
        options: TableOptions | None = None,  # noqa: ARG002 - for engines that lay a target out
    ) -> str:
        """SQL of CREATE TABLE IF NOT EXISTS. `options` (distkey, sortkey, hybrid): only for a target."""
        parts = [f"{self.name(c.name)} {c.type}{' NOT NULL' if c.required else ''}" for c in columns]
        if key:
            parts.append(f"PRIMARY KEY ({', '.join(map(self.name, key))})")
        return f"CREATE TABLE IF NOT EXISTS {self.table(table)} ({', '.join(parts)})"

    def add_column(self, table: TableName, column: WarehouseColumn) -> str:
        return f"ALTER TABLE {self.table(table)} ADD COLUMN {self.name(column.name)} {column.type}"

    def widen(self, session: WarehouseSession, table: TableName, column: str, kind: str) -> None:
        """Give a column the type that `fit` asked for. No value is lost; other columns keep their types."""
        session.run(f"ALTER TABLE {self.table(table)} ALTER COLUMN {self.name(column)} TYPE {kind}")

    def update(self, target: TableName, source: str, sets: Sequence[tuple[str, str]], where: str) -> str:
        """SQL of an UPDATE of the target, called `t`, from a quoted table or a subquery, called `s`. `sets`:
        each column with the SQL of its new value."""
        pairs = ", ".join(f"{self.name(column)} = {value}" for column, value in sets)
        return f"UPDATE {self.table(target)} AS t SET {pairs} FROM {source} AS s WHERE {where}"

    def delete(self, target: TableName, where: str) -> str:
        """SQL of a DELETE from the target, called `t`."""
        return f"DELETE FROM {self.table(target)} AS t WHERE {where}"

    def lock(self, session: WarehouseSession, commits: TableName) -> None:  # noqa: B027 - most have nothing to do
        """Where keys are not enforced: any other session that calls this waits until our transaction ends."""

    def hold(self, session: WarehouseSession, name: str) -> bool:  # noqa: ARG002
        """Where `ddl_commits`: take a lock with a name of up to 64 characters, until the session closes.
        False where the engine has no such lock."""
        return False

    def declare_key(self, session: WarehouseSession, target: TableName, key: Sequence[str]) -> None:  # noqa: B027
        """Where `key_after`: declare the target's key, after each committed batch, in a transaction of its
        own; commits. Does nothing where the table has a key or was made by somebody else."""

    def drop(self, session: WarehouseSession, table: TableName) -> None:
        """Drop a staging table. It is no error if there is none."""
        session.run(f"DROP TABLE IF EXISTS {self.table(table)}")

    # Bulk

    @abstractmethod
    def load(
        self,
        session: WarehouseSession,
        stage: StagingTable,
        batch_data: BatchRows,
        spark: Callable[[], SparkSession],
    ) -> int:
        """Make the staging table and load every row of the batch into it, by the fastest way there is.

        Loads only the layout's columns; files may have more. Ends with a commit: the rows are durable, and
        visible to other sessions, when it returns. Returns how many rows there are, as the server counts
        them. May use connections of its own. Raises OutputDisagrees, naming a file, for files that are gone
        or have other sizes (`lake_files.check`), and ValueRejected for a value that the engine cannot hold.
        An engine that reads splits gets them for a Spark frame by `spark_rows.ensure_splits`.
        """
