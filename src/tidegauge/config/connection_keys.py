"""The keys of `connections:`, by type."""

from typing import Annotated, ClassVar

from pydantic import Field

from tidegauge.config import values
from tidegauge.config.forms import (
    DocumentedDefault,
    Endpoint,
    Hidden,
    Host,
    Keys,
    Mapped,
    MaybeText,
    Port,
    Text,
    ValueParser,
)
from tidegauge.model.engines import FACTS, Engine


class FileKeys(Keys):
    """A database in one file."""

    path: Text = Field(description="The database file, relative to the project file.")


class SqliteKeys(FileKeys):
    pass


class ServerKeys(Keys):
    """A database on a server. Each subclass adds its port, and perhaps a schema."""

    host: Host = Field(default="127.0.0.1", description="The server.")
    database: Text = Field(description="The database to connect to.")
    user: Text = Field(description="The login.")
    password: Annotated[Hidden, DocumentedDefault("none")] = Field(
        default=None, description="Its password, which never stands in the file itself."
    )
    options: Mapped = Field(default={}, description="Options of the connection; see below.")


class MysqlKeys(ServerKeys):
    later: ClassVar[dict[str, str]] = {"schema": "a schema of MySQL is a database: use `database`"}

    port: Port = Field(default=FACTS[Engine.MYSQL].port, description="The server's port.")


class PostgresqlKeys(ServerKeys):
    port: Port = Field(default=FACTS[Engine.POSTGRESQL].port, description="The server's port.")
    schema_: Text = Field(
        default="public",
        alias="schema",
        description="Where a table name without a schema lives, and where tables land.",
    )


class DuckdbKeys(FileKeys):
    later: ClassVar[dict[str, str]] = {"database": "a DuckDB database is a file: use `path`"}

    path: Text = Field(
        description="The database file, relative to the project file; one that is written to is made if it is"
        " not there."
    )
    schema_: Text = Field(
        default="main",
        alias="schema",
        description="Where a table name without a schema lives, and where tables land.",
    )


class RedshiftKeys(ServerKeys):
    host: Host = Field(description="The cluster's or work group's endpoint.")
    port: Port = Field(default=FACTS[Engine.REDSHIFT].port, description="The server's port.")
    schema_: Text = Field(default="public", alias="schema", description="Where tables land.")
    iam_role: Annotated[
        str | None,
        ValueParser(values.check_iam_role, "ARN, several with commas, or `default`"),
        DocumentedDefault("the keys below"),
    ] = Field(default=None, description="The role with which COPY reads the lake.")
    access_key: Annotated[Hidden, DocumentedDefault("the lake's own")] = Field(
        default=None, description="Instead of a role: the key with which COPY reads the lake."
    )
    secret_key: Annotated[Hidden, DocumentedDefault("the lake's own")] = Field(
        default=None, description="Together with `access_key`."
    )


class SnowflakeKeys(Keys):
    later: ClassVar[dict[str, str]] = {
        "host": "the host follows from `account`; another one goes to `options: {host: …}`"
    }

    account: Annotated[str, ValueParser(values.check_account, "account identifier")] = Field(
        description="The account's identifier, such as `ORGANISATION-ACCOUNT`, not its address."
    )
    database: Text = Field(description="The database to connect to.")
    user: Text = Field(description="The login.")
    password: Annotated[Hidden, DocumentedDefault("none")] = Field(
        default=None, description="Its password, which never stands in the file itself."
    )
    schema_: Text = Field(
        default="PUBLIC",
        alias="schema",
        description="Where a table name without a schema lives, and where tables land.",
    )
    warehouse: Annotated[MaybeText, DocumentedDefault("the login's own")] = Field(
        default=None, description="The virtual warehouse that does the work."
    )
    role: Annotated[MaybeText, DocumentedDefault("the login's own")] = Field(
        default=None, description="The role to work in."
    )
    options: Mapped = Field(default={}, description="Options of the connection; see below.")


class ParquetKeys(Keys):
    later: ClassVar[dict[str, str]] = {
        "options": "S3 settings are keys of the connection itself; Spark's go to `spark: {conf: …}`"
    }

    path: Text = Field(
        description="A local folder (relative to the project file), `file:…`, or `s3a://bucket/prefix`."
    )
    endpoint: Annotated[Endpoint, DocumentedDefault("Amazon's own")] = Field(
        default=None, description="The address of an S3 service other than Amazon's."
    )
    region: Annotated[MaybeText, DocumentedDefault("the usual AWS chain")] = Field(
        default=None, description="The bucket's region."
    )
    access_key: Annotated[Hidden, DocumentedDefault("the usual AWS chain")] = Field(
        default=None, description="S3 access key; together with `secret_key`."
    )
    secret_key: Annotated[Hidden, DocumentedDefault("the usual AWS chain")] = Field(
        default=None, description="S3 secret key; together with `access_key`."
    )


class DeltaKeys(ParquetKeys):
    path: Text = Field(
        description="Where Delta tables lie: a local folder (relative to the project file), `file:…`, or "
        "`s3a://bucket/prefix`. A sync fills `PATH/SCHEMA.TABLE`, or as `rename` says. A table of a flow "
        "whose path lies below it is reached with the settings here."
    )


CONNECTIONS: dict[str, type[Keys]] = {
    "sqlite": SqliteKeys,
    "mysql": MysqlKeys,
    "postgresql": PostgresqlKeys,
    "duckdb": DuckdbKeys,
    "redshift": RedshiftKeys,
    "snowflake": SnowflakeKeys,
    "parquet": ParquetKeys,
    "delta": DeltaKeys,
}
