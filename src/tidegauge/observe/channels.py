"""Alert channels: a message to an address as Apprise has it, in bounded time, and why it did not arrive."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote

from tidegauge.errors import RuntimeMissing
from tidegauge.model.alert import AlertChannel
from tidegauge.model.secret import MASK, mask

TIMEOUT = 20.0
"""Seconds for one channel, whatever the service does."""
_SERVERS = ("json", "jsons", "xml", "xmls", "form", "forms", "mailto", "mailtos", "http", "https")
"""Kinds of address whose host is a host, and no token."""


@dataclass(frozen=True)
class Message:
    title: str
    body: str
    level: str = "failure"
    """In Apprise's words: `failure`, `warning`, `success` or `info`."""


def apprise_library() -> Any:
    """The module `apprise`. Raises RuntimeMissing where it is not installed."""
    try:
        import apprise
    except ImportError as error:
        raise RuntimeMissing(
            "alerts are sent by the library apprise, which is not installed",
            hint="run: pip install 'tidegauge[alerts]'",
        ) from error
    return apprise


def send_all(channels: Sequence[tuple[AlertChannel, Sequence[Message]]]) -> dict[str, str | None]:
    """Send each channel its messages, all channels at once; by name, why one failed, or None.

    Never raises, and never takes much longer than TIMEOUT: a channel that hangs is left behind.
    """
    try:
        library = apprise_library()
    except RuntimeMissing as error:
        return {channel.name: f"{error.message}; {error.hint}" for channel, _ in channels}
    answers: dict[str, str | None] = {
        channel.name: f"no answer within {TIMEOUT:.0f} s" for channel, _ in channels
    }

    def send(channel: AlertChannel, messages: Sequence[Message]) -> None:
        answers[channel.name] = _send(library, channel, messages)

    # Daemons: the end of the process does not wait for one that hangs.
    threads = [threading.Thread(target=send, args=each, daemon=True) for each in channels]
    with _silence():
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(TIMEOUT)
    return dict(answers)


def _send(library: Any, channel: AlertChannel, messages: Sequence[Message]) -> str | None:
    url = channel.url.reveal()
    with _listen() as said:
        try:
            service = library.Apprise.instantiate(url)
            if service is None:
                return _hide(said[0] if said else "not an address that Apprise knows", url)
            for message in messages:
                level = library.NotifyType(message.level)
                if not service.notify(title=mask(message.title), body=mask(message.body), notify_type=level):
                    return _hide(said[-1] if said else "the service did not take it", url)
        except Exception as error:  # whatever a plugin raises, it breaks no run
            return _hide(f"{type(error).__name__}: {error}", url)
    return None


@contextmanager
def _silence() -> Iterator[None]:
    """What the library logs is ours to tell: masked, and with the channel's name."""
    logger = logging.getLogger("apprise")
    before, level = logger.propagate, logger.level
    logger.propagate = False
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.propagate = before
        logger.setLevel(level)


@contextmanager
def _listen() -> Iterator[list[str]]:
    """The library's warnings of this thread; it says nothing else of why a message was not taken."""
    said: list[str] = []
    mine = threading.get_ident()

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.thread == mine:
                said.append(" ".join(record.getMessage().split()))

    handler, logger = Handler(), logging.getLogger("apprise")
    logger.addHandler(handler)
    try:
        yield said
    finally:
        logger.removeHandler(handler)


def _hide(text: str, url: str) -> str:
    """Without any part of the address but its kind and, of a server, its host."""
    scheme, _, rest = url.partition("://")
    parts = set(re.split(r"[/?&=#@:,]", rest)) - {""}
    if scheme.lower() in _SERVERS:
        host, _, port = re.split(r"[/?#]", rest)[0].rpartition("@")[2].partition(":")
        parts -= {host, port}
    text = mask(text.replace(rest, MASK))
    for part in sorted({form for one in parts for form in (one, unquote(one), quote(one))}, key=len)[::-1]:
        if len(part) > 2:
            text = re.sub(rf"(?<!\w){re.escape(part)}(?!\w)", MASK, text)
    return text[:300]
