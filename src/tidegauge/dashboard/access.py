"""Who may see the pages; checked before anything else is done with a request."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from http.cookies import SimpleCookie
from typing import Any

from tidegauge.errors import ConfigError
from tidegauge.model.secret import Secret

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

COOKIE = "tidegauge"
LOGIN = "/login"
_LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]", "::1"})
_OPEN = ("/static/", "/favicon.ico", LOGIN)
"""Paths that need no user, as they show nothing of the ledger."""
HEADERS = {
    "content-security-policy": "default-src 'self'; base-uri 'none'; form-action 'self';"
    " frame-ancestors 'none'; object-src 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


@dataclass(frozen=True)
class Access:
    """What a viewer needs to see the pages. Raises ConfigError if everybody on the network could see them."""

    host: str = "127.0.0.1"
    token: Secret | None = None
    user_header: str | None = None
    """The header in which a reverse proxy names the user; it is trusted."""
    hosts: frozenset[str] = field(default_factory=frozenset)
    """Host names that the server answers to, besides `localhost` and its like."""
    users: Mapping[str, Secret] = field(default_factory=dict)
    """Tokens by user name, besides the token without a name."""

    def __post_init__(self) -> None:
        if not self.local and not self.asks_token and self.user_header is None:
            raise ConfigError(
                f"--host {self.host} would show the ledger to everybody who reaches this machine",
                hint="give --token-file FILE, or --trust-user-header NAME behind a proxy that sets it; or"
                " leave --host out",
            )

    @property
    def local(self) -> bool:
        """Whether only this machine can reach the server."""
        return is_loopback(self.host)

    @property
    def asks_token(self) -> bool:
        return self.token is not None or bool(self.users)

    def session_of(self, word: str) -> str | None:
        """The cookie value that stands for this token; None if no such token exists."""
        found = next((token for token in self._tokens.values() if _is_same(word, token.reveal())), None)
        return None if found is None else _session(found)

    @property
    def _tokens(self) -> dict[str, Secret]:
        return {**({"token": self.token} if self.token is not None else {}), **self.users}

    def allows_host(self, host: str) -> bool:
        """Whether the server answers to this host name. Others are refused, against DNS rebinding."""
        name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
        if name in self.hosts or name.casefold() in _LOCAL_NAMES:
            return True
        return not self.local and not self.hosts

    def find_user(self, headers: dict[str, str]) -> str | None:
        """The user's name; empty if no name is needed, None if the request has no valid token or header."""
        if self.user_header is not None:
            return headers.get(self.user_header.lower()) or None
        if not self.asks_token:
            return ""
        kind, _, word = headers.get("authorization", "").partition(" ")
        bearer = word.strip() if kind.lower() == "bearer" else ""
        cookie = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
        kept = cookie.value if cookie is not None else ""
        for name, token in self._tokens.items():
            if _is_same(bearer, token.reveal()) or _is_same(kept, _session(token)):
                return name
        return None


def _session(token: Secret) -> str:
    return hmac.new(token.reveal().encode(), b"tidegauge session", hashlib.sha256).hexdigest()


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _is_same(one: str, other: str) -> bool:
    """Compare in constant time, so that nobody can guess a token by measuring."""
    return hmac.compare_digest(one.encode(), other.encode())


class AccessMiddleware:
    """Middleware before the application: checks host and user, takes the prefix off the path, and adds the
    security headers to every response."""

    def __init__(self, app: Application, *, access: Access, root: str) -> None:
        self._app = app
        self._access = access
        self._root = root

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {
            name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]
        }
        answer = _with_headers(send)
        if not self._access.allows_host(headers.get("host", "")):
            await _refuse(answer, 421, "this server does not go by that name; see --allow-host")
            return
        # Some proxies leave the prefix in the path, others remove it.
        path = scope["path"].removeprefix(self._root) or "/"
        scope = {**scope, "path": path, "raw_path": path.encode()}
        user = self._access.find_user(headers)
        if user is None and not path.startswith(_OPEN):
            await self._ask(answer, headers)
            return
        scope.setdefault("state", {})["user"] = user or ""
        await self._app(scope, receive, answer)

    async def _ask(self, answer: Send, headers: dict[str, str]) -> None:
        """Redirect a browser to the login page; answer 401 to anything else."""
        if self._access.asks_token and "text/html" in headers.get("accept", ""):
            await _refuse(answer, 303, "", {b"location": f"{self._root}{LOGIN}".encode()})
            return
        await _refuse(answer, 401, "who are you? See --token-file and --trust-user-header", _CHALLENGE)


_CHALLENGE = {b"www-authenticate": b"Bearer"}


def _with_headers(send: Send) -> Send:
    async def answer(message: Message) -> None:
        if message["type"] == "http.response.start":
            given = list(message.get("headers", ()))
            known = {name.lower() for name, _ in given}
            given += [(name.encode(), text.encode()) for name, text in HEADERS.items()]
            if b"cache-control" not in known:
                given.append((b"cache-control", b"no-store"))
            message = {**message, "headers": given}
        await send(message)

    return answer


async def _refuse(send: Send, status: int, text: str, headers: dict[bytes, bytes] | None = None) -> None:
    given = [(b"content-type", b"text/plain; charset=utf-8"), *(headers or {}).items()]
    await send({"type": "http.response.start", "status": status, "headers": given})
    await send({"type": "http.response.body", "body": f"{text}\n".encode()})
