"""Passes values with their secrets, and Tidegauge's errors, between this process and Spark's tasks."""

from __future__ import annotations

import io
import json
import pickle
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from tidegauge.errors import TidegaugeError, TypeNotHeld
from tidegauge.model.secret import Secret, mask

_OURS = "tidegauge: "
FAILED = "tidegauge-failed: "
"""Prefix of a task's error text where the rest is an error of Tidegauge's as JSON."""
_MEND = "mend the row at the source, or say how the column shall arrive with `types:`"

_Result = TypeVar("_Result")


class _Sealer(pickle.Pickler):
    """Pickles secrets too, for a task that has to show them to a server; elsewhere no secret is pickled."""

    def reducer_override(self, value: Any) -> Any:
        return (Secret, (value.reveal(),)) if isinstance(value, Secret) else NotImplemented


def pickle_with_secrets(value: object) -> bytes:
    body = io.BytesIO()
    _Sealer(body, protocol=pickle.HIGHEST_PROTOCOL).dump(value)
    return body.getvalue()


def unpickle_with_secrets(body: bytes) -> Any:
    """The value that `pickle_with_secrets` was given; called in the task."""
    return pickle.loads(body)  # noqa: S301 - our own, a moment ago


def try_work(work: Callable[[], _Result]) -> tuple[_Result | None, str | None]:
    """The result of `work`, or an error of Tidegauge's as text, so that the error keeps its class and Spark
    does not repeat the task. Raises other errors."""
    try:
        return work(), None
    except TidegaugeError as error:
        return None, _describe(error)
    except Exception as error:
        text = mask(str(error))
        if _OURS not in text:
            raise
        return None, _describe(TypeNotHeld(text.partition(_OURS)[2].splitlines()[0], hint=_MEND))


def raise_any(failures: Iterable[str | None]) -> None:
    """Raise the error of a failed task, if there is one; of several, one that no retry would mend."""
    errors = [json.loads(failure) for failure in failures if failure is not None]
    if errors:
        worst = next((one for one in errors if not one["retryable"]), errors[0])
        kinds = {kind.__name__: kind for kind in _subclasses(TidegaugeError)}
        kind = kinds.get(worst["type"], TidegaugeError)
        raise kind(worst["message"], hint=worst["hint"], retryable=worst["retryable"])


def _describe(error: TidegaugeError) -> str:
    facts = {"type": error.type, "message": error.message, "hint": error.hint, "retryable": error.retryable}
    return json.dumps(facts)


def _subclasses(kind: type[TidegaugeError]) -> Iterator[type[TidegaugeError]]:
    yield kind
    for narrower in kind.__subclasses__():
        yield from _subclasses(narrower)
