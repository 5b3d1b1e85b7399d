"""Every kind of database, and the facts about it that several rooms need. Nothing here needs a driver.

A new kind begins here, with a member of `Engine` and its entry in `FACTS`. How it is read is in
`sources/<engine>/`, how it is written in `outputs/warehouse/<engine>/`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from tidegauge.model.canonical import DIGITS

SSL_MODES = ("disable", "prefer", "require", "verify-ca", "verify-full")


class Engine(StrEnum):
    SQLITE = "sqlite"
    MYSQL = "mysql"
    POSTGRESQL = "postgresql"
    DUCKDB = "duckdb"
    REDSHIFT = "redshift"
    SNOWFLAKE = "snowflake"


class SchemaOf(StrEnum):
    """Where the schema comes from if a table is named without one."""

    NOWHERE = "nowhere"
    """There are no schemas, and a dot is part of a table's name."""
    DATABASE = "database"
    """A schema is a database: the connection's `database`."""
    SCHEMA = "schema"
    """The connection's `schema`."""


@dataclass(frozen=True)
class EngineFacts:
    """What is true of every server of one kind of database."""

    title: str
    """Name of the database, as people write it."""
    readable: bool = False
    """Whether it can be a source. `outputs/warehouse/open.py` says which kinds can be written to."""
    port: int = 0
    """The default port; 0 if connections have none, for a file or a service."""
    schema_of: SchemaOf = SchemaOf.SCHEMA
    default_schema: str | None = None
    """Schema to use if the connection names none."""
    options: frozenset[str] = frozenset()
    """The allowed connection options, by Tidegauge's names; any other is refused."""
    ssl_modes: tuple[str, ...] = SSL_MODES
    """The allowed values of the option `ssl`."""
    spans_databases: bool = False
    """Whether a statement can read tables of other databases on the same server."""
    hybrid_tables: bool = False
    """Whether tables can be hybrid tables, whose key is enforced."""
    jdbc_jar: str | None = None
    """Maven coordinates of the JDBC driver for Spark; None: it is only read without JDBC."""
    jdbc_excludes: tuple[str, ...] = ()
    """Dependencies of that jar to leave out: those that Spark has or that only optional features need."""
    grammar: str | None = None
    """Sqlglot's name for the SQL dialect, if it differs from the engine's name."""
    dataset_word: str | None = None
    """OpenLineage's name for the database, if it differs from the engine's name."""
    text_hash: str | None = None
    """SQL of `model.canonical.hash_text`, for a `{text}` in SQL; None if the server does not compute it."""


_SERVER_OPTIONS = frozenset({"connect_timeout", "ssl", "ssl_ca"})

FACTS: Mapping[Engine, EngineFacts] = {
    Engine.SQLITE: EngineFacts(
        "SQLite",
        readable=True,
        schema_of=SchemaOf.NOWHERE,
        jdbc_jar="org.xerial:sqlite-jdbc:3.50.3.0",
        jdbc_excludes=("org.slf4j:slf4j-api",),
    ),
    Engine.MYSQL: EngineFacts(
        "MySQL",
        readable=True,
        port=3306,
        schema_of=SchemaOf.DATABASE,
        spans_databases=True,
        options=_SERVER_OPTIONS,
        jdbc_jar="com.mysql:mysql-connector-j:9.4.0",
        jdbc_excludes=("com.google.protobuf:protobuf-java",),
        text_hash=f"CAST(CONV(LEFT(MD5({{text}}), {DIGITS}), 16, 10) AS SIGNED)",
    ),
    Engine.POSTGRESQL: EngineFacts(
        "PostgreSQL",
        readable=True,
        port=5432,
        default_schema="public",
        grammar="postgres",
        dataset_word="postgres",
        options=_SERVER_OPTIONS,
        jdbc_jar="org.postgresql:postgresql:42.7.8",
        jdbc_excludes=("org.checkerframework:checker-qual",),
        text_hash=f"('x' || substr(md5({{text}}), 1, {DIGITS}))::bit({4 * DIGITS})::bigint",
    ),
    Engine.DUCKDB: EngineFacts(
        "DuckDB",
        readable=True,
        default_schema="main",
        text_hash=f"CAST('0x' || left(md5({{text}}), {DIGITS}) AS BIGINT)",
    ),
    Engine.REDSHIFT: EngineFacts(
        "Redshift",
        port=5439,
        default_schema="public",
        options=frozenset({"connect_timeout", "ssl"}),
        # The driver can only skip TLS or verify certificates, and has the certificate authorities built in.
        ssl_modes=("disable", "verify-ca", "verify-full"),
    ),
    Engine.SNOWFLAKE: EngineFacts(
        "Snowflake",
        readable=True,
        default_schema="PUBLIC",
        options=frozenset({"connect_timeout", "host", "port", "protocol"}),
        spans_databases=True,
        hybrid_tables=True,
    ),
}

READABLE = tuple(engine for engine, facts in FACTS.items() if facts.readable)
"""The kinds that can be a source, in the order in which messages name them."""


def name_readable(mark: str = "") -> tuple[str, str]:
    """Return the readable kinds in two parts, for a sentence: all but the last with commas, and the last."""
    names = [f"{mark}{engine}{mark}" for engine in READABLE]
    return ", ".join(names[:-1]), names[-1]


def hash_in_sql(engine: Engine, text: str) -> str:
    """Return SQL of the hash of the text that the SQL `text` gives; NULL for NULL."""
    words = FACTS[engine].text_hash
    assert words is not None
    return words.format(text=text)
