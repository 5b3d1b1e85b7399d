"""The text of a Spark error, including its Java causes."""

from __future__ import annotations

import re

_MANY = 20
_CALL = re.compile(r"An error occurred while calling \S+\.\s*(?:Trace:)?\s*(?:: )?")


def without_call(text: str) -> str:
    """Remove Py4J's introduction that names the object it called; the cause follows it."""
    return _CALL.sub("", text, count=1)


def with_causes(error: BaseException) -> str:
    """Return the message with those of its Java causes, which PySpark's exceptions do not show."""
    parts = [str(error)]
    origin = getattr(error, "_origin", None) or getattr(error, "java_exception", None)
    while origin is not None and len(parts) < _MANY:
        parts.append(f"Caused by: {origin.toString()}")
        origin = origin.getCause()
    return "\n".join(parts)
