"""The keys of `tidegauge.yml`: names, types, defaults and meanings. The reference is printed from here."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import CoreSchema, core_schema

from tidegauge.config import values
from tidegauge.config.problems import Complaint
from tidegauge.model.secret import Secret
from tidegauge.model.spec import NullCursor


@dataclass(frozen=True)
class Form:
    """How a value is checked, and how the reference describes what is expected."""

    check: Callable[[Any], Any]
    text: str

    def __get_pydantic_core_schema__(self, _source: Any, _handler: Any) -> CoreSchema:
        # Unlike PlainValidator this makes no schema of the type itself, which nobody asks for: files are
        # read and never written, and the time counts at every start.
        return core_schema.no_info_plain_validator_function(self.check)


@dataclass(frozen=True)
class Unless:
    """What holds when the key is left out, where the default value itself does not tell."""

    default: str


def _as_it_is(value: Any) -> Any:
    """Checked where the text of the file is at hand."""
    return value


def _mapping(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Complaint("this must be a mapping of keys to values")
    return value


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise Complaint("this must be a list, one `- ` for each entry")
    return value


def _texts_by_name(value: Any) -> dict[str, str]:
    return _each(value, values.text)


def _types(value: Any) -> dict[str, str]:
    return _each(value, values.arrival)


def _each(value: Any, check: Any) -> dict[str, str]:
    checked = {}
    for key, item in _mapping(value).items():
        try:
            checked[key] = check(item)
        except Complaint as complaint:
            raise Complaint(complaint.message, hint=complaint.hint, trail=(key,)) from None
    return checked


def _open_transactions(value: Any) -> timedelta | None:
    form = "write `wait`, or `{ignore_after: 1h}`"
    if value == "wait":
        return None
    if not isinstance(value, dict):
        raise Complaint("this must be `wait` or `{ignore_after: DURATION}`", hint=form)
    for key in value:
        if key != "ignore_after":
            raise Complaint(
                f"unknown key `{key[:60]}`", hint="did you mean `ignore_after`?", trail=(key,), at_key=True
            )
    if not value:
        raise Complaint("`ignore_after` is missing", hint=form)
    try:
        return values.duration(timedelta(seconds=1))(value["ignore_after"])
    except Complaint as complaint:
        raise Complaint(complaint.message, hint=complaint.hint, trail=("ignore_after",)) from None


Text = Annotated[str, Form(values.text, "text")]
MaybeText = Annotated[str | None, Form(values.text, "text")]
Texts = Annotated[tuple[str, ...], Form(values.texts, "text or list")]
SomeTexts = Annotated[tuple[str, ...], Form(values.some_texts, "text or list")]
Tags = Annotated[tuple[str, ...], Form(values.tags, "word or list")]
Hidden = Annotated[Secret | None, Form(values.secret, "`${env:…}` or `${file:…}`")]
Duration = Annotated[timedelta, Form(values.duration(), "duration")]
Lease = Annotated[timedelta, Form(values.duration(timedelta(seconds=3)), "duration, at least 3s")]
Port = Annotated[int, Form(values.whole(1, 65535), "1 to 65535")]
Host = Annotated[str, Form(values.check_host, "host name or IP address")]
Endpoint = Annotated[str | None, Form(values.check_endpoint, "`https://HOST[:PORT]`")]
Mapped = Annotated[dict[str, Any], Form(_mapping, "mapping")]
Listed = Annotated[list[Any], Form(_list, "list")]


class Keys(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    later: ClassVar[dict[str, str]] = {}
    """Keys that people may expect here: with what to do instead, or nothing if a later version has them."""


class ProjectKeys(Keys):
    later = {"flows": "", "schedule": "", "alerts": ""}

    pipeline: Text = Field(description="The name of this set of flows, under which the ledger keeps it.")
    ledger: Annotated[Any, Form(_as_it_is, "address")] = Field(
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
    spark: Mapped = Field(default={}, description="Settings of the Spark session; see below.")
    connections: Mapped = Field(default={}, description="Databases and lakes by name; see below.")
    sync: Listed = Field(default=[], description="What is moved from where to where; see below.")


class SparkKeys(Keys):
    master: Annotated[Text, Unless("`local[*]`, or the active session's")] = Field(
        default="", description="A cluster, as Spark names it; `sc://…` for Spark Connect."
    )
    conf: Annotated[dict[str, str], Form(_texts_by_name, "mapping")] = Field(
        default={}, repr=False, description="Settings by Spark's own names."
    )


class SqliteKeys(Keys):
    path: Text = Field(description="The database file, relative to the project file.")


class _ServerKeys(Keys):
    host: Host = Field(default="127.0.0.1", description="The server.")
    database: Text = Field(description="The database to connect to.")
    user: Text = Field(description="The login.")
    password: Annotated[Hidden, Unless("none")] = Field(
        default=None, description="Its password, which never stands in the file itself."
    )
    options: Mapped = Field(default={}, description="Options of the connection; see below.")


class MysqlKeys(_ServerKeys):
    later = {"schema": "a schema of MySQL is a database: use `database`"}

    port: Port = Field(default=3306, description="The server's port.")


class PostgresqlKeys(_ServerKeys):
    port: Port = Field(default=5432, description="The server's port.")
    schema_: Text = Field(
        default="public", alias="schema", description="Where a table name without a schema lives."
    )


class ParquetKeys(Keys):
    later = {"options": "S3 settings are keys of the connection itself; Spark's go to `spark: {conf: …}`"}

    path: Text = Field(
        description="A local folder (relative to the project file), `file:…`, or `s3a://bucket/prefix`."
    )
    endpoint: Annotated[Endpoint, Unless("Amazon's own")] = Field(
        default=None, description="The address of an S3 service other than Amazon's."
    )
    region: Annotated[MaybeText, Unless("the usual AWS chain")] = Field(
        default=None, description="The bucket's region."
    )
    access_key: Annotated[Hidden, Unless("the usual AWS chain")] = Field(
        default=None, description="S3 access key; together with `secret_key`."
    )
    secret_key: Annotated[Hidden, Unless("the usual AWS chain")] = Field(
        default=None, description="S3 secret key; together with `access_key`."
    )


CONNECTIONS: dict[str, type[Keys]] = {
    "sqlite": SqliteKeys,
    "mysql": MysqlKeys,
    "postgresql": PostgresqlKeys,
    "parquet": ParquetKeys,
}
LATER_CONNECTIONS = frozenset({"duckdb", "redshift", "snowflake", "delta"})


class TableKeys(Keys):
    """What may differ from table to table: on a sync for all of its tables, under `override` for some."""

    later = {"drift": "", "read": "", "deletes": "", "metadata_columns": ""}

    cursor: Annotated[MaybeText, Unless("required here or in every override")] = Field(
        default=None,
        description="The column that grows with every change, or an expression of the database's own SQL.",
    )
    key: Annotated[SomeTexts, Unless("the primary key")] = Field(
        default=(), description="The columns that tell rows with equal cursor values apart."
    )
    settle: Duration = Field(
        default=timedelta(seconds=30),
        description="How far below the source's own clock a window ends, so that open transactions can land.",
    )
    lookback: Duration = Field(
        default=timedelta(0), description="How far below the watermark a window reads again."
    )
    initial: Annotated[MaybeText, Unless("everything")] = Field(
        default=None, description="The cursor value at which the first run begins."
    )
    batch_rows: Annotated[int, Form(values.whole(1), "whole number")] = Field(
        default=2_000_000, description="Rows in one batch, which is the unit of commit."
    )
    parallel: Annotated[int, Form(values.whole(1, 64), "1 to 64")] = Field(
        default=2, description="Readers inside one table."
    )
    null_cursor: Annotated[str, Form(values.choice(NullCursor), "`fail`, `include`, `exclude`")] = Field(
        default="fail",
        description="Rows without a cursor value: stop, read all of them each time, or only count them.",
    )
    open_transactions: Annotated[
        timedelta | None,
        Form(_open_transactions, "`wait`, `{ignore_after: 1h}`"),
        Unless("`wait`"),
    ] = Field(
        default=None, description="Whether a forgotten open transaction may hold the window back for ever."
    )
    types: Annotated[
        dict[str, str],
        Form(_types, "mapping of column to `string`, `timestamp`, `date`, `decimal(p,s)`"),
    ] = Field(default={}, description="How a column shall arrive, where its own type cannot be held exactly.")
    zero_dates: Annotated[str, Form(values.choice(("fail", "null")), "`fail`, `null`")] = Field(
        default="fail", description="What MySQL's `0000-00-00` becomes."
    )
    rename: Annotated[str | None, Form(values.template, "text"), Unless("the source's name")] = Field(
        default=None,
        description="A table's name in the lake; `{table}` and `{schema}` stand for the source's names.",
    )


class SyncKeys(TableKeys):
    from_: Text = Field(alias="from", description="The connection to read: a database.")
    to: Annotated[MaybeText, Unless("required")] = Field(
        default=None, description="The connection to write: a lake of type `parquet`."
    )
    via: Annotated[MaybeText, Unless("–")] = Field(
        default=None, description="The same as `to`, as long as there is no warehouse behind the lake."
    )
    tables: SomeTexts = Field(description="Patterns over the database's own catalogue, such as `shop.*`.")
    exclude: Texts = Field(default=(), description="Patterns of tables to leave out.")
    mode: Annotated[
        str,
        Form(
            values.choice(
                ("append",),
                later=("merge", "scd2", "overwrite", "replace_partitions"),
                why="write `append`: the lake keeps every version of a row; merging comes with a warehouse",
            ),
            "`append`",
        ),
    ] = Field(default="append", description="How rows land: the lake keeps every version of a row.")
    tags: Tags = Field(default=(), description="Words to select by: `--select tag:WORD`.")
    override: Mapped = Field(
        default={}, description="By table pattern: any key of the table below, for the tables that match."
    )
