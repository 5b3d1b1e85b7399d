"""Checks that a form was sent by a page of this server (against CSRF), and names who sent it."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping
from urllib.parse import parse_qs, urlsplit

from fastapi import Request, Response

from tidegauge.dashboard.access import Access
from tidegauge.errors import ConfigError
from tidegauge.ledger.owner import this_process

SESSION = "tidegauge-session"
FIELD = "csrf"
_LONGEST = 10_000
"""How many bytes a form may have."""
_LONGEST_NAME = 200
_WORD = re.compile(r"[0-9a-f]{64}")


class FormGuard:
    """Guards forms against CSRF: each carries a word that only this server can make, for the session in the
    browser's cookie and its user; and the browser's headers must say that a page of this server sent it."""

    def __init__(self, access: Access, root: str) -> None:
        self._access = access
        self._root = root
        self._key = secrets.token_bytes(32)

    def find_session(self, request: Request) -> str:
        """The session of the browser's cookie, or a new one. Servers on other ports of this host share it."""
        given = request.cookies.get(SESSION, "")
        return given if _WORD.fullmatch(given) else secrets.token_hex(32)

    def make_word(self, request: Request, session: str) -> str:
        said = f"{session}\0{request.state.user}".encode()
        return hmac.new(self._key, said, hashlib.sha256).hexdigest()

    def keep_session(self, request: Request, answer: Response, session: str) -> None:
        answer.set_cookie(
            SESSION,
            session,
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
            path=self._root or "/",
        )

    def check(self, request: Request, form: Mapping[str, str]) -> None:
        """Raise ConfigError for a form that no page of this server sent."""
        if not self._is_from_here(request.headers):
            raise ConfigError(
                "this was not sent by a page of this server",
                hint="behind a proxy, name the server with --allow-host; nothing was done",
            )
        session = request.cookies.get(SESSION, "")
        if not session or not hmac.compare_digest(
            form.get(FIELD, "").encode(), self.make_word(request, session).encode()
        ):
            raise ConfigError(
                "this page is of another session, or of the server before it was started again",
                hint="go back to the flow, and begin again; nothing was done",
            )

    def _is_from_here(self, headers: Mapping[str, str]) -> bool:
        if headers.get("sec-fetch-site", "same-origin") != "same-origin":
            return False
        origin = urlsplit(headers.get("origin", ""))
        if origin.scheme not in ("http", "https") or not origin.netloc:
            return False
        return origin.netloc == headers.get("host") or origin.hostname in self._access.hosts


async def read_form(request: Request) -> dict[str, str]:
    """The first value of each field of the form. Raises ConfigError for a form that is too long."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _LONGEST:
            raise ConfigError("the form is too long", hint="give a shorter reason")
    given = parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True)
    return {name: texts[0] for name, texts in given.items()}


def name_actor(user: str) -> str:
    """Who acts, as the history keeps it: the user, and the account that the server runs under."""
    account = this_process().actor
    shown = "".join(letter for letter in user if letter.isprintable())[:_LONGEST_NAME].strip()
    return f"{shown} via {account}" if shown else account
