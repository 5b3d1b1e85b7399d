"""Find a tracker's ledger by the name of a schema: the session's catalogue says where it lies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegauge.errors import ConfigError, TableMissing
from tidegauge.ledger.address import parse
from tidegauge.ledger.shown_rows import SHOWN
from tidegauge.model.location import is_in_catalogue, resolve
from tidegauge.model.secret import Secret
from tidegauge.sources.delta.catalogue import locate, locate_schema, register

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_KIND = "delta:"
TABLES = ("watermarks", "plans", "runs", "history", *(shown.name for shown in SHOWN))


def parse_schema_name(address: str | Secret) -> str | None:
    """The schema that a `delta:CATALOGUE.SCHEMA` names; None for every other address."""
    if isinstance(address, Secret) or not address.startswith(_KIND):
        return None
    name = address.removeprefix(_KIND)
    return name if is_in_catalogue(name) else None


def look_up(spark: SparkSession, schema: str) -> str:
    """The address of the folder that the schema's tables lie in.

    Raises ConfigError if the catalogue does not know the schema or its location, if that is on a store of
    another kind, or if one of its tables has the name of a table of the ledger and lies elsewhere.
    """
    try:
        location = locate_schema(spark, schema)
    except TableMissing as error:
        raise ConfigError(
            f"delta:{schema}: {error.message}",
            hint="write catalogue and schema, such as delta:spark_catalog.ops, and make the schema first; a"
            f" folder of that name is delta:./{schema}",
        ) from error
    if location is None:
        raise ConfigError(
            f"delta:{schema}: the catalogue does not say where the schema lies",
            hint="write delta:PATH, with a path of your own",
        )
    folder = _folder(schema, "the schema", location)
    for name, where in _find_tables(spark, schema).items():
        place = _folder(schema, f"its table {name}", where)
        if place != f"{folder}/{name}":
            raise ConfigError(
                f"delta:{schema}: its table {name} lies at {place}, where the ledger's would at {folder}",
                hint="choose a schema that is the ledger's alone, or write delta:PATH",
            )
    return parse(f"{_KIND}{folder}").shown


def register_tables(spark: SparkSession, schema: str, address: str) -> None:
    """Register the ledger's tables in the catalogue, those that it does not have yet."""
    known = _find_tables(spark, schema)
    for name in TABLES:
        if name not in known:
            register(spark, f"{schema}.{name}", f"{address.removeprefix(_KIND)}/{name}")


def _folder(schema: str, what: str, location: str) -> str:
    try:
        return resolve(location).rstrip("/")
    except ValueError as error:
        raise ConfigError(
            f"delta:{schema}: {what} lies at {location}, and {error}", hint="write delta:PATH"
        ) from None


def _find_tables(spark: SparkSession, schema: str) -> dict[str, str]:
    """Those tables of the ledger that the catalogue has, with their locations."""
    found = locate(spark, schemas=[schema])
    return {name: found[f"{schema}.{name}"] for name in TABLES if f"{schema}.{name}" in found}
