"""A table's name as the name of its folder below the lake's path."""

from __future__ import annotations

import hashlib
import re
import unicodedata

from tidegauge.errors import OutputUnsafe

_LONGEST = 200
"""The most bytes of a name. File systems allow 255, some of which are left for endings such as `.tmp`."""
_KEPT = 150
_EMPTY = "!"
_SHORTENED = "!h"
"""Neither `!` nor `!h` is an escape, so neither can come from a name."""

_PIECE = re.compile(r"![0-9A-F]{2}|.", re.DOTALL)


def folder_name(name: str) -> str:
    """One path segment that is safe on every file system and store, and a different one for every name.

    ASCII letters, digits, `_`, `.`, `-` and the letters and digits of other scripts stay; every other byte
    is written `!XX`, and so are dots at the beginning. What is longer than 200 bytes ends in a hash.
    """
    if not name:
        return _EMPTY
    body = name.lstrip(".")
    escaped = "!2E" * (len(name) - len(body)) + "".join(map(_escape, body))
    if len(escaped.encode()) <= _LONGEST:
        return escaped
    return _shorten(escaped) + _SHORTENED + hashlib.sha256(_bytes(name)).hexdigest()[:40]


def check_folder(folder: str) -> str:
    """The folder itself, if `folder_name` could have made it. Raises OutputUnsafe for one that could lead to
    another place than directly below the lake's path."""
    pieces = _PIECE.findall(folder.replace(_SHORTENED, "", 1))
    if folder and not folder.startswith(".") and all(p.startswith("!") or _is_kept(p) for p in pieces):
        return folder
    raise OutputUnsafe(
        f"{folder!r} is not a safe name for a table's folder",
        hint="choose another name for the table with `rename:`",
    )


def _escape(character: str) -> str:
    if _is_kept(character):
        return character
    return "".join(f"!{byte:02X}" for byte in _bytes(character))


def _is_kept(character: str) -> bool:
    if character.isascii():
        return character.isalnum() or character in "_.-"
    # On a file system that normalises names, a letter that this changes could meet another name's folder.
    return character.isalnum() and unicodedata.is_normalized("NFC", character)


def _shorten(escaped: str) -> str:
    kept, size = [], 0
    for piece in _PIECE.findall(escaped):
        size += len(piece.encode())
        if size > _KEPT:
            break
        kept.append(piece)
    return "".join(kept)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
