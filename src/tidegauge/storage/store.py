"""What outputs, ledgers and readers need of the place that keeps files."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from tidegauge.model.spec import Lake


@dataclass(frozen=True)
class Entry:
    """A file that a store lists."""

    path: str
    """Relative to the store's path, with forward slashes."""
    bytes: int
    modified: datetime
    """By the store's own clock, in UTC."""


class Store(Protocol):
    """Files below one path. Paths are relative to it, and never lead out of it.

    Every method raises OutputUnreachable when the answer cannot be known.
    """

    @property
    def place(self) -> str:
        """The store's path, as messages name it."""

    @property
    def remote(self) -> bool:
        """Whether each call, also one for the time, goes over the network."""

    def get(self, path: str, *, durable: bool = False) -> bytes | None:
        """The whole file, or None if there is none; `durable` waits until it would survive a power cut."""

    def tail(self, path: str, count: int) -> bytes:
        """The last `count` bytes, or the whole of a shorter file."""

    def put_if_absent(self, path: str, body: bytes) -> bool:
        """Create the file, whole and durable, unless there is one. Of several callers exactly one gets True.

        False means that another caller was first or is still at it: `get` may not see its file yet. An error
        proves nothing. Raises OutputUnsafe if the store cannot promise this.
        """

    def read(self, path: str) -> tuple[bytes, str] | None:
        """The whole file and the token of this version of it, or None if there is no file."""

    def replace(self, path: str, body: bytes, token: str | None) -> str | None:
        """Replace the version of the file that has the token by this body, whole and durable; without a token
        there must be no file. Of several callers exactly one gets the new version's token.

        The others get None: another caller was first, or is still at it. An error proves nothing: read again.
        Equal bodies have equal tokens, so a caller puts a growing number into them. Raises OutputUnsafe if
        the store cannot promise this.
        """

    def list(self, prefix: str) -> Iterator[Entry]:
        """Every file below a folder at any depth, in no order; none if there is no such folder."""

    def folders(self, prefix: str) -> Sequence[str]:
        """The names of the folders directly below a folder, in order; none if there is no such folder."""

    def delete(self, paths: Sequence[str], *, below: str) -> None:
        """Delete files, whether they exist or not, and folders inside `below` that become empty."""

    def now(self) -> datetime:
        """The clock by which this store dates its files, in UTC. Needs no free space."""

    def sync(self, paths: Sequence[str]) -> None:
        """Returns once these files, and the folders that name them, would survive a power cut."""


def open_store(lake: Lake) -> Store:
    """The store at a lake's path. One on S3 is opened once in a process, so that connections are shared."""
    if lake.on_s3:
        from tidegauge.storage.s3_settings import settings_of

        return _open_s3(settings_of(lake))
    from tidegauge.storage.local import LocalFiles

    return LocalFiles(lake.path)


@functools.lru_cache(maxsize=64)
def _open_s3(settings: object) -> Store:
    from tidegauge.storage.s3 import S3Objects
    from tidegauge.storage.s3_settings import S3Settings

    assert isinstance(settings, S3Settings)
    return S3Objects(settings)
