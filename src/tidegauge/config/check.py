"""Checks a part of a document against the keys it may have; each mistake becomes a problem with its place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from tidegauge.config.document import YamlDocument
from tidegauge.config.forms import Keys
from tidegauge.config.problems import InvalidValue, KeyPath, Problem, as_error, must, nearest, quoted
from tidegauge.config.secrets import interpolate, references
from tidegauge.errors import Place

_T = TypeVar("_T")
_K = TypeVar("_K", bound=Keys)

# `null` means "as if left out" everywhere but under this key, where it is a value.
_NULL_IS_A_WORD = "zero_dates"
# Complaints about the ledger's address never quote what a reference brought in, so they need no change.
_LEDGER_ADDRESS: KeyPath = ("ledger",)


class Problems:
    """Gathers problems instead of stopping at the first; `finish` raises them as one error."""

    def __init__(self, document: YamlDocument, problems: list[Problem] | None = None) -> None:
        self.document = document
        self.problems: list[Problem] = [] if problems is None else problems
        self._unresolved: dict[Place, Problem] = {}

    def resolve_references(self) -> dict[str, Any]:
        """The document's values with references resolved. One that cannot be resolved is None, and a problem;
        what else is found wrong at its place only follows from that, and is not reported."""
        tree = interpolate(self.document, self.problems)
        self._unresolved = {problem.place: problem for problem in self.problems}
        return tree

    def beside(self, document: YamlDocument) -> Problems:
        """The Problems of another document of the same project, which go to the same list."""
        return Problems(document, self.problems)

    def finish(self) -> None:
        if self.problems:
            raise as_error([one for one in self.problems if self._unresolved.get(one.place, one) == one])

    def keys(self, model: type[_K], value: Any, trail: KeyPath) -> _K | None:
        """The value as an instance of `model`, or None when it has problems."""
        if not isinstance(value, dict):
            self.require("be a mapping of keys to values", trail)
            return None
        given = {
            key: ("null" if item is None else item)
            for key, item in value.items()
            if item is not None or key == _NULL_IS_A_WORD
        }
        details: list[ErrorDetails] = []
        try:
            return model.model_validate(given)
        except ValidationError as error:
            details = error.errors(include_url=False, include_input=False)
        for detail in details:
            self._translate(model, detail, trail)
        return None

    def attempt(self, action: Callable[[], _T], trail: KeyPath) -> _T | None:
        """What the action returns; None if it raised an InvalidValue, which is then noted at this place."""
        try:
            return action()
        except InvalidValue as complaint:
            self._complain(complaint, trail)
            return None

    def first_written(self, *trails: KeyPath) -> KeyPath:
        """The first of these trails that is in the document; the last one if none is."""
        return next((trail for trail in trails if trail in self.document.values), trails[-1])

    def require(self, expected: str, trail: KeyPath, *, hint: str | None = None) -> None:
        """Note what the value at this place must be."""
        self._complain(must(expected, hint=hint), trail)

    def add(
        self,
        message: str,
        trail: KeyPath,
        *,
        hint: str | None = None,
        at_key: bool = False,
        expected: str | None = None,
    ) -> None:
        """Note a problem. The message is not shown where references brought the value in, as it may quote it;
        `expected`, what the value must be, is."""
        if at_key:
            self.problems.append(Problem(_name_key(message, trail), self.document.key_place(trail), hint))
            return
        written = self.document.written(trail)
        if isinstance(written, str) and trail != _LEDGER_ADDRESS:
            message = _hide_value(message, expected, references(written))
        self.problems.append(Problem(_name_key(message, trail), self.document.place(trail), hint))

    def unknown_key(self, key: str, valid: list[str], later: dict[str, str], trail: KeyPath) -> None:
        if key in later:
            self.add(f"the key `{key}` does not belong here", trail, hint=later[key], at_key=True)
            return
        close = nearest(key, valid)
        listed = ", ".join(f"`{word}`" for word in valid)
        hint = f"did you mean `{close}`?" if close else f"keys here are: {listed}"
        self.add(f"unknown key {quoted(key)}", trail, hint=hint, at_key=True)

    def _translate(self, model: type[Keys], detail: ErrorDetails, trail: KeyPath) -> None:
        where = (*trail, *detail["loc"])
        if detail["type"] == "extra_forbidden":
            self.unknown_key(str(where[-1]), key_names(model), model.later, where)
        elif detail["type"] == "missing":
            key = where[-1]
            if where not in self.document.values:
                self.add(f"the key `{key}` is missing", trail, hint=f"add `{key}: …`", at_key=True)
            else:
                self.add(f"the key `{key}` needs a value, not null", where)
        else:
            error = detail.get("ctx", {}).get("error")
            assert isinstance(error, InvalidValue), detail["type"]
            self._complain(error, where)

    def _complain(self, complaint: InvalidValue, trail: KeyPath) -> None:
        where = (*trail, *complaint.trail)
        self.add(
            complaint.message,
            where,
            hint=complaint.hint,
            at_key=complaint.at_key,
            expected=complaint.expected,
        )


def key_names(model: type[Keys]) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()]


def _hide_value(message: str, expected: str | None, brought_in_by: list[str]) -> str:
    """A message that does not quote the value, which may be secret if references brought it in."""
    if not brought_in_by:
        return message
    who = ", ".join(quoted(reference) for reference in brought_in_by)
    if expected is not None:
        return f"this must {expected}, which is not what {who} brings in"
    return f"this cannot be what {who} brings in"


def _name_key(message: str, trail: KeyPath) -> str:
    """The message with the key's name, if it did not have it."""
    name = next((part for part in reversed(trail) if isinstance(part, str)), None)
    if name is None or f"`{name}`" in message:
        return message
    return f"{quoted(name)}{message[4:]}" if message.startswith("this ") else message
