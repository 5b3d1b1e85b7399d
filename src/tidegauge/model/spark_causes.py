"""What an error of Spark's says, its Java causes included."""

from __future__ import annotations

_MANY = 20


def with_causes(error: BaseException) -> str:
    """The message with those of its Java causes, which a captured exception does not print."""
    parts = [str(error)]
    origin = getattr(error, "_origin", None) or getattr(error, "java_exception", None)
    while origin is not None and len(parts) < _MANY:
        parts.append(f"Caused by: {origin.toString()}")
        origin = origin.getCause()
    return "\n".join(parts)
