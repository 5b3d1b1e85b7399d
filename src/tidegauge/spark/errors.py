"""Turns errors of Spark and Java into Tidegauge's: a sentence with the last cause; `--debug` shows the
rest."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from tidegauge.errors import (
    OutputUnreachable,
    RuntimeMissing,
    SourceUnreachable,
    SparkFailed,
    TidegaugeError,
    TypeNotHeld,
)
from tidegauge.model.secret import mask
from tidegauge.model.spark_causes import without_call
from tidegauge.spark.task_values import FAILED, raise_any

_CAUSE = re.compile(r"Caused by: ([\w.$]+)(?:: ([^\n]*))?")
_LEADING_CLASS = re.compile(r"^(?:[a-z][\w$]*\.)+[\w$]+: ")
_ERROR_CLASS = re.compile(r"^\[[A-Z0-9_.]+\] ")
_SQLSTATE = re.compile(r"\s*SQLSTATE: \w+.*$", re.DOTALL)
_OURS = re.compile(r"tidegauge: ([^\n]*?)(?:\s*SQLSTATE: \w+)?\s*$", re.MULTILINE)

_WORKER = "An exception was thrown from the Python worker"
_RAISED = re.compile(r"^((?:\w+\.)*\w*(?:Error|Exception|Warning|Interrupt|Exit)(?::[^\n]*)?)$", re.MULTILINE)
_LACKING = re.compile(r"ModuleNotFoundError: No module named '(tidegauge|pyarrow|pyspark|pandas)\b")

_SPLIT = re.compile(re.escape(FAILED) + r"(\{.*?\})\s*$", re.MULTILINE)


@contextmanager
def translate_spark_error(flow: str) -> Iterator[None]:
    """Turn errors of this flow's Spark jobs into Tidegauge's own."""
    try:
        yield
    except TidegaugeError:
        raise
    except Exception as error:
        raise from_spark(error, flow) from error


def from_spark(error: BaseException, table: str) -> TidegaugeError:
    text = mask(_with_causes(error))
    if failed := _SPLIT.search(text):
        try:
            raise_any([failed[1]])
        except TidegaugeError as found:
            return found
    if ours := _OURS.search(text):
        return TypeNotHeld(
            ours.group(1),
            hint="mend the row at the source, or say how the column shall arrive with `types:`",
            detail=text,
        )
    cause = last_cause(text)
    if lacking := _LACKING.search(text):
        return RuntimeMissing(
            f"{table}: the Python of Spark's tasks has no module {lacking[1]}",
            hint="set PYSPARK_PYTHON to a Python that has tidegauge, by the same path on every machine of the"
            " cluster; `tidegauge doctor` says which one it is now",
            detail=text,
        )
    if isinstance(error, ConnectionError) or type(error).__name__ == "Py4JNetworkError":
        return SparkFailed(
            f"{table}: Spark's Java has ended",
            hint="run again: nothing half-written is visible; if the system killed it for want of memory, set"
            " `spark: {conf: {spark.driver.memory: …}}`",
            retryable=True,
            detail=text,
        )
    if "No space left on device" in text:
        return OutputUnreachable(
            f"{table}: the disk is full",
            hint="make room, then run again: nothing half-written is visible",
            detail=text,
        )
    if "Communications link failure" in text or "Connection refused" in text or "Connection to " in cause:
        return SourceUnreachable(
            f"{table}: the connection was lost while reading ({cause})",
            hint="run again: the same window is read once more",
            detail=text,
        )
    return SparkFailed(
        f"{table}: {cause}", hint="run again with --debug for the whole Java stack trace", detail=text
    )


def last_cause(text: str) -> str:
    """The innermost cause as one line, without class names and codes."""
    text = without_call(text)
    causes = [message or name for name, message in _CAUSE.findall(text)]
    if _WORKER in text and (raised := _RAISED.findall(text)):
        return str(raised[-1]).strip()
    line = (
        causes[-1] if causes else next((part for part in text.splitlines() if part.strip()), "unknown error")
    )
    line = _LEADING_CLASS.sub("", line.strip())
    return _SQLSTATE.sub("", _ERROR_CLASS.sub("", line)).strip() or "unknown error"


def _with_causes(error: BaseException) -> str:
    """The error's text with all its causes, which a Java throwable only gives when asked."""
    origin = getattr(error, "_origin", None) or getattr(error, "java_exception", None)
    if origin is None:
        return str(error)
    parts = [str(origin.toString())]
    seen = 0
    while (origin := origin.getCause()) is not None and seen < 20:
        parts.append(f"Caused by: {origin.toString()}")
        seen += 1
    return "\n".join([*parts, "", str(error)]) if seen else str(error)
