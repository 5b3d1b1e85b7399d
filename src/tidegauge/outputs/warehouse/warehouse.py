"""What is asked of a database that rows are written to.

The core (the files of this folder) writes SQL that every engine understands, and asks an
engine for the words in which they differ. An engine has nothing to do with tags, epochs or modes.

A statement's identifiers come from `name` and `table`; its values are handed over apart, with `mark` in their
places. What stands inside an identifier is never taken for a placeholder: an engine whose driver would (`%`,
`?`) chooses a `mark` that cannot stand there, and puts the driver's own in its place when a statement is run.
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


class Locked(OutputUnreachable):
    """Another session is in the way: it held what a statement needs for longer than `patience`.

    The message says who, where the server tells. The core names the table and raises OutputUnreachable.
    """


class Overtaken(Locked):
    """The server refused at once, because another session was faster: it made the same table or changed the
    same rows, two waited for each other, or too many wait already. Who looks again may find it done.
    """


class Refused(OutputError):
    """The server did not take a value: too long, out of range, NULL where none may be, a key there twice.

    The message is the server's, masked. The core looks for the row and raises OutputError.
    """


class Denied(OutputError):
    """The login may not do what a statement asks for. The message is the server's, masked."""


class WarehouseSession(Protocol):
    """One connection. Its first statement after `connect`, `commit` or `rollback` begins a transaction.

    Every method raises only our errors: Locked, Overtaken, Refused, Denied, OutputUnreachable when the
    connection is lost or was never there (also from `commit`, where it proves nothing), and OutputError with
    the server's masked words for the rest. After an error the caller rolls back or closes, and does nothing
    else.
    """

    def run(self, sql: str, values: Sequence[object] = ()) -> int:
        """How many rows it inserted, updated or deleted; 0 for a statement that is none of these."""

    def rows(self, sql: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Of a SELECT, which in a transaction comes after the first `run` or stands alone."""

    def commit(self) -> None:
        """Durable when it returns."""

    def rollback(self) -> None:
        """Never raises: a lost connection is rolled back already."""

    def close(self) -> None:
        """Rolls back what is open. Never raises."""


@dataclass(frozen=True)
class WarehouseColumn:
    """One column of a table that is to be made."""

    name: str
    type: str
    """In the words of the engine."""
    required: bool = False


@dataclass(frozen=True)
class StagingTable:
    """The staging table of one attempt: the layout's columns, and which split a row came in."""

    table: TableName
    fields: tuple[Field, ...]
    key: tuple[str, ...]
    ordinal: str
    """A column that no field is named like, after the others; bigint, 0 for the first split (or file)."""


class Warehouse(ABC):
    """One database that rows are written to. Threads share it: whatever has a state is a Session."""

    mark: str = "?"
    now: str = "CURRENT_TIMESTAMP"
    """The server's clock, in UTC without a zone, with microseconds where it has them."""
    moment: str = "TIMESTAMP"
    """The column type for `now`."""
    whole: str = "BIGINT"
    text: str = "TEXT"
    """Column types of our own tables: any 64-bit number; any text."""
    short: str = "VARCHAR(64)"
    """For ASCII of up to 64 characters that is part of a key."""
    flag: str = "BOOLEAN"
    true: str = "TRUE"
    false: str = "FALSE"
    keys_enforced: bool = True
    """Whether PRIMARY KEY keeps two sessions from inserting one key. Where not: see `lock`."""
    key_after: bool = False
    """Whether a target gets its key by `declare_key`, once its first rows are there, which is faster."""
    forgets_stages: bool = False
    """Whether staging tables are empty after a crash of its server."""
    drops_with_commit: bool = False
    """Whether staging tables go in the transaction of their batch, because nobody else can be at them."""
    clock_here: bool = False
    """Whether its clock is this machine's."""
    finds_repeats: bool = False
    """Whether an INSERT into a table with a key ends early and cheaply at a key that is there twice, so that
    rows for a new target need not be looked through before."""
    folds_case: bool = False
    """Whether columns that differ only in the case of letters are one."""
    loose_keys: bool = False
    """Whether keys may be one to it that differ in case, accents or blanks at the end."""
    ddl_commits: bool = False
    """Whether CREATE and DROP commit the transaction that they stand in."""
    copies_files: bool = False
    """Whether rows reach it only as files of a lake: what is added to them on the way is written there."""
    takes_tasks: bool = False
    """Whether many rows come over several connections at once, each a task's own (`tasks`)."""
    keeps_sessions: bool = False
    """Whether a session may be used again after a rollback, also by another thread (`kept_sessions`)."""
    patience: float = LOCK_SECONDS
    """How many seconds a statement waits for what another session holds."""

    def __init__(self, database: Database) -> None:
        self.database = database

    @property
    def place(self) -> str:
        """As messages name the database: kind and address, no secrets."""
        return f"{self.database.engine} {self.database.name}"

    # Sessions

    def is_there(self) -> bool:
        """False for a file that is not there yet: to connect would make it, and who only looks must not."""
        return True

    @abstractmethod
    def connect(self) -> WarehouseSession:
        """A fresh connection, with the lock timeout set. Raises OutputUnreachable, RuntimeMissing."""

    def is_worn(self, session: WarehouseSession) -> bool:  # noqa: ARG002
        """Whether a session, and those beside it, shall be closed after use and not be kept."""
        return False

    def has_ended(self, session: WarehouseSession) -> bool:  # noqa: ARG002
        """Whether the server, or a fault, has ended a session that nobody was using. Asks no server."""
        return False

    # What is there

    @abstractmethod
    def columns(self, session: WarehouseSession, table: TableName) -> tuple[Field, ...] | None:
        """In the table's order; None where there is no such table (a view is no table: OutputError).

        `type` is the Spark type whose values the column holds, empty where there is none; `source_type` the
        server's own words, with length and precision, as a column of the same type is declared.
        """

    def find_made(
        self,
        session: WarehouseSession,
        table: TableName,
        made: Sequence[WarehouseColumn],  # noqa: ARG002 - for engines that know from it
    ) -> tuple[Field, ...] | None:
        """`columns` of a table that was made a moment ago of these."""
        return self.columns(session, table)

    @abstractmethod
    def tables(self, session: WarehouseSession, schema: str | None, prefix: str) -> list[str]:
        """Names of tables (and views) in a schema that begin with a prefix of ASCII letters and `_`."""

    def is_loose(self, session: WarehouseSession, table: TableName) -> bool:  # noqa: ARG002 - see MySQL
        """Where `loose_keys`: whether it is so of this table."""
        return self.loose_keys

    # Words

    def name(self, identifier: str) -> str:
        """Quoted by doubling. Raises OutputError for what the engine cannot name: too long, with a NUL."""
        return '"' + identifier.replace('"', '""') + '"'

    def table(self, table: TableName) -> str:
        parts = [table.schema, table.table] if table.schema else [table.table]
        return ".".join(self.name(part) for part in parts)

    def select(self, field: Field) -> str:
        """A column's `value` in the list of a SELECT, in a form that the driver reads every bit of."""
        return self.value(field)

    @abstractmethod
    def type(self, field: Field, *, key: bool) -> str:
        """The column type that holds every value of a field. `key`: it has to do as a part of a primary key.

        Raises OutputError, naming the field, where the engine has none.
        """

    def value(self, field: Field) -> str:
        """SQL of a column's value as it travels: of one that was declared as `Field.through` says, the text,
        or the bytes."""
        return self.name(field.name)

    def fit(self, held: Field, field: Field, *, key: bool) -> fit.Fit:
        """Whether a column that is there holds a field's values; see `fit.Verdict`."""
        return fit.by_type(held, field, self.type(field, key=key))

    def misfit(self, held: Field, value: str) -> str:
        """A condition that is true for values of the SQL expression that the column would not hold exactly.

        Asked only for columns whose fit is NARROW.
        """
        return fit.misfit(held, value)

    def differs(self, left: str, right: str) -> str:
        """True when two values are not the same, byte for byte, NULL being the same as NULL; never NULL."""
        return f"{left} IS DISTINCT FROM {right}"

    def changed(self, left: str, right: str, kind: str) -> str:  # noqa: ARG002 - for engines that need it
        """`differs`, for values of a Spark type; empty for a column of our own."""
        return self.differs(left, right)

    def same(self, left: str, right: str) -> str:
        """Keys that are equal, by the target's own idea of it, in a form that uses its index."""
        return f"{left} = {right}"

    def create(
        self,
        table: TableName,
        columns: Sequence[WarehouseColumn],
        *,
        key: Sequence[str] = (),
        options: TableOptions | None = None,  # noqa: ARG002 - for engines that lay a target out
    ) -> str:
        """CREATE TABLE IF NOT EXISTS. `options` (distkey, sortkey, hybrid) only for a target."""
        parts = [f"{self.name(c.name)} {c.type}{' NOT NULL' if c.required else ''}" for c in columns]
        if key:
            parts.append(f"PRIMARY KEY ({', '.join(map(self.name, key))})")
        return f"CREATE TABLE IF NOT EXISTS {self.table(table)} ({', '.join(parts)})"

    def add_column(self, table: TableName, column: WarehouseColumn) -> str:
        return f"ALTER TABLE {self.table(table)} ADD COLUMN {self.name(column.name)} {column.type}"

    def widen(self, session: WarehouseSession, table: TableName, column: str, kind: str) -> None:
        """Give a column the type that `fit` asked for. Loses nothing, and other columns keep theirs."""
        session.run(f"ALTER TABLE {self.table(table)} ALTER COLUMN {self.name(column)} TYPE {kind}")

    def update(self, target: TableName, source: str, sets: Sequence[tuple[str, str]], where: str) -> str:
        """UPDATE of the target, called `t`, from a quoted table or a subquery called `s`: columns and SQL."""
        pairs = ", ".join(f"{self.name(column)} = {value}" for column, value in sets)
        return f"UPDATE {self.table(target)} AS t SET {pairs} FROM {source} AS s WHERE {where}"

    def delete(self, target: TableName, where: str) -> str:
        """DELETE from the target, called `t`."""
        return f"DELETE FROM {self.table(target)} AS t WHERE {where}"

    def lock(self, session: WarehouseSession, commits: TableName) -> None:  # noqa: B027 - most have nothing to do
        """Where keys are not enforced: no other session gets past this until our transaction ends."""

    def hold(self, session: WarehouseSession, name: str) -> bool:  # noqa: ARG002
        """Where `ddl_commits`: until the session closes, no other one gets past this with the same name of up
        to 64 characters. False: there is no such lock."""
        return False

    def declare_key(self, session: WarehouseSession, target: TableName, key: Sequence[str]) -> None:  # noqa: B027
        """Where `key_after`: after each committed batch, in a transaction of its own; commits. Does nothing
        where the table has a key or somebody else made it."""

    def drop(self, session: WarehouseSession, table: TableName) -> None:
        """A staging table; none there is no error."""
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
        """Make the staging table and bring every row of the batch into it, by the fastest way there is.

        Only the layout's columns, of files that may have more. Ends with a commit: durable, and visible to
        other sessions, when it returns. Returns how many rows there are, as the server counts them. May use
        connections of its own. Files that are gone or have other sizes: OutputDisagrees, naming one
        (`lake_files.check`). A value that the engine has no place for: Refused. A frame alone:
        `spark_rows.ensure_splits`.
        """
