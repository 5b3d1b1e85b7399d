"""Log lines on stderr, as text or as one JSON object each."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated

import typer

from tidegauge.model.secret import mask

if TYPE_CHECKING:
    from tidegauge.observe.events import Listener

_OPTION, _VARIABLE = "--log-format", "TIDEGAUGE_LOG_FORMAT"


class LogFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


LogFormatOption = Annotated[
    LogFormat,
    typer.Option(_OPTION, envvar=_VARIABLE, help="Log lines on stderr: for people, or a JSON object each."),
]


def logs_json() -> bool:
    """Whether log lines are JSON. Read from `sys.argv`, because errors are shown outside of the command."""
    words = sys.argv[1:]
    said = [after for word, after in pairwise(words) if word == _OPTION]
    said += [word.partition("=")[2] for word in words if word.startswith(f"{_OPTION}=")]
    return (said[-1] if said else os.environ.get(_VARIABLE)) == LogFormat.JSON


@contextmanager
def watch_here(*, debug: bool = False) -> Iterator[Listener]:
    """A listener that shows the run on stderr until the block ends; with `debug` in lines, step by step."""
    from tidegauge.observe.json_log import JsonLines
    from tidegauge.observe.progress import LogLines, watch

    with ExitStack() as opened:
        if logs_json():
            tell: Listener = JsonLines(sys.stderr)
        else:
            tell = LogLines(sys.stderr) if debug else opened.enter_context(watch(sys.stderr))
        if debug:
            from tidegauge.cli.debug import debugging

            tell = opened.enter_context(debugging(tell))
        yield tell


def log_line(text: str, *, event: str, level: str) -> str:
    """One log line without a newline: the masked text itself, or a JSON object."""
    if not logs_json():
        return mask(text)
    from tidegauge.observe.json_log import render

    return render(event=event, level=level, message=text)


def warn(text: str) -> None:
    """Write a warning to stderr: something that a person should know and that broke no run."""
    shown = text if logs_json() else f"warning: {text}"
    sys.stderr.write(log_line(shown, event="warning", level="warning") + "\n")
