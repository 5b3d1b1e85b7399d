"""The versions of a Delta table that were not read yet, from its log alone: no Spark job, many tables at
once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

from tidegauge.delta_log.commit import Commit, parse_commit, time_of
from tidegauge.delta_log.files import find_missing, paths_of
from tidegauge.delta_log.location import each, lake_of, missing_error, translate_errors
from tidegauge.delta_log.log import ListedLog
from tidegauge.delta_log.protocol import TableState, refuse_catalogue, refuse_unreadable
from tidegauge.errors import ConfigError, SourceError, TidegaugeError
from tidegauge.model.spec import Lake
from tidegauge.model.versions import DeltaHistory, Version, has_feed

_CHUNK = 64


def history(location: str, *, after: int | None, storage: Lake | None = None) -> DeltaHistory:
    """The table at a local path, `file:` or `s3a://` location, and each version after `after`.

    `after` None: every version whose commit still exists. With `model.versions.LATEST`, or any version
    that is not below the newest, only the table's present is read. `storage` has the endpoint, region and
    keys for S3. Raises TableMissing, SourceUnreachable, or SourceError for a log that cannot be understood
    and for a feature that cannot be read.
    """
    lake = lake_of(location, storage)
    with translate_errors(location):
        log = ListedLog(lake)
        if log.latest is None:
            raise missing_error(location, lake)
        begin = min(log.commits, default=log.latest) - 1 if after is None else after
        versions, state = _read_versions(location, lake, log, begin, log.latest)
        newest = log.commit(log.latest)
        refuse_unreadable(location, state)
        return DeltaHistory(
            location=location,
            table_id=state.table_id,
            latest=log.latest,
            at=time_of(newest) if newest else None,
            digest=state.digest,
            schema=state.schema,
            earliest=min(log.commits, default=log.latest + 1),
            read_at=datetime.now(UTC),
            after=after,
            versions=versions,
            partition_by=tuple(state.metadata.get("partitionColumns") or ()),
            properties=state.properties,
            reader=state.protocol["minReaderVersion"],
            features=state.features,
            readable=partial(_is_readable, location, lake),
        )


def histories(
    wanted: Mapping[str, tuple[str, int | None, Lake | None]], parallel: int = 16
) -> dict[str, DeltaHistory | TidegaugeError]:
    """The history of each table, read at once. `wanted`: by name, the table's location, `after` and storage.
    An error of one table is returned as its answer, and does not stop the others."""
    return each(
        {
            name: partial(history, location, after=after, storage=storage)
            for name, (location, after, storage) in wanted.items()
        },
        parallel=parallel,
    )


def version_at(location: str, timestamp: str | datetime, storage: Lake | None = None) -> int:
    """The newest version committed at or before a moment, by the commits' own times.

    A moment without a zone is in UTC. Raises SourceError, which names the range, for a moment before the
    oldest commit that still exists, or in the future; and for a table that is committed through a catalogue.
    """
    wanted = _parse_moment(timestamp)
    lake = lake_of(location, storage)
    with translate_errors(location):
        log = ListedLog(lake)
        if log.latest is None:
            raise missing_error(location, lake)
        if (state := log.state(log.latest)) is not None:
            refuse_catalogue(location, state.features, hint="give the version itself")
        oldest = None
        numbers = sorted(log.commits, reverse=True)
        future = wanted > datetime.now(UTC)
        for start in range(0, len(numbers), _CHUNK):
            chunk = numbers[start : start + _CHUNK]
            for number, body in zip(chunk, log.bodies(chunk), strict=True):
                at = time_of(body) if body else None
                if at is not None and at <= wanted and not future:
                    return number
                oldest = (number, at) if at is not None else oldest
        newest = log.commit(log.latest)
        last = time_of(newest) if newest else None
    reach = (
        f"its log goes from version {oldest[0]} ({_show(oldest[1])}) to version {log.latest} ({_show(last)})"
        if oldest
        else "no commit in its log says when it was made"
    )
    raise SourceError(
        f"the Delta table at {location} has no version of {_show(wanted)}: {reach}",
        hint="give a moment within that range, or a version",
    )


def commit_time(location: str, version: int, storage: Lake | None = None) -> datetime | None:
    """When a version was committed, as its commit says; None where the commit does not say, or is gone."""
    with translate_errors(location):
        body = ListedLog(lake_of(location, storage)).commit(version)
        return time_of(body) if body else None


def _read_versions(
    location: str, lake: Lake, log: ListedLog, after: int, latest: int
) -> tuple[tuple[Version, ...], TableState]:
    """The versions after `after`, and the table's state at `latest`."""
    numbers = range(after + 1, latest + 1)
    state = log.state(after) if after < latest else None
    found: list[Version] = []
    needed: dict[int, list[str]] = {}
    for number, body in zip(numbers, log.bodies(numbers), strict=True):
        if body is None:
            found.append(Version(number, None, True, False, 0, False, None, None, absent=True))
            state = None
            continue
        commit = parse_commit(number, body)
        state = state.after(commit.facts) if state else log.state(number)
        if state is not None and "protocol" in commit.facts:
            refuse_unreadable(location, state)
        version = _make_version(commit, state)
        if version.feed or version.only_adds:
            needed[number] = [path for action in commit.needed for path in paths_of(action)]
        found.append(version)
    state = state or log.state(latest)
    if state is None:
        raise ValueError(_describe_gap(log, latest))
    return tuple(_note_missing(lake, found, needed)), state


def _make_version(commit: Commit, state: TableState | None) -> Version:
    return Version(
        number=commit.version,
        at=commit.at,
        changes=commit.changes,
        only_adds=commit.only_adds,
        bytes=sum(action.get("size") or 0 for action in commit.needed),
        feed=state is not None and has_feed(state.properties),
        digest=state.digest if state else None,
        table_id=state.table_id if state else None,
        key=commit.key,
    )


def _note_missing(lake: Lake, found: list[Version], needed: Mapping[int, list[str]]) -> list[Version]:
    """The versions, each with the paths of the files that it needs and that do not exist."""
    lost = find_missing(lake, (path for paths in needed.values() for path in paths))
    if not lost:
        return found
    return [
        replace(one, missing=tuple(path for path in needed.get(one.number, ()) if path in lost))
        for one in found
    ]


def _is_readable(location: str, lake: Lake, version: int) -> bool:
    with translate_errors(location):
        files = ListedLog(lake).files(version)
        return files is not None and not find_missing(
            lake, (path for file in files for path in paths_of(file))
        )


def _describe_gap(log: ListedLog, latest: int) -> str:
    lost = next((number for number in range(latest, -1, -1) if number not in log.commits), None)
    return (
        "no commit says what columns the table has"
        if lost is None
        else f"commit {lost} is missing, and no checkpoint stands for it"
    )


def _parse_moment(text: str | datetime) -> datetime:
    try:
        moment = text if isinstance(text, datetime) else datetime.fromisoformat(text.strip())
    except ValueError:
        raise ConfigError(
            f"'{text}' is neither a version nor a moment",
            hint="write a version (12), a day (2025-08-14) or a moment (2025-08-14 15:30:22)",
        ) from None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _show(moment: datetime | None) -> str:
    return moment.strftime("%Y-%m-%d %H:%M:%S UTC") if moment else "at a time that it does not say"
