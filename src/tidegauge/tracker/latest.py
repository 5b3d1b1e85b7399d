"""The newest versions of tables: looked up, or as the caller gives them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from tidegauge.delta_log.history import commit_time, version_at
from tidegauge.delta_log.table import NewestVersion, read_newest_of_many
from tidegauge.errors import ConfigError, SourceError, SourceUnreachable, TidegaugeError
from tidegauge.sources.delta.catalogue import locate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Names = str | Sequence[str]
Tables = str | Sequence[str] | Mapping[str, str]
"""Names in Spark's catalogue, or paths by table name. Without Spark, a name that is given alone is a path."""


@dataclass(frozen=True)
class Latest:
    """A table's newest version. The other fields are empty where they are not known."""

    version: int
    table_id: str = ""
    schema_version: str = ""
    commit_timestamp: datetime | None = None
    cut: bool = False
    """The table has newer versions, after the moment that was asked for."""


def as_names(given: Names | None, *, what: str) -> list[str]:
    """The names as a list, also of a single name. Raises ConfigError for one that is no text, or empty."""
    found = [given] if isinstance(given, str) else list(given or ())
    for name in found:
        if not isinstance(name, str) or not name:
            raise ConfigError(f"{name!r} is not the name of a {what}", hint=f"give names of {what}s")
    return found


def look_up(
    spark: SparkSession | None, schemas: Names | None, tables: Tables | None, *, until: datetime | None = None
) -> dict[str, Latest | TidegaugeError]:
    """Every table's newest version from its own log, many at once; no Spark job. With `until`, the newest
    that was committed up to then; a table that had none yet is left out."""
    places = _find_places(spark, schemas, tables)
    found = {name: _latest(answer) for name, answer in read_newest_of_many(places).items()}
    if until is None:
        return found
    cut = {name: _cut_at_moment(places[name], answer, until) for name, answer in found.items()}
    return {name: answer for name, answer in cut.items() if answer is not None}


def _find_places(spark: SparkSession | None, schemas: Names | None, tables: Tables | None) -> dict[str, str]:
    wanted = as_names(schemas, what="schema")
    places: dict[str, str] = {}
    named: list[str] = []
    if isinstance(tables, Mapping):
        places = {str(name): str(path) for name, path in tables.items()}
    elif spark is None:
        places = {name: name for name in as_names(tables, what="table")}
    else:
        named = as_names(tables, what="table")
    if wanted and spark is None:
        raise ConfigError(
            f"only a catalogue knows which tables the schema '{wanted[0]}' has",
            hint="give spark=…, or tables={name: path}, or latest_versions={name: version}",
        )
    if not wanted and not named and not places:
        raise ConfigError(
            "nothing says which tables are meant", hint="give schemas, tables={name: path} or latest_versions"
        )
    if spark is not None and (wanted or named):
        places = locate(spark, wanted, named) | places
    return places


def _cut_at_moment(
    location: str, found: Latest | TidegaugeError, until: datetime
) -> Latest | TidegaugeError | None:
    """The table's newest version up to a moment; None if it had none then."""
    if isinstance(found, TidegaugeError):
        return found
    if found.commit_timestamp is not None and found.commit_timestamp <= until:
        return found
    try:
        version = version_at(location, until)
        # The columns of that version are not known, so the schema_version of the last plan stays.
        return Latest(version, found.table_id, "", commit_time(location, version), cut=True)
    except SourceUnreachable as error:
        return error
    except SourceError:
        return None


def read_given(
    versions: Mapping[str, Any], schemas: Names | None, tables: Tables | None
) -> dict[str, Latest]:
    """The versions that the caller gives, narrowed to the schemas and tables. A value is a number, or a
    NewestVersion, or any object that has a `version`."""
    wanted = as_names(schemas, what="schema")
    named = set(as_names(list(tables) if isinstance(tables, Mapping) else tables, what="table"))
    found = {}
    for name, value in versions.items():
        if not isinstance(name, str) or not name:
            raise ConfigError(f"{name!r} is not the name of a table", hint="give {name: version}")
        if wanted and not any(is_in_schema(name, schema) for schema in wanted):
            continue
        if named and name not in named:
            continue
        found[name] = Latest(
            _version(name, getattr(value, "version", value)),
            str(getattr(value, "table_id", "") or ""),
            str(getattr(value, "schema_version", "") or ""),
            getattr(value, "commit_timestamp", None),
        )
    return found


def is_in_schema(table: str, schema: str) -> bool:
    """`bronze.orders`, and `main.bronze.orders`, are of the schema `bronze`."""
    return table.startswith(f"{schema}.") or f".{schema}." in table


def raise_first(found: Mapping[str, Latest | TidegaugeError]) -> dict[str, Latest]:
    """The tables that were found. Raises the error of the first one that could not be read."""
    for answer in found.values():
        if isinstance(answer, TidegaugeError):
            raise answer
    return {name: answer for name, answer in found.items() if isinstance(answer, Latest)}


def _latest(found: NewestVersion | TidegaugeError) -> Latest | TidegaugeError:
    if isinstance(found, TidegaugeError):
        return found
    return Latest(found.version, found.table_id, found.schema_version, found.commit_timestamp)


def _version(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ConfigError(
            f"{name}: {value!r} is not a version", hint="a version is a whole number, and 0 is the first"
        )
    return value
