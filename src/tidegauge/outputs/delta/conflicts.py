"""Errors that Spark and Delta throw at a commit: which are worth another try, and ours for all others."""

from __future__ import annotations

import re

from tidegauge.errors import (
    OutputDisagrees,
    OutputError,
    SparkFailed,
    TidegaugeError,
    TransformFailed,
    VersionsMissing,
)
from tidegauge.model.secret import mask
from tidegauge.model.spark_causes import with_causes
from tidegauge.spark import hadoop
from tidegauge.spark.errors import last_cause

_CONFLICT = re.compile(
    r"DELTA_CONCURRENT_|DELTA_METADATA_CHANGED|DELTA_PROTOCOL_CHANGED|DELTA_SCHEMA_CHANGE"
    r"|Concurrent\w+Exception|CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND|Checkpoint block"
    r"|MetadataChangedException|ProtocolChangedException|DELTA_INVALID_COMMITTED_VERSION"
)
_OPERATION = re.compile(r'"operation"\s*:\s*"([^"]+)"')
_REQUIRED = re.compile(r"DELTA_NOT_NULL_CONSTRAINT_VIOLATED\S* .*?column:? ([^\n]*?)\.?\s*(?:SQLSTATE|\n|$)")
_CHECK = re.compile(r"CHECK constraint (.*?) violated by row", re.DOTALL)
_GONE = re.compile(
    r"DELTA_FILE_NOT_FOUND|FILE_NOT_EXIST|FileNotFoundException|DELTA_CHANGE_DATA_FILE_NOT_FOUND"
)
_USER = re.compile(
    r"PythonException|FAILED_EXECUTE_UDF|DIVIDE_BY_ZERO|CAST_INVALID_INPUT|CAST_OVERFLOW|ARITHMETIC_OVERFLOW"
    r"|USER_RAISED_EXCEPTION|INVALID_ARRAY_INDEX|NUMERIC_VALUE_OUT_OF_RANGE|CANNOT_PARSE_TIMESTAMP"
)
_RAISED = re.compile(r"^(\w+(?:Error|Exception): .*)$", re.MULTILINE)


class CommitOvertaken(Exception):
    """Somebody else has committed since the target was looked at."""


def is_conflict(error: BaseException) -> bool:
    """Whether somebody else committed first, so that the same batch may succeed when it is tried again."""
    return (
        isinstance(error, CommitOvertaken) or _CONFLICT.search(_find_messages(with_causes(error))) is not None
    )


def translate_conflict(error: BaseException, place: str) -> TidegaugeError:
    """Our error for a commit that failed."""
    detail = mask(with_causes(error))
    text = _find_messages(detail)
    if isinstance(error, CommitOvertaken) or _CONFLICT.search(text):
        other = _OPERATION.search(text)
        by = f" ({other[1]})" if other else ""
        return OutputError(
            f"another writer{by} kept committing to {place} at the same time",
            hint="run again: nothing of this batch is there",
            retryable=True,
            detail=detail,
        )
    if "DELTA_REPLACE_WHERE_MISMATCH" in text:
        return TransformFailed(
            f"the transform gave rows for {place} that lie in none of the partitions it touches",
            hint="partition_by must name columns that the transform computes from the same input rows",
            detail=detail,
        )
    if found := _REQUIRED.search(text):
        return OutputDisagrees(
            f"the column {found[1]} of {place} must not be NULL, and a row of the transform has none",
            hint="mend the transform, or ALTER TABLE … ALTER COLUMN … DROP NOT NULL",
            detail=detail,
        )
    if found := _CHECK.search(text):
        return OutputDisagrees(
            f"a row of the transform breaks the CHECK constraint {' '.join(found[1].split())} of {place}",
            hint="mend the transform, or drop the constraint",
            detail=detail,
        )
    if isinstance(error, Exception) and (known := hadoop.translate_hadoop_error(error, place)):
        return known
    cause = last_cause(text)
    if _GONE.search(text):
        return VersionsMissing(
            f"a file that the batch for {place} has to read is gone ({cause})",
            hint="it was vacuumed: look at `tidegauge plan`, which says what can be done",
            detail=detail,
        )
    if _USER.search(text):
        raised = _RAISED.findall(text) if "PythonException" in text else []
        return TransformFailed(
            f"the transform for {place} failed: {raised[-1] if raised else cause}",
            hint="mend the transform or the row, then run again: the same window is read once more",
            detail=detail,
        )
    return SparkFailed(
        f"{place}: {cause}", hint="run again with --debug for the whole Java stack trace", detail=detail
    )


def _find_messages(text: str) -> str:
    """The text without the lines of a stack trace, whose class names would be taken for causes."""
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("at "))
