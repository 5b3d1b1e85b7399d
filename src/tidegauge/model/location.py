"""Which locations of files are supported: a local path, `file:` or `s3a:`.

A location with another scheme, if used as a local path, would create a local folder of that name without any
error. So every room that gets a location checks it here.
"""

from __future__ import annotations

import os
import re

WITH_COLON = "a folder with a colon in its name is written `./NAME`"
_SCHEME = re.compile(r"\s*([A-Za-z][A-Za-z0-9+.-]*):", re.ASCII)
_PART = r"(?:`(?:[^`]|``)+`|\w+)"
_NAMES = re.compile(rf"{_PART}(?:\.{_PART})+")
_S3 = ("s3", "s3n", "s3a")
"""The schemes for S3 that catalogues use; people write `s3a`."""


def scheme_of(location: str) -> str | None:
    """Return the text before the first colon, if it looks like a scheme; None for a plain path."""
    found = _SCHEME.match(location)
    return found[1] if found else None


def unsupported(scheme: str) -> str:
    return f"paths of kind `{scheme}:` are not supported, only local ones, `file:` and `s3a:`"


def resolve(location: str) -> str:
    """Return `s3a://…` without a trailing slash, or a local path, from what a catalogue or a person wrote.

    Raises ValueError, with a message for people, for any other kind of store.
    """
    scheme = scheme_of(location)
    if scheme is None:
        return location
    rest = location.partition(":")[2]
    if scheme == "file":
        if rest.startswith("//") and not rest.startswith("///"):
            raise ValueError("a `file:` address cannot name a host")
        return "/" + rest.lstrip("/") if rest.startswith("/") else rest
    if scheme.lower() in _S3:
        if scheme not in _S3 or not rest.startswith("//"):
            raise ValueError("an S3 path begins with `s3a://`")
        return f"s3a:{rest.rstrip('/')}"
    raise ValueError(unsupported(scheme))


def identify(location: str) -> str:
    """Return the form in which two locations of one place are equal: links are followed, and the scheme and a
    trailing slash do not matter. Only for comparing: errors and SQL show a location as it was written."""
    try:
        path = resolve(location)
        return path if path.startswith("s3a://") else os.path.realpath(path)
    except ValueError:  # another kind of store, or a character that no file system has
        return location.rstrip("/")


def is_in_catalogue(name: str) -> bool:
    """Whether this is a name with a dot, as in Spark's catalogue. A folder with such a name is written
    `./NAME`; a single word is always a folder."""
    return _NAMES.fullmatch(name) is not None
