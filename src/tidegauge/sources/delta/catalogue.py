"""Where the Delta tables of a Spark catalogue are, found without a Spark job, on classic Spark or Connect."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote

from tidegauge.errors import SourceError, SourceUnreachable, TableMissing
from tidegauge.model.catalogue_name import parse_name, quote_name
from tidegauge.model.secret import mask
from tidegauge.model.types import quote

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

_PARALLEL = 8
_PLAIN = re.compile(r"\w+")
Facts = tuple[str, str, str]
"""Kind, provider and location of a table."""
_OF_SESSION, _DELTAS = "spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog"
_VIEWS = {"VIEW", "METRIC_VIEW"}


def locate(spark: SparkSession, schemas: Sequence[str] = (), tables: Sequence[str] = ()) -> dict[str, str]:
    """The location of each Delta table in the schemas, and of each table named, as `schema.table`.

    One statement for each schema, however many tables it has: `listTables` would start Spark jobs, and so
    would DESCRIBE DETAIL. Views and tables of other formats are left out of a schema; if `tables` names one,
    that raises SourceError. TableMissing names the table or the schema that is not there.
    """
    found: dict[str, str] = {}
    for schema in schemas:
        found |= _locate_in_schema(spark, schema)
    named: dict[str, list[str]] = {}
    for table in tables:
        parts = parse_name(table)
        schema = ".".join(map(_show, parts[:-1])) if len(parts) > 1 else spark.catalog.currentDatabase()
        named.setdefault(schema, []).append(parts[-1])
    for schema, names in named.items():
        found |= _locate_named(spark, schema, names)
    return found


def locate_schema(spark: SparkSession, schema: str) -> str | None:
    """The location of a schema's own tables; None if the catalogue does not say.

    Raises TableMissing for a schema that is not there, SourceUnreachable for a catalogue without an answer.
    """
    quoted = quote_name(schema)
    if not _is_schema(spark, quoted):
        raise _missing_error(f"the schema {schema}")
    rows = _rows(spark, f"DESCRIBE SCHEMA EXTENDED {quoted}", f"the schema {schema}")
    # Unlike a table's location, this is a URI with escapes.
    places = [unquote(row.info_value) for row in rows if row.info_name == "Location" and row.info_value]
    return places[0] if places else None


def register(spark: SparkSession, table: str, location: str) -> None:
    """Give an existing Delta table a name in the catalogue, unless the name is taken."""
    place = location.replace("\\", "\\\\").replace("'", "\\'")
    statement = f"CREATE TABLE IF NOT EXISTS {quote_name(table)} USING delta LOCATION '{place}'"
    _rows(spark, statement, f"the table {table}")


@dataclass(frozen=True)
class DescribedView:
    is_view: bool
    """False: the name is that of a table."""
    text: str = ""
    properties: str = ""
    """As the catalogue prints them: `[name=value, …]`."""


def describe_view(spark: SparkSession, name: str) -> DescribedView | None:
    """What the catalogue says about a view; None if nothing has that name."""
    if not spark.catalog.tableExists(quote_name(name)):
        return None
    rows = _rows(spark, f"DESCRIBE TABLE EXTENDED {quote_name(name)}", f"the view {name}")
    facts = {row.col_name: row.data_type or "" for row in _detail(rows)}
    if facts.get("Type") not in _VIEWS:
        return DescribedView(is_view=False)
    return DescribedView(True, facts.get("View Text", ""), facts.get("Table Properties", ""))


def _is_schema(spark: SparkSession, quoted: str) -> bool:
    from pyspark.errors import PySparkException

    try:
        return spark.catalog.databaseExists(quoted)
    except PySparkException as error:
        if "CATALOG_NOT_FOUND" in (error.getCondition() or ""):
            return False
        raise


def _locate_in_schema(spark: SparkSession, schema: str) -> dict[str, str]:
    listed = _list(spark, schema, "*")
    unsure = [name for name, facts in listed.items() if facts is None]
    known = {name: facts for name, facts in listed.items() if facts} | _describe_all(spark, schema, unsure)
    return {
        f"{schema}.{name}": location
        for name, (kind, provider, location) in sorted(known.items())
        if provider == "delta" and kind not in _VIEWS and location
    }


def _locate_named(spark: SparkSession, schema: str, names: Sequence[str]) -> dict[str, str]:
    plain = [name for name in names if _PLAIN.fullmatch(name)]
    listed = _list(spark, schema, "|".join(plain)) if plain else {}
    lower = {name.lower(): facts for name, facts in listed.items()}
    unsure = [name for name in names if name not in plain or lower.get(name.lower(), ()) is None]
    known = {name: facts for name in plain if (facts := lower.get(name.lower()))}
    known |= _describe_all(spark, schema, unsure)
    found = {}
    for name in names:
        if name not in known:
            raise _missing_error(f"the table {schema}.{name}")
        found[f"{schema}.{name}"] = _location(f"{schema}.{name}", known[name])
    return found


def _location(shown: str, facts: Facts) -> str:
    """The location of a Delta table. Raises SourceError for a view or a table of another format."""
    kind, provider, location = facts
    if provider == "delta" and kind not in _VIEWS and location:
        return location
    what = "a view" if kind in _VIEWS else f"a table of the format {provider or 'unknown'}"
    raise SourceError(
        f"{shown} is {what}, and only Delta tables have versions",
        hint="leave it out, or name the Delta table behind it",
    )


def _list(spark: SparkSession, schema: str, pattern: str) -> dict[str, Facts | None]:
    """The facts of each table whose name matches; None for a table of which the list lacks some."""
    quoted = quote_name(schema)
    # Asked first, because Spark writes a very long log message for a schema that is not there.
    if not spark.catalog.databaseExists(quoted):
        raise _missing_error(f"the schema {schema}")
    rows = _rows(spark, f"SHOW TABLE EXTENDED IN {quoted} LIKE '{pattern}'", f"the schema {schema}")
    return {row.tableName: _facts(row) for row in rows if not row.isTemporary}


def _describe_all(spark: SparkSession, schema: str, names: Sequence[str]) -> dict[str, tuple[str, str, str]]:
    """The facts of tables whose provider and location the catalogue's list lacks: one query for each."""

    def one(name: str) -> Facts:
        table = f"{quote_name(schema)}.{quote(name)}"
        rows = _rows(spark, f"DESCRIBE TABLE EXTENDED {table}", f"the table {schema}.{name}")
        facts = {row.col_name: row.data_type or "" for row in _detail(rows)}
        return facts.get("Type", ""), facts.get("Provider", "").lower(), facts.get("Location", "")

    if not names:
        return {}
    with ThreadPoolExecutor(min(_PARALLEL, len(names))) as pool:
        return dict(zip(names, pool.map(one, names), strict=True))


def _detail(rows: Iterable[Row]) -> Iterator[Row]:
    """The rows that follow those of the columns, one of which may be called Location."""
    begun = False
    for row in rows:
        begun = begun or row.col_name == "# Detailed Table Information"
        if begun:
            yield row


def _facts(row: Row) -> Facts | None:
    facts: dict[str, str] = {}
    for line in row.information.splitlines():
        name, colon, value = line.partition(": ")
        if colon:
            facts.setdefault(name, value)
    kind = facts.get("Type", "")
    if kind in _VIEWS:
        return kind, "", ""
    if "Provider" in facts and "Location" in facts:
        return kind, facts["Provider"].lower(), facts["Location"]
    return None


def _rows(spark: SparkSession, statement: str, what: str) -> list[Row]:
    from pyspark.errors import PySparkException

    try:
        return spark.sql(statement).collect()
    except PySparkException as error:
        condition = error.getCondition() or ""
        text = mask(str(error))
        if condition.endswith("_NOT_FOUND"):
            raise _missing_error(what) from error
        raise SourceUnreachable(
            f"Spark's catalogue did not say where {what} is: {text.partition(chr(10))[0][:300]}",
            hint="--debug shows all that Spark says",
            detail=text,
        ) from error


def _missing_error(what: str) -> TableMissing:
    return TableMissing(
        f"Spark's catalogue does not have {what}",
        hint="check the name, and the catalogue that the session uses",
    )


def in_memory(spark: SparkSession, table: str) -> bool:
    """Whether the catalogue that has the table's name forgets its tables when Spark ends."""
    parts = parse_name(table)
    if (parts[0] if len(parts) > 2 else spark.catalog.currentCatalog()) != _OF_SESSION:
        return False
    # A catalogue of another class keeps its tables itself; Delta's hands them on to Spark's own.
    made_by = spark.conf.get(f"spark.sql.catalog.{_OF_SESSION}", None) or _DELTAS
    return (
        made_by == _DELTAS and spark.conf.get("spark.sql.catalogImplementation", "in-memory") == "in-memory"
    )


def split_name(name: str) -> tuple[str, str]:
    """The schema, as `locate` takes it (empty if the name has none), and the table without backticks."""
    *above, table = parse_name(name)
    return ".".join(map(_show, above)), table


def _show(part: str) -> str:
    return quote(part) if "." in part or "`" in part else part
