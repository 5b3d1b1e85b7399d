"""Proof, before anything is kept, that a store can be reached and lets only one writer win."""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from tidegauge.errors import OutputError, OutputUnreachable
from tidegauge.storage.s3 import unsafe
from tidegauge.storage.store import Store

T = TypeVar("T")

_RUNNERS = 4
_proven: set[tuple[Hashable, bool]] = set()
_one_at_a_time = threading.Lock()


def check_store(store: Store, identity: Hashable, *, replacing: bool = False) -> None:
    """Check a store, once in a process for each identity: several writers race to put one file and, with
    `replacing`, to replace it.

    Raises OutputUnreachable, or OutputUnsafe if more than one of them wins. Some stores refuse the second of
    two puts in a row, but let both win if they come at the same time: so the writers have to race.
    """
    with _one_at_a_time:
        if (identity, replacing) in _proven:
            return
        # A table's folder never begins with a dot, so this can be no table's.
        path = f".tidegauge-probe-{uuid.uuid4().hex}"
        try:
            _race_to_put(store, path)
            if replacing:
                _race_to_replace(store, path)
        except OutputError:
            with contextlib.suppress(OutputError):
                store.delete([path], below=path)
            raise
        store.delete([path], below=path)
        _proven.add((identity, replacing))


def _race_to_put(store: Store, path: str) -> None:
    bodies = _bodies("put")
    won = _at_once(lambda body: store.put_if_absent(path, body), bodies)
    if not any(won):  # each was refused because of another, and nobody won
        won = [store.put_if_absent(path, bodies[0]), *won[1:]]
    found = store.get(path)
    if found is None:
        raise OutputUnreachable(
            f"what was put into {store.place} could not be read back",
            hint="check that this login may read there as well as write",
        )
    again = store.put_if_absent(path, b"again\n")
    # Nobody may have won: if the winner's answer was lost, its put was sent again, and refused by itself.
    winners = [body for body, first in zip(bodies, won, strict=True) if first]
    if winners not in ([], [found]) or found not in bodies or again or store.get(path) != found:
        raise unsafe(store.place)


def _race_to_replace(store: Store, path: str) -> None:
    refused = unsafe(store.place, "If-Match")
    first = store.read(path)
    if first is None or store.replace(path, b"there already\n", None) is not None:
        raise refused
    bodies = _bodies("replace")
    tokens = _at_once(lambda body: store.replace(path, body, first[1]), bodies)
    if not any(tokens):
        tokens = [store.replace(path, bodies[0], first[1]), *tokens[1:]]
    winners = [(body, token) for body, token in zip(bodies, tokens, strict=True) if token is not None]
    stale = store.replace(path, b"too late\n", first[1])
    if len(winners) != 1 or stale is not None or store.read(path) != winners[0]:
        raise refused
    # With the right token a replacement has to succeed, too.
    last = store.replace(path, b"last\n", winners[0][1])
    if last is None or store.read(path) != (b"last\n", last):
        raise refused


def _bodies(word: str) -> list[bytes]:
    return [f"{word} {runner}\n".encode() for runner in range(_RUNNERS)]


def _at_once(ask: Callable[[bytes], T], bodies: list[bytes]) -> list[T]:
    together = threading.Barrier(len(bodies))

    def start(body: bytes) -> T:
        together.wait()
        return ask(body)

    with ThreadPoolExecutor(len(bodies)) as pool:
        return list(pool.map(start, bodies))
