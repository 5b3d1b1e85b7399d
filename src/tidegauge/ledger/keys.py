"""Fixed-length keys for names of any length and any alphabet.

A name can be 500 characters long and two names can differ by case only; no database indexes and compares
both faithfully under every collation. A digest can be indexed everywhere and is equal only to itself.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache

LENGTH = 64


def pipeline_key(pipeline: str) -> str:
    return _digest(pipeline)


def flow_key(pipeline: str, flow: str) -> str:
    return _digest(pipeline, flow)


def input_key(name: str) -> str:
    return _digest(name)


# A run asks for the same few thousand names again and again.
@lru_cache(maxsize=8192)
def _digest(*names: str) -> str:
    # The lengths keep ("a", "bc") and ("ab", "c") apart.
    text = "".join(f"{len(name)}:{name}" for name in names)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
