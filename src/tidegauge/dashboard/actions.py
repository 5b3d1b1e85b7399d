"""The actions that an operator can ask for on a page, and the command line that does each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from tidegauge.errors import ConfigError
from tidegauge.flows.names import is_pattern, table_of
from tidegauge.model.select_words import TAG


class ActionKind(StrEnum):
    RETRY = "retry"
    SUSPEND = "suspend"
    RESUME = "resume"
    SET = "set"
    RESET = "reset"
    VERIFY = "verify"

    @property
    def moves(self) -> bool:
        """Whether it changes the watermark, so that a preview comes first, which the command must match."""
        return self in (ActionKind.SET, ActionKind.RESET)

    @property
    def changes(self) -> bool:
        """Whether it needs a reason, and a flow that no runner holds."""
        return self is not ActionKind.VERIFY


@dataclass(frozen=True)
class ActionRequest:
    kind: ActionKind
    flow: str
    reason: str = ""
    timestamp: str = ""
    position: str = ""
    force: bool = False
    seen: str = ""
    """Identifies what the user saw before agreeing: the preview, or where the flow stood."""

    @classmethod
    def read(cls, form: Mapping[str, str]) -> ActionRequest:
        """The request that a form holds. Raises ConfigError for an unknown kind of action."""
        try:
            kind = ActionKind(form.get("do", ""))
        except ValueError:
            kinds = ", ".join(ActionKind)
            raise ConfigError("there is no such action", hint=f"there are {kinds}") from None
        return cls(
            kind,
            form.get("name", ""),
            form.get("reason", "").strip(),
            form.get("timestamp", "").strip(),
            form.get("position", "").strip(),
            bool(form.get("force")),
            form.get("seen", ""),
        )

    @property
    def fields(self) -> dict[str, str]:
        """The hidden fields of a form that asks for this action again."""
        found = {"do": self.kind.value, "name": self.flow, **self._target}
        return {name: text for name, text in found.items() if text}

    @property
    def as_preview(self) -> ActionRequest:
        return replace(self, reason="", force=False, seen="")

    @property
    def _target(self) -> dict[str, str]:
        return {"timestamp": self.timestamp, "position": self.position}

    def to_words(self, *, preview: bool = False) -> list[str]:
        """The command's arguments, without --project. Each value is in one word with its option: a name may
        begin with a hyphen."""
        reason = [f"--reason={self.reason}"] if self.kind.changes and not preview else []
        match self.kind:
            case ActionKind.RETRY | ActionKind.VERIFY:
                return [self.kind.value, f"--select={self.flow}", *reason]
            case ActionKind.SUSPEND | ActionKind.RESUME:
                return ["schedule", self.kind.value, *reason, "--", self.flow]
            case ActionKind.SET | ActionKind.RESET:
                target = [f"--{name}={text}" for name, text in self._target.items() if text]
                how = ["--dry-run"] if preview else ["--yes", f"--previewed={self.seen}"]
                force = ["--force"] if self.force and self.kind is ActionKind.SET and not preview else []
                words = ["watermark", self.kind.value, f"--select={self.flow}"]
                return [*words, *target, *reason, *how, *force]


def check_means_one(flow: str, flows: Sequence[str]) -> None:
    """Raise ConfigError if a command would take this flow's name for several flows or for a pattern."""
    special = is_pattern(flow) or flow.startswith((TAG, "+")) or flow.endswith("+") or "\0" in flow
    others = [one for one in flows if one != flow and _is_taken_for(flow, one)]
    if special or others:
        means = (
            f"means {', '.join([flow, *others[:3]])} to a command" if others else "is a pattern to a command"
        )
        raise ConfigError(
            f"'{flow}' {means}, so it cannot be acted on from here",
            hint="type the command, with words that mean this flow alone",
        )


def _is_taken_for(word: str, flow: str) -> bool:
    table = table_of(flow)
    return table == word or table.endswith(f".{word}")
