"""Where the log of a Delta table is, and the errors for a log that cannot be reached or read."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from tidegauge.delta_log.commit import LOG
from tidegauge.delta_log.delta_rs import one_line
from tidegauge.errors import (
    OutputError,
    RuntimeMissing,
    SourceError,
    SourceUnreachable,
    TableMissing,
    TidegaugeError,
)
from tidegauge.model.location import resolve
from tidegauge.model.secret import mask
from tidegauge.model.spec import Lake
from tidegauge.storage.store import open_store

Answer = TypeVar("Answer")


def lake_of(location: str, storage: Lake | None) -> Lake:
    """The table's folder, with the endpoint, region and keys of `storage`. Raises SourceError for a kind of
    store that is not supported."""
    try:
        path = resolve(location)
    except ValueError as error:
        raise SourceError(
            f"the Delta table at {location} cannot be reached: {error}",
            hint="copy it to one that is supported, or name its location there",
        ) from None
    if not path.startswith("s3a://"):
        path = str(Path(path).absolute())
    return Lake("", path) if storage is None else replace(storage, path=path)


def each(asked: Mapping[str, Callable[[], Answer]], *, parallel: int) -> dict[str, Answer | TidegaugeError]:
    """Call every function at once and return the answers by table name. An error of one table is returned as
    its answer, and does not stop the others; only RuntimeMissing is raised."""

    def one(name: str) -> Answer | TidegaugeError:
        try:
            return asked[name]()
        except RuntimeMissing:
            raise
        except TidegaugeError as error:
            named = type(error)(
                f"{name}: {error.message}", hint=error.hint, retryable=error.retryable, detail=error.detail
            )
            named.__cause__ = error
            return named

    if not asked:
        return {}
    with ThreadPoolExecutor(max(1, min(parallel, len(asked)))) as pool:
        return dict(zip(asked, pool.map(one, asked), strict=True))


def missing_error(location: str, lake: Lake, error: Exception | None = None) -> SourceError:
    if lake.on_s3:
        # delta-rs also reports a missing table for a bucket that does not exist or may not be read.
        try:
            there = next(iter(open_store(lake).list(LOG)), None) is not None
        except OutputError as refused:
            return unreachable(location, refused)
    else:
        there = Path(lake.path).exists()
    sentence = f"{location} is not a Delta table" if there else f"there is no Delta table at {location}"
    return TableMissing(
        sentence,
        hint="check the location, and that this user may read it",
        detail=mask(str(error)) if error else None,
    )


def unreachable(location: str, error: Exception) -> SourceUnreachable:
    retryable = error.retryable if isinstance(error, TidegaugeError) else None
    hint = error.hint if isinstance(error, TidegaugeError) else None
    return SourceUnreachable(
        f"the log of the Delta table at {location} cannot be reached: {one_line(error)}",
        hint=hint or "check the path, the endpoint and region, the keys and the network",
        retryable=retryable,
        detail=mask(str(error)),
    )


def damaged_error(location: str, error: Exception) -> SourceError:
    return SourceError(
        f"the log of the Delta table at {location} cannot be read: {one_line(error)}",
        hint="a commit or checkpoint in its _delta_log is damaged or missing; restore it, or the table",
        detail=mask(str(error)),
    )


@contextlib.contextmanager
def translate_errors(location: str) -> Iterator[None]:
    """Raise SourceUnreachable for a log that cannot be reached, and SourceError for one that is damaged."""
    try:
        yield
    except (OutputError, OSError) as error:
        raise unreachable(location, error) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        # A file may be well-formed JSON and still not be a Delta log.
        raise damaged_error(location, error) from error
