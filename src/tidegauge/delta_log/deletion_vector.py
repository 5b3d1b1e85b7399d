"""Reads deletion vectors: which rows of a data file are deleted. A vector is a bitmap, in the log or in a
file of its own."""

from __future__ import annotations

import base64
import struct
import uuid
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegauge.delta_log.commit import Action

if TYPE_CHECKING:
    import numpy as np

_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_ZEROMQ = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_TO_PYTHON = str.maketrans(_ZEROMQ, _DIGITS)
"""Z85 counts in base 85 as Python's base85, with other digits."""
_MAGIC, _PLAIN, _WITH_RUNS = 1681511377, 12346, 12347
_UUID = 20
"""Z85 digits of a UUID."""
_ARRAY = 4096
"""The most values that a part of a bitmap lists one by one; beyond that it is bits."""


def read_deleted(folder: Path, vector: Action) -> np.ndarray[Any, Any]:
    """The positions of the deleted rows. Raises ValueError or OSError where the vector cannot be read."""
    import numpy as np

    kind, text = vector["storageType"], vector["pathOrInlineDv"]
    if kind == "i":
        body = _decode_z85(text)[: vector["sizeInBytes"]]
    elif kind == "u":
        body = _cut(Path(folder, path_of_vector(text)), vector)
    else:
        raise ValueError(f"a deletion vector of kind {kind}")
    magic, many = struct.unpack_from("<iQ", body)
    if magic != _MAGIC:
        raise ValueError("a deletion vector of another form")
    at, found = 12, []
    for _ in range(many):
        (high,) = struct.unpack_from("<I", body, at)
        values, at = _read_bitmap(body, at + 4)
        found.append(values.astype(np.int64) + (high << 32))
    places = np.concatenate(found) if found else np.empty(0, dtype=np.int64)
    if len(places) != vector["cardinality"]:
        raise ValueError("a deletion vector that does not have as many rows as it says")
    return places


def path_of_vector(text: str) -> str:
    """The path of a vector's file, relative to the table's folder: in the log stands a folder, which may be
    empty, and the digits of a UUID. Raises ValueError."""
    folder, name = text[:-_UUID], f"deletion_vector_{uuid.UUID(bytes=_decode_z85(text[-_UUID:]))}.bin"
    return f"{folder}/{name}" if folder else name


def _cut(path: Path, vector: Action) -> bytes:
    """The bytes of one vector in a file of several. Raises ValueError where its checksum differs."""
    with path.open("rb") as file:
        file.seek(int(vector.get("offset") or 1))
        (size,) = struct.unpack(">i", file.read(4))
        body, (check,) = file.read(size), struct.unpack(">I", file.read(4))
    if size != vector["sizeInBytes"] or zlib.crc32(body) != check:
        raise ValueError(f"{path.name} is damaged")
    return body


def _decode_z85(text: str) -> bytes:
    """Decode Z85, where five digits stand for four bytes. Raises ValueError."""
    if not set(text) <= set(_ZEROMQ):
        raise ValueError(f"{text} is not Z85")
    return base64.b85decode(text.translate(_TO_PYTHON))


def _read_bitmap(body: bytes, at: int) -> tuple[np.ndarray[Any, Any], int]:
    """The values of a 32-bit Roaring bitmap in its portable form, and the offset where it ends."""
    import numpy as np

    (cookie,) = struct.unpack_from("<I", body, at)
    at += 4
    runs = b""
    if cookie & 0xFFFF == _WITH_RUNS:
        parts = (cookie >> 16) + 1
        runs = body[at : at + (parts + 7) // 8]
        at += len(runs)
    elif cookie == _PLAIN:
        (parts,) = struct.unpack_from("<I", body, at)
        at += 4
    else:
        raise ValueError("a bitmap of another form")
    heads = np.frombuffer(body, "<u2", parts * 2, at).reshape(-1, 2).astype(np.int64)
    at += parts * 4
    if not runs or parts >= 4:
        at += parts * 4  # skip the offsets of the parts: they are read one after the other
    found = [np.empty(0, dtype=np.int64)]
    for number, (key, least) in enumerate(heads):
        size = int(least) + 1
        if runs and runs[number // 8] >> (number % 8) & 1:
            (many,) = struct.unpack_from("<H", body, at)
            pairs = np.frombuffer(body, "<u2", many * 2, at + 2).reshape(-1, 2).astype(np.int64)
            values = np.concatenate([np.arange(first, first + more + 1) for first, more in pairs])
            at += 2 + many * 4
        elif size <= _ARRAY:
            values = np.frombuffer(body, "<u2", size, at).astype(np.int64)
            at += size * 2
        else:
            bits = np.frombuffer(body, np.uint8, 8192, at)
            values = np.flatnonzero(np.unpackbits(bits, bitorder="little"))
            at += 8192
        found.append(values + (int(key) << 16))
    return np.concatenate(found), at
