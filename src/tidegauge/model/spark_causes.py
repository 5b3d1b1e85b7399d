"""What an error of Spark's says, its Java causes included."""

from __future__ import annotations

import re

_MANY = 20
_CALL = re.compile(r"An error occurred while calling \S+\.\s*(?:Trace:)?\s*(?:: )?")


def without_call(text: str) -> str:
    """Without Py4J's own words on which of its objects was called: the cause comes after them."""
    return _CALL.sub("", text, count=1)


def with_causes(error: BaseException) -> str:
    """The message with those of its Java causes, which a captured exception does not print."""
    parts = [str(error)]
    origin = getattr(error, "_origin", None) or getattr(error, "java_exception", None)
    while origin is not None and len(parts) < _MANY:
        parts.append(f"Caused by: {origin.toString()}")
        origin = origin.getCause()
    return "\n".join(parts)
