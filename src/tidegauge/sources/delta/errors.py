"""Translates the errors of Spark and Delta when a version cannot be read into one sentence."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import unquote

from tidegauge.errors import SourceError, TableMissing, TidegaugeError, VersionsMissing
from tidegauge.model.secret import mask
from tidegauge.model.spark_causes import with_causes

_GONE = re.compile(
    r"\[FAILED_READ_FILE\.FILE_NOT_EXIST\] Encountered error while reading file (?P<read>.+?)\. File does not"
    r"|\[PATH_NOT_FOUND\] Path does not exist: (?P<path>.+?)\. SQLSTATE"
    r"|\[DELTA_(?:CHANGE_DATA_)?FILE_NOT_FOUND\w*\] .*?(?P<delta>[a-z0-9]+:/\S+)"
    r"|FileNotFoundException: (?:File |No such file or directory: )(?P<java>\S.*?)(?: does not exist.*)?$",
    re.MULTILINE,
)
_SPOILT = re.compile(
    r"Encountered error while reading file (?P<file>.+?)\. .*?"
    r"(?:ChecksumException|is not a Parquet file|Could not read footer|CorruptStatistics)",
    re.DOTALL,
)
_NO_TABLE = re.compile(
    r"\[DELTA_(?:TABLE_NOT_FOUND|PATH_DOES_NOT_EXIST|MISSING_DELTA_TABLE\w*|TABLE_ONLY_OPERATION)\]"
    r"|FileNotFoundException: [^\n]*?_delta_log(?: |$)"
)
_NO_VERSION = re.compile(
    r"\[DELTA_(?:VERSION_NOT_FOUND|NO_RECREATABLE_HISTORY_FOUND|NO_COMMITS_FOUND|LOG_FILE_NOT_FOUND\w*"
    r"|TRUNCATED_TRANSACTION_LOG|VERSIONS_NOT_CONTIGUOUS)\] (?P<said>[^\n]*)"
    r"|(?P<files>[Cc]ould not find any delta files for version [^\n]*)"
)
_NO_FEED = re.compile(r"\[DELTA_MISSING_CHANGE_DATA\].*?recorded for version \[(?P<version>\d+)\]", re.DOTALL)
_OTHER_COLUMNS = re.compile(
    r"\[DELTA_CHANGE_DATA_FEED_INCOMPATIBLE_\w+\]"
    r"|\[FAILED_READ_FILE\.PARQUET_COLUMN_DATA_TYPE_MISMATCH\] [^\n]*reading file (?P<file>\S+)\. "
)
_CHOICES = (
    "begin anew with `tidegauge watermark reset`, or choose `on_missing: rebaseline` or `diff` for this input"
)


def translate_read_error(
    error: BaseException, tables: Mapping[str, str] | None = None
) -> TidegaugeError | None:
    """The error to raise if a read failed because of a Delta table that it read; None if it did not.

    `tables` has the locations by the names that the message shall use. None also for a file that lies in none
    of them: it may be the output's own.
    """
    text = mask(with_causes(error))
    known = tables or {}
    if _NO_TABLE.search(text):
        name = _only_name(known)
        return TableMissing(
            f"there is no Delta table any more at {known[name]}"
            if name
            else "a Delta table is not there any more",
            hint="check the path, or whether somebody is making the table anew",
            detail=text,
        )
    if found := _NO_VERSION.search(text):
        said = (found["said"] or found["files"]).strip()
        return VersionsMissing(
            f"versions of {_only_name(known) or 'a table'} went before they were read: {said}",
            hint=_CHOICES,
            detail=text,
        )
    if found := _NO_FEED.search(text):
        return VersionsMissing(
            f"the change data feed of {_only_name(known) or 'a table'} was off at version {found['version']}",
            hint=_CHOICES,
            detail=text,
        )
    if found := _GONE.search(text):
        # Backslashes escape characters of a path that would make it a pattern.
        file = re.sub(r"\\([\[\]{}*?\\])", r"\1", next(part for part in found.groups() if part))
        return _make_file_error(
            VersionsMissing, "a file that its versions need is gone", file, known, hint=_CHOICES, detail=text
        )
    if found := _OTHER_COLUMNS.search(text):
        return _make_file_error(
            SourceError,
            "its columns changed so that Delta does not read its changes",
            found["file"],
            known,
            hint="begin anew with `tidegauge watermark reset`",
            detail=text,
        )
    if found := _SPOILT.search(text):
        hint = "restore the file, or the table, from a backup"
        return _make_file_error(
            SourceError, "a file of it is damaged", found["file"], known, hint=hint, detail=text
        )
    return None


def _make_file_error(
    kind: type[SourceError], what: str, file: str | None, known: Mapping[str, str], *, hint: str, detail: str
) -> SourceError | None:
    if file is None:
        return kind(f"{_only_name(known) or 'a table'}: {what}", hint=hint, detail=detail)
    # Some messages write a path as a URI, with %20 and the like, and some do not.
    paths = _drop_scheme(file), unquote(_drop_scheme(file))
    name = next(
        (one for one, place in known.items() if any(p.startswith(_drop_scheme(place) + "/") for p in paths)),
        None,
    )
    if known and name is None:
        return None
    return kind(f"{name}: {what}: {file}" if name else f"{what}: {file}", hint=hint, detail=detail)


def _only_name(known: Mapping[str, str]) -> str | None:
    return next(iter(known)) if len(known) == 1 else None


def _drop_scheme(place: str) -> str:
    """A path without its scheme."""
    return re.sub(r"^[a-z0-9]+:(?=/)", "", place).strip("/")
