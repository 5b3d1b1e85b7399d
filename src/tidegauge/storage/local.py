"""Files on a local or mounted file system."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import uuid
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from tidegauge.errors import OutputError, OutputUnreachable, OutputUnsafe
from tidegauge.storage.lock import locked
from tidegauge.storage.store import Entry

TEMPORARY = ".tmp"
_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK, errno.EXDEV}
_FULL = {errno.ENOSPC, errno.EDQUOT}
_DENIED = {errno.EACCES, errno.EPERM, errno.EROFS}


class LocalFiles:
    """Implements `storage.store.Store`."""

    def __init__(self, root: str) -> None:
        self._root = Path(root)

    @property
    def place(self) -> str:
        return str(self._root)

    @property
    def remote(self) -> bool:
        return False

    def get(self, path: str, *, durable: bool = False) -> bytes | None:
        target = self._at(path)
        with self._translate_errors(target):
            try:
                body = target.read_bytes()
            except FileNotFoundError:
                return None
            if durable:
                # Its writer may have died between the link and the sync of the folder.
                sync_path(target)
                sync_path(target.parent)
            return body

    def tail(self, path: str, count: int) -> bytes:
        target = self._at(path)
        with self._translate_errors(target), target.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - count))
            return file.read()

    def put_if_absent(self, path: str, body: bytes) -> bool:
        target = self._at(path)
        with self._translate_errors(target), _write_temporary(target, body) as temporary:
            won = self._link(temporary, target)
            # Also for the loser, which acts on a file that the winner may not have made durable yet.
            sync_path(target.parent)
        return won

    def _link(self, temporary: Path, target: Path) -> bool:
        try:
            os.link(temporary, target)
        except FileExistsError:
            # Over NFS a repeated request reports this although the first one made the link.
            return os.path.samestat(temporary.stat(), target.stat())
        except OSError as error:
            if error.errno in _NO_LINKS:
                raise OutputUnsafe(
                    f"the file system of {self._root} has no hard links, so a file cannot be put there "
                    "whole and only once",
                    hint="keep the lake, or the ledger's files, on another file system, or on S3",
                ) from error
            raise
        return True

    def read(self, path: str) -> tuple[bytes, str] | None:
        body = self.get(path)
        return None if body is None else (body, _digest(body))

    def replace(self, path: str, body: bytes, token: str | None) -> str | None:
        target = self._at(path)
        with self._translate_errors(target), _write_temporary(target, body) as temporary, locked(target):
            found = self.read(path)
            won = (found[1] if found else None) == token
            if won:
                temporary.replace(target)
            # Also for the loser, which acts on what it finds there.
            sync_path(target.parent)
        return _digest(body) if won else None

    def list(self, prefix: str) -> Iterator[Entry]:
        start = self._at(prefix)
        with self._translate_errors(start):
            yield from self._walk(start)

    def _walk(self, folder: Path) -> Iterator[Entry]:
        try:
            found = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except (FileNotFoundError, NotADirectoryError):
            return
        for entry in found:
            if entry.is_dir(follow_symlinks=False):
                yield from self._walk(Path(entry.path))
                continue
            try:
                facts = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue  # a temporary file that was removed meanwhile
            path = Path(entry.path).relative_to(self._root).as_posix()
            yield Entry(path, facts.st_size, datetime.fromtimestamp(facts.st_mtime, UTC))

    def folders(self, prefix: str) -> Sequence[str]:
        start = self._at(prefix)
        with self._translate_errors(start):
            try:
                return sorted(one.name for one in os.scandir(start) if one.is_dir(follow_symlinks=False))
            except (FileNotFoundError, NotADirectoryError):
                return ()

    def delete(self, paths: Sequence[str], *, below: str) -> None:
        keep = self._at(below)
        for path in paths:
            target = self._at(path)
            with self._translate_errors(target):
                target.unlink(missing_ok=True)
            for folder in target.parents:
                if not folder.is_relative_to(keep) or folder == keep:
                    break
                try:
                    folder.rmdir()
                except OSError:
                    break  # not empty, or gone already

    def now(self) -> datetime:
        with self._translate_errors(self._root):
            os.utime(self._root)  # on a mounted file system the server sets this time
            return datetime.fromtimestamp(self._root.stat().st_mtime, UTC)

    def sync(self, paths: Sequence[str]) -> None:
        targets = [self._at(path) for path in paths]
        folders: set[Path] = set()
        for target in targets:
            with self._translate_errors(target):
                sync_path(target)
            folders.update(parent for parent in target.parents if parent.is_relative_to(self._root))
        for folder in sorted(folders, reverse=True):
            with self._translate_errors(folder):
                sync_path(folder)

    def _at(self, path: str) -> Path:
        parts = path.split("/")
        if "\0" in path or any(part in ("", ".", "..") for part in parts):
            raise OutputUnsafe(f"{path!r} does not stay inside {self._root}")
        return self._root.joinpath(*parts)

    @contextlib.contextmanager
    def _translate_errors(self, target: Path) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise translate_os_error(error, target) from error


def translate_os_error(error: OSError, target: Path) -> OutputError:
    """The error to raise for what the file system refused."""
    if error.errno in _FULL:
        return OutputUnreachable(
            f"no space is left to write {target}",
            hint="free some space; the next run goes on where this one stopped",
        )
    if error.errno in _DENIED:
        return OutputUnreachable(
            f"this user may not use {target} ({os.strerror(error.errno or 0)})",
            hint="give the user read and write permission there, or choose another path",
        )
    if error.errno in {errno.ENOTDIR, errno.EEXIST}:
        return OutputUnreachable(
            f"{target} cannot be made: a file stands where a folder has to be",
            hint="move the file away, or choose another path",
        )
    reason = error.strerror or type(error).__name__
    return OutputUnreachable(f"{target} cannot be reached ({reason})", hint="check the path and its mount")


@contextlib.contextmanager
def _write_temporary(target: Path, body: bytes) -> Iterator[Path]:
    """A durable temporary file in the target's folder, to be made the target; removed in the end."""
    # Not made from the target's name, which may already be as long as names can be.
    temporary = target.with_name(f".{uuid.uuid4().hex}{TEMPORARY}")
    _make_folder(target.parent)
    try:
        _write(temporary, body)
        yield temporary
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def _write(path: Path, body: bytes) -> None:
    with path.open("xb") as file:
        file.write(body)
        file.flush()
        os.fsync(file.fileno())


def _digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def _make_folder(folder: Path) -> None:
    missing = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    for parent in reversed(missing):
        parent.mkdir(exist_ok=True)
        sync_path(parent.parent)


def sync_path(path: Path) -> None:
    """Make a file, or the names in a folder, durable."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in {errno.EINVAL, errno.ENOTSUP}:  # a file system that has nothing to sync here
            raise
    finally:
        os.close(handle)
