"""What passes between this process and Spark's tasks: values with their secrets, and errors of ours."""

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
"""What the text of a task's error begins with, where that is an error of ours as JSON."""
_MEND = "mend the row at the source, or say how the column shall arrive with `types:`"

_Result = TypeVar("_Result")


class _Sealer(pickle.Pickler):
    """Lets a secret go along, for a task that has to show it to a server; elsewhere none is pickled."""

    def reducer_override(self, value: Any) -> Any:
        return (Secret, (value.reveal(),)) if isinstance(value, Secret) else NotImplemented


def seal(value: object) -> bytes:
    body = io.BytesIO()
    _Sealer(body, protocol=pickle.HIGHEST_PROTOCOL).dump(value)
    return body.getvalue()


def unseal(body: bytes) -> Any:
    """What `seal` was given, in the task."""
    return pickle.loads(body)  # noqa: S301 - our own, a moment ago


def try_work(work: Callable[[], _Result]) -> tuple[_Result | None, str | None]:
    """The result, or an error of ours as text: so it keeps its class, and Spark does not repeat the task."""
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
    """Raise the error of a task, if any failed; of several, one that trying again would not mend."""
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
