"""The newest version of a Delta table, its id and its schema, from the log alone: no Spark job, many tables
at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from tidegauge.delta_log.commit import LOG, moment, schema_digest, time_of
from tidegauge.delta_log.delta_rs import address, is_panic, library, one_line, options
from tidegauge.delta_log.location import damaged_error, each, lake_of, missing_error, unreachable
from tidegauge.delta_log.log import ListedLog
from tidegauge.delta_log.protocol import refuse_catalogue, refuse_newer_protocol
from tidegauge.errors import OutputError, SourceError, TidegaugeError
from tidegauge.model.spec import Lake
from tidegauge.storage.store import Store

_GIVE_VERSIONS = "give the latest versions yourself (latest_versions)"


@dataclass(frozen=True)
class NewestVersion:
    location: str
    version: int
    table_id: str
    """The id in the table's metadata. A table that is dropped and made anew has another one."""
    schema_version: str
    """A digest that changes when a column's name, type or nullability does, and with nothing else."""
    commit_timestamp: datetime
    """When this version was committed: in UTC, and timezone-aware."""


def read_newest(location: str, *, storage: Lake | None = None) -> NewestVersion:
    """The newest version of the table at a local path, `file:` or `s3a://` location.

    `storage` has the endpoint, region and keys for S3; what it leaves out comes from the environment. Raises
    TableMissing, SourceUnreachable, or SourceError for a log that cannot be understood.
    """
    lake = lake_of(location, storage)
    deltalake = library()
    try:
        table = deltalake.DeltaTable(address(lake), storage_options=options(lake))
        known = table.protocol()
        features = [*(known.reader_features or ()), *(known.writer_features or ())]
        refuse_catalogue(location, features, hint=_GIVE_VERSIONS)
        at = moment(table.history(1)[0])
        if at is None:
            raise ValueError("the newest commit does not say when it was made")
        return NewestVersion(
            location=location,
            version=table.version(),
            table_id=str(table.metadata().id),
            schema_version=schema_digest(table.schema().to_json()),
            commit_timestamp=at,
        )
    except deltalake.exceptions.TableNotFoundError as error:
        raise missing_error(location, lake, error) from error
    except (deltalake.exceptions.DeltaError, KeyError, IndexError, ValueError) as error:
        # A feature or a path that the library does not know, a commit without a time, or real damage.
        return _read_from_log_files(location, lake, error)
    except OSError as error:
        raise unreachable(location, error) from error
    except BaseException as error:
        if not is_panic(error):
            raise
        raise SourceError(
            f"the Delta table at {location} cannot be read here: {one_line(error)}",
            hint="start processes by `spawn` or `forkserver`; delta-rs does not survive a fork",
        ) from error


def read_newest_of_many(
    tables: Mapping[str, str], *, storage: Lake | None = None, parallel: int = 16
) -> dict[str, NewestVersion | TidegaugeError]:
    """The newest version of each table by its name, read at once. An error of one table is returned as its
    answer, and does not stop the others."""
    if not tables:
        return {}
    library()  # once, before the threads
    return each(
        {name: partial(read_newest, location, storage=storage) for name, location in tables.items()},
        parallel=parallel,
    )


def _read_from_log_files(location: str, lake: Lake, error: Exception) -> NewestVersion:
    """The same as `read_newest`, from the log's files, for a table that the library cannot open."""
    try:
        log = ListedLog(lake)
        version = log.latest
        if version is None:
            raise missing_error(location, lake, error) from error
        state = log.state(version)
        if state is None:
            raise damaged_error(location, error) from error
        at = time_of(log.commit(version) or b"") or _modified_at(log.store, version)
    except OutputError as refused:
        raise unreachable(location, refused) from refused
    except (ValueError, KeyError, StopIteration, OSError) as damage:
        raise damaged_error(location, error) from damage
    try:
        refuse_newer_protocol(location, state, hint="update tidegauge and deltalake")
    except SourceError as refused:
        raise refused from error
    refuse_catalogue(location, state.features, hint=_GIVE_VERSIONS)
    return NewestVersion(location, version, state.table_id, state.digest, at)


def _modified_at(store: Store, version: int) -> datetime:
    """The time of the commit's file, for a commit that has none inside."""
    names = {f"{LOG}/{version:020}.{kind}" for kind in ("json", "checkpoint.parquet")}
    return next(entry.modified for entry in store.list(LOG) if entry.path in names)
