"""The keys of `tidegauge.yml`: names, types, defaults and meanings. The reference is printed from here."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any, ClassVar

from pydantic import Field

from tidegauge.config import column_keys, values
from tidegauge.config.forms import (
    DocumentedDefault,
    Duration,
    Flag,
    Keys,
    Lease,
    Listed,
    Mapped,
    MaybeDuration,
    MaybeFlag,
    MaybeText,
    SomeTexts,
    Tags,
    Text,
    Texts,
    ValueParser,
    as_it_is,
    each,
    texts_by_name,
)
from tidegauge.config.problems import InvalidValue, below, must
from tidegauge.config.schedule import Scheduled, ScheduledHere
from tidegauge.model.choices import WithoutCursor
from tidegauge.model.columns import EVERY_COLUMN, ColumnChoice, ColumnMask
from tidegauge.model.mode import MODES, OutputKind
from tidegauge.model.spec import DeleteMode, Drift, Execution, FutureGuard, NullCursor, ReadMethod
from tidegauge.model.unix_times import UnixUnit


@dataclass(frozen=True)
class WrittenCursor:
    """A cursor as the file has it: a column or expression, and the epoch if its numbers are times."""

    column: str
    epoch: UnixUnit | None = None


def _parse_types(value: Any) -> dict[str, str]:
    return each(value, values.arrival)


def _parse_open_transactions(value: Any) -> timedelta | None:
    form = "write `wait`, or `{ignore_after: 1h}`"
    if value == "wait":
        return None
    if not isinstance(value, dict):
        raise must("be `wait` or `{ignore_after: DURATION}`", hint=form)
    for key in value:
        if key != "ignore_after":
            raise InvalidValue(
                f"unknown key `{key[:60]}`", hint="did you mean `ignore_after`?", trail=(key,), at_key=True
            )
    if not value:
        raise InvalidValue("`ignore_after` is missing", hint=form)
    with below("ignore_after"):
        return values.duration(timedelta(seconds=1))(value["ignore_after"])


def _parse_cursor(value: Any) -> WrittenCursor:
    form = "write `COLUMN`, or `{column: COLUMN, epoch: s}` where its numbers are seconds since 1970"
    if not isinstance(value, dict):
        return WrittenCursor(values.text(value))
    parse = {"column": values.text, "epoch": values.choice(UnixUnit)}
    found = {}
    for key, part in value.items():
        if key not in parse:
            raise InvalidValue(f"unknown key `{key[:60]}`", hint=form, trail=(key,), at_key=True)
        with below(key):
            found[key] = parse[key](part)
    if "column" not in found:
        raise InvalidValue("`column` is missing", hint=form)
    return WrittenCursor(found["column"], UnixUnit(found["epoch"]) if "epoch" in found else None)


class ProjectKeys(Keys):
    later: ClassVar[dict[str, str]] = dict.fromkeys(
        ("import", "imports", "python"), "did you mean `modules`?"
    )
    pipeline: Text = Field(description="The name of this set of flows, under which the ledger keeps it.")
    ledger: Annotated[Any, ValueParser(as_it_is, "address")] = Field(
        default="sqlite:///.tidegauge/ledger.db",
        description="Where watermarks, plans, runs and history are kept: `sqlite:///PATH`, "
        "`postgresql://USER:PASSWORD@HOST/DATABASE`, `mysql://…`, `delta:PATH` or `json:PATH`, whose PATH "
        "may be `s3a://BUCKET/PREFIX?endpoint=…&region=…`. References in the login are percent-encoded for "
        "you.",
    )
    lease: Lease = Field(
        default=timedelta(seconds=60),
        description="How long a runner that fell silent keeps its flows; it renews at a third of this.",
    )
    schedule: Scheduled = Field(
        default=None,
        description="When `tidegauge schedule start` runs every flow that has no schedule of its own: "
        "[schedules](schedule.md).",
    )
    spark: Mapped = Field(default={}, description="Settings of the Spark session; see below.")
    connections: Mapped = Field(default={}, description="Databases and lakes by name; see below.")
    sync: Listed = Field(default=[], description="What is moved from where to where; see below.")
    flows: Mapped = Field(default={}, description="Flows between Delta tables by name; see below.")
    modules: Annotated[Texts, DocumentedDefault("none")] = Field(
        default=(),
        description="Where flows are declared in Python: modules, imported from the project's folder "
        "(`pipelines.silver`), or `.py` files. They are imported whenever the project is read.",
    )
    health: Mapped = Field(default={}, description="From where on `health` finds a flow unwell; see below.")
    alerts: Mapped = Field(default={}, description="Who is told when a flow is unwell; see below.")
    metrics: Mapped = Field(default={}, description="Numbers for Prometheus; see below.")
    lineage: Mapped = Field(default={}, description="Where OpenLineage events are sent to; see below.")
    workflow: Mapped = Field(
        default={}, description="The tasks that `export workflow` makes for other schedulers; see below."
    )


class SparkKeys(Keys):
    master: Annotated[Text, DocumentedDefault("`local[*]`, or the active session's")] = Field(
        default="", description="A cluster, as Spark names it; `sc://…` for Spark Connect."
    )
    conf: Annotated[dict[str, str], ValueParser(texts_by_name, "mapping")] = Field(
        default={}, repr=False, description="Settings by Spark's own names."
    )
    keep_warm: Annotated[MaybeDuration, DocumentedDefault("Spark ends with the command")] = Field(
        default=None,
        description="How long a local Spark that nobody uses waits for the next command, as `15m`: "
        "[Spark kept warm](warm.md).",
    )


class TableKeys(Keys):
    """Keys that may differ from table to table: in a sync for all its tables, under `override` for some."""

    cursor: Annotated[
        WrittenCursor | None,
        ValueParser(_parse_cursor, "text, or `{column: TEXT, epoch: s}`"),
        DocumentedDefault("required here or in every override, unless `without_cursor` says otherwise"),
    ] = Field(
        default=None,
        description="The column that grows with every change, or an expression of the database's own SQL. "
        "`epoch: s | ms | us` says that its whole numbers are times: seconds, milliseconds or microseconds "
        "since 1970, in UTC.",
    )
    without_cursor: Annotated[
        str, ValueParser(values.choice(WithoutCursor), "`fail`, `skip`, `snapshot`")
    ] = Field(
        default="fail",
        description="A table that has no such column, or no key to tell its rows apart: stop and name them "
        "all, leave it out, or read it whole in each run and write what differs: "
        "[tables without a cursor](reading.md#tables-without-a-cursor).",
    )
    future_guard: Annotated[str, ValueParser(values.choice(FutureGuard), "`note`, `fail`")] = Field(
        default="note",
        description="A number as the cursor that lies far beyond all others, or would be a time in the "
        "future: say so, or stop before it is read.",
    )
    key: Annotated[SomeTexts, DocumentedDefault("the primary key")] = Field(
        default=(), description="The columns that tell rows with equal cursor values apart."
    )
    settle: Duration = Field(
        default=timedelta(seconds=30),
        description="How far below the source's own clock a window ends, so that open transactions can land.",
    )
    lookback: Duration = Field(
        default=timedelta(0), description="How far below the watermark a window reads again."
    )
    initial: Annotated[MaybeText, DocumentedDefault("everything")] = Field(
        default=None, description="The cursor value at which the first run begins."
    )
    batch_rows: Annotated[int, ValueParser(values.whole(1), "whole number")] = Field(
        default=2_000_000, description="Rows in one batch, which is the unit of commit."
    )
    parallel: Annotated[int, ValueParser(values.whole(1, 64), "1 to 64")] = Field(
        default=2, description="Readers inside one table."
    )
    null_cursor: Annotated[str, ValueParser(values.choice(NullCursor), "`fail`, `include`, `exclude`")] = (
        Field(
            default="fail",
            description="Rows without a cursor value: stop, read all of them each time, or only count them.",
        )
    )
    open_transactions: Annotated[
        timedelta | None,
        ValueParser(_parse_open_transactions, "`wait`, `{ignore_after: 1h}`"),
        DocumentedDefault("`wait`"),
    ] = Field(
        default=None, description="Whether a forgotten open transaction may hold the window back for ever."
    )
    types: Annotated[
        dict[str, str],
        ValueParser(_parse_types, "mapping of column to `string`, `timestamp`, `date`, `decimal(p,s)`"),
    ] = Field(default={}, description="How a column shall arrive, where its own type cannot be held exactly.")
    columns: Annotated[
        ColumnChoice,
        ValueParser(column_keys.column_choice, "`{include: [TEXT, …]}` or `{exclude: [TEXT, …]}`"),
        DocumentedDefault("all of them"),
    ] = Field(
        default=EVERY_COLUMN,
        description="Patterns of the columns that are read, or of those that are not; they hold for columns "
        "that the source gets later, too: [columns and rows](columns.md).",
    )
    mask: Annotated[
        tuple[ColumnMask, ...],
        ValueParser(
            column_keys.masks,
            "mapping of column patterns to `sha256`, `{sha256: SALT}`, `null` or a text; SALT is "
            "`${env:…}` or `${file:…}`",
        ),
        DocumentedDefault("none"),
    ] = Field(
        default=(),
        repr=False,
        description="What takes the place of a column's values before they leave the source: their hash, "
        "NULL, or one text. [Columns and rows](columns.md#masks).",
    )
    where: Annotated[
        str | None, ValueParser(column_keys.condition, "text"), DocumentedDefault("every row")
    ] = Field(
        default=None,
        description="A condition in the source's own SQL: only rows for which it is true are read. "
        "[Columns and rows](columns.md#where).",
    )
    zero_dates: Annotated[str, ValueParser(values.choice(("fail", "null")), "`fail`, `null`")] = Field(
        default="fail", description="What MySQL's `0000-00-00` becomes."
    )
    rename: Annotated[
        str | None, ValueParser(values.template, "text"), DocumentedDefault("the source's name")
    ] = Field(
        default=None,
        description="A table's name where it lands; `{table}` and `{schema}` stand for the source's names.",
    )
    mode: Annotated[
        str,
        ValueParser(
            values.choice(
                MODES[OutputKind.WAREHOUSE], elsewhere={"replace_partitions": "a mode of `flows:`"}
            ),
            "`append`, `merge`, `overwrite`, `scd2`",
        ),
        DocumentedDefault("`append` into a lake, else `merge`"),
    ] = Field(
        default="merge",
        description="How rows land in a warehouse: each version of a row is added, the last one for each key "
        "is kept, the whole table is replaced, or the history of each key is kept with `valid_from`, "
        "`valid_to` and `is_current`. A lake keeps every version of a row.",
    )
    drift: Annotated[str, ValueParser(values.choice(Drift), "`evolve`, `freeze`, `fail`")] = Field(
        default="evolve",
        description="When the source's columns change: follow where nothing is lost, keep the target's "
        "columns as they are, or stop.",
    )
    read: Annotated[str, ValueParser(values.choice(ReadMethod), "`auto`, `direct`, `jdbc`")] = Field(
        default="auto",
        description="How rows are read: the fast way where it gives the same values, only the fast way, or "
        "only Spark's JDBC.",
    )
    execute: Annotated[str, ValueParser(values.choice(Execution), "`auto`, `spark`, `database`")] = Field(
        default="auto",
        description="Where rows are moved. `auto`: by processes of this machine where Spark is not worth its "
        "start. `spark`: every batch by Spark's tasks, a small one too: [who moves the rows]"
        "(reading.md#who-moves-the-rows). `database`: `from` and `to` are one database, which moves them by "
        "itself; no row leaves it, and Spark is not started: [inside one database]"
        "(warehouses.md#inside-one-database).",
    )
    deletes: Annotated[str, ValueParser(values.choice(DeleteMode), "`none`, `soft`, `hard`")] = Field(
        default="none",
        description="Rows that the source no longer has: left alone, marked in `_tidegauge_deleted_at`, or "
        "deleted from the warehouse. They are found by comparing keys. Mode `scd2` closes their version "
        "under `soft`, and refuses `hard`.",
    )
    deletes_limit: Annotated[
        float, ValueParser(values.share, "`30%` or `0.3`"), DocumentedDefault("`30%`")
    ] = Field(
        default=0.3,
        description="The share of the target's rows that may vanish at once without being confirmed.",
    )
    metadata_columns: Annotated[Flag, DocumentedDefault("`false`")] = Field(
        default=False,
        description="Add `_tidegauge_run_id` and `_tidegauge_loaded_at` to the table in the warehouse.",
    )
    distkey: Annotated[MaybeText, DocumentedDefault("Redshift's choice")] = Field(
        default=None, description="Redshift only: the column that a table made anew is distributed by."
    )
    sortkey: Annotated[SomeTexts, DocumentedDefault("Redshift's choice")] = Field(
        default=(), description="Redshift only: the columns that a table made anew is sorted by."
    )
    deletion_vectors: Annotated[
        MaybeFlag, DocumentedDefault("`true` where `merge` makes the table; others stay as they are")
    ] = Field(
        default=None,
        description="Delta tables only: whether rows that change are marked as gone beside their file, or "
        "the file is written again: [who can read the table](delta.md#deletion-vectors).",
    )
    hybrid: Annotated[Flag, DocumentedDefault("`false`")] = Field(
        default=False, description="Snowflake only: a table made anew is a hybrid table."
    )
    expect: Annotated[Any, ValueParser(as_it_is, "mapping"), DocumentedDefault("nothing")] = Field(
        default=None,
        description="What rows have to be to reach `to`, and what becomes of those that are not: "
        "[expectations](expectations.md#on-a-sync).",
    )


class SyncKeys(TableKeys):
    from_: Text = Field(alias="from", description="The connection to read: a database.")
    via: Annotated[MaybeText, DocumentedDefault("one stage")] = Field(
        default=None,
        description="A lake of type `parquet` between the two: stage `extract` fills it, stage `load` fills "
        "`to` from it. Alone it is the same as `to`.",
    )
    to: Annotated[MaybeText, DocumentedDefault("required, or `via`")] = Field(
        default=None, description="The connection to write: a lake, Delta tables, or a database of any type."
    )
    tables: SomeTexts = Field(description="Patterns over the database's own catalogue, such as `shop.*`.")
    exclude: Texts = Field(default=(), description="Patterns of tables to leave out.")
    tags: Tags = Field(default=(), description="Words to select by: `--select tag:WORD`.")
    schedule: ScheduledHere = Field(
        default=None, description="When its flows are due; `none`: only by hand. [Schedules](schedule.md)."
    )
    override: Mapped = Field(
        default={}, description="By table pattern: any key of the table below, for the tables that match."
    )
