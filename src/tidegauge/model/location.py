"""Where files can lie: on a local path, `file:` or `s3a:`.

Whatever else looks like a scheme would, taken for a path, make a local folder of that name, and everything
would seem to go well. So every room that gets a location asks here.
"""

from __future__ import annotations

import re

WITH_COLON = "a folder with a colon in its name is written `./NAME`"
_SCHEME = re.compile(r"\s*([A-Za-z][A-Za-z0-9+.-]*):", re.ASCII)
_PART = r"(?:`(?:[^`]|``)+`|\w+)"
_NAMES = re.compile(rf"{_PART}(?:\.{_PART})+")
_S3 = ("s3", "s3n", "s3a")
"""As catalogues write it; a person writes the last."""


def scheme_of(location: str) -> str | None:
    """What stands before the first colon, if it looks like a scheme; None for a plain path."""
    found = _SCHEME.match(location)
    return found[1] if found else None


def unsupported(scheme: str) -> str:
    return f"paths of kind `{scheme}:` are not supported, only local ones, `file:` and `s3a:`"


def resolve(location: str) -> str:
    """`s3a://…` without a slash at its end, or a local path, from what a catalogue or a person wrote.

    Raises ValueError, with the sentence, for a store of any other kind.
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


def is_in_catalogue(name: str) -> bool:
    """Whether this is a name with a dot in it, as Spark's catalogue has them. A folder of that name is
    written `./NAME`; a single word is a folder always."""
    return _NAMES.fullmatch(name) is not None
