"""Proof, before the first batch, that a store can be reached and lets only one writer win."""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections.abc import Hashable
from concurrent.futures import ThreadPoolExecutor

from tidegauge.errors import OutputError, OutputUnreachable, OutputUnsafe
from tidegauge.write.s3 import unsafe
from tidegauge.write.store import Store

_RUNNERS = 4
_proven: set[Hashable] = set()
_one_at_a_time = threading.Lock()


def prove(store: Store, identity: Hashable) -> None:
    """Once in a process for each identity: reach the store, and let several writers race for one file.

    Raises OutputUnreachable, or OutputUnsafe if more than one of them wins. Some stores refuse the second
    of two puts but let both win when they come together, so asking twice in a row proves too little.
    """
    with _one_at_a_time:
        if identity in _proven:
            return
        # A table's folder never begins with a dot, so this can be no table's.
        path = f".tidegauge-probe-{uuid.uuid4().hex}"
        try:
            _race(store, path)
        except OutputUnsafe:
            with contextlib.suppress(OutputError):
                store.delete([path], below=path)
            raise
        store.delete([path], below=path)
        _proven.add(identity)


def _race(store: Store, path: str) -> None:
    bodies = [f"{runner}\n".encode() for runner in range(_RUNNERS)]
    with ThreadPoolExecutor(_RUNNERS) as pool:
        won = list(pool.map(lambda body: store.put_if_absent(path, body), bodies))
    if not any(won):  # each saw another at it, and none was let through
        won = [store.put_if_absent(path, bodies[0]), *won[1:]]
    found = store.get(path)
    if found is None:
        raise OutputUnreachable(
            f"what was put into {store.place} could not be read back",
            hint="check that this login may read there as well as write",
        )
    again = store.put_if_absent(path, b"again\n")
    if won.count(True) != 1 or again or found != bodies[won.index(True)] or store.get(path) != found:
        raise unsafe(store.place)
