"""Files in an S3 bucket, or in anything that speaks S3 and honours conditional puts."""

from __future__ import annotations

import contextlib
import io
import re
import uuid
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegauge.errors import OutputError, OutputUnreachable, OutputUnsafe
from tidegauge.model.secret import Secret, mask
from tidegauge.storage.s3_settings import S3Settings
from tidegauge.storage.store import Entry

if TYPE_CHECKING:
    from obstore import PutMode
    from obstore.store import S3Credential, S3Store

_CODE = re.compile(r"<Code>([^<]*)</Code>")
_MESSAGE = re.compile(r"<Message>([^<]*)</Message>")
_ELSEWHERE = {
    "PermanentRedirect",
    "TemporaryRedirect",
    "AuthorizationHeaderMalformed",
    "IllegalLocationConstraintException",
}


class RangedObject(io.RawIOBase):
    """An object as a file, of which only the parts that are read are fetched."""

    def __init__(self, get: Callable[[int, int], bytes], size: int) -> None:
        super().__init__()
        self._get, self._at = get, 0
        self.size = size

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self.size}[whence]
        return self._at

    def read(self, size: int = -1) -> bytes:
        left = max(0, self.size - self._at)
        count = left if size < 0 else min(size, left)
        body = self._get(self._at, count) if count else b""
        self._at += len(body)
        return body


class S3Objects:
    """Implements `storage.store.Store`."""

    def __init__(self, settings: S3Settings) -> None:
        # The whole package, before any thread imports a part of it: threads that import parts of a package at
        # the same time may get a half-made one.
        import obstore  # noqa: F401

        self._settings = settings
        self._opened: S3Store | None = None

    @property
    def place(self) -> str:
        return self._settings.place

    @property
    def remote(self) -> bool:
        return True

    def get(self, path: str, *, durable: bool = False) -> bytes | None:  # noqa: ARG002 - in S3 it always is
        found = self._get(path)
        return found[0] if found else None

    def tail(self, path: str, count: int) -> bytes:
        with self._translate_errors(path):
            return bytes(self._store.get(self._key(path), options={"range": {"suffix": count}}).bytes())

    def put_if_absent(self, path: str, body: bytes) -> bool:
        from obstore.exceptions import AlreadyExistsError, NotSupportedError

        with self._translate_errors(path):
            try:
                self._store.put(self._key(path), body, mode="create")
            except AlreadyExistsError:
                return False
            except NotSupportedError as error:
                raise unsafe(self.place) from error
        return True

    def upload(self, path: str, source: Path) -> None:
        """Put a local file, in parts if it is large; nobody sees it before the last part is there."""
        with self._translate_errors(path):
            self._store.put(self._key(path), source)

    def read(self, path: str) -> tuple[bytes, str] | None:
        found = self._get(path)
        if found is None:
            return None
        body, tag = found
        if tag is None:
            raise unsafe(self.place, "If-Match")
        return body, tag

    def replace(self, path: str, body: bytes, token: str | None) -> str | None:
        from obstore.exceptions import AlreadyExistsError, NotSupportedError, PreconditionError

        with self._translate_errors(path):
            try:
                mode: PutMode = "create" if token is None else {"e_tag": token}
                put = self._store.put(self._key(path), body, mode=mode)
            except (AlreadyExistsError, PreconditionError, FileNotFoundError) as error:
                if "NoSuchBucket" in str(error):
                    raise
                # A put that was repeated after a lost answer is refused because of itself.
                found = self.read(path)
                return found[1] if found and found[0] == body else None
            except NotSupportedError as error:
                raise unsafe(self.place, "If-Match") from error
        tag = put["e_tag"]
        if tag is None:
            raise unsafe(self.place, "If-Match")
        return tag

    def list(self, prefix: str) -> Iterator[Entry]:
        with self._translate_errors(prefix):
            for page in self._store.list(self._key(prefix), chunk_size=1000):
                for found in page:
                    path = str(found["path"])
                    if not found["size"] and "." not in path.rpartition("/")[2]:
                        continue  # marks a folder, as Hadoop and the console do it
                    yield Entry(self._relative(path), found["size"], found["last_modified"].astimezone(UTC))

    def folders(self, prefix: str) -> Sequence[str]:
        with self._translate_errors(prefix):
            found = self._store.list_with_delimiter(self._key(prefix))["common_prefixes"]
        return sorted(str(path).rstrip("/").rpartition("/")[2] for path in found)

    def delete(self, paths: Sequence[str], *, below: str) -> None:  # noqa: ARG002 - S3 has no folders
        for path in paths:
            with self._translate_errors(path), contextlib.suppress(FileNotFoundError):
                self._store.delete(self._key(path))

    def now(self) -> datetime:
        path = f".tidegauge-clock-{uuid.uuid4().hex}"
        with self._translate_errors(path):
            self._store.put(self._key(path), b"now\n")
            made = self._store.head(self._key(path))["last_modified"].astimezone(UTC)
        self.delete([path], below=path)
        return made

    def open_ranged(self, path: str) -> RangedObject | None:
        """The file, of which only the parts that are read are fetched; None if there is no such file."""
        with self._translate_errors(path):
            try:
                size = self._store.head(self._key(path))["size"]
            except FileNotFoundError:
                return None
        return RangedObject(lambda start, length: self._get_range(path, start, length), size)

    def _get_range(self, path: str, start: int, length: int) -> bytes:
        with self._translate_errors(path):
            return bytes(self._store.get_range(self._key(path), start=start, length=length))

    def sync(self, paths: Sequence[str]) -> None:
        """Does nothing: S3 answers a put only once it is durable."""

    def _get(self, path: str) -> tuple[bytes, str | None] | None:
        with self._translate_errors(path):
            try:
                found = self._store.get(self._key(path))
                return bytes(found.bytes()), found.meta["e_tag"]
            except FileNotFoundError as error:
                if "NoSuchBucket" in str(error):
                    raise
                return None

    @property
    def _store(self) -> S3Store:
        if self._opened is None:
            self._opened = _open(self._settings)
        return self._opened

    def _key(self, path: str) -> str:
        if any(part in ("", ".", "..") for part in path.split("/")) or "\0" in path:
            raise OutputUnsafe(f"{path!r} does not stay inside {self.place}")
        return f"{self._settings.prefix}/{path}" if self._settings.prefix else path

    def _relative(self, key: str) -> str:
        return key.removeprefix(f"{self._settings.prefix}/") if self._settings.prefix else key

    @contextlib.contextmanager
    def _translate_errors(self, path: str) -> Iterator[None]:
        from obstore.exceptions import BaseError

        try:
            yield
        except (BaseError, OSError, ValueError) as error:
            raise translate_s3_error(error, self._settings, path) from error


def unsafe(place: str, condition: str = "If-None-Match") -> OutputUnsafe:
    harm = {
        "If-None-Match": "two runners could both commit a batch",
        "If-Match": "a runner could undo what another has just written",
    }[condition]
    return OutputUnsafe(
        f"{place} does not honour conditional puts ({condition}), so {harm}",
        hint="use a store that does: Amazon S3, MinIO, Cloudflare R2, Ceph without versioning",
    )


def translate_s3_error(error: Exception, settings: S3Settings, path: str) -> OutputError:
    """The error to raise for what S3 or the network refused."""
    from obstore.exceptions import PermissionDeniedError, UnauthenticatedError

    text = mask(str(error))
    code = _first(_CODE, text)
    where = settings.endpoint or f"Amazon S3 in {settings.region}"
    if code == "NoSuchBucket":
        sentence = f"there is no bucket {settings.bucket} at {where}"
        hint = "create the bucket, or correct `path` and `endpoint` of the connection"
        return OutputUnreachable(sentence, hint=hint, retryable=False, detail=text)
    if code in _ELSEWHERE or "301 Moved Permanently" in text:
        sentence = f"the bucket {settings.bucket} is not in the region {settings.region}"
        return OutputUnreachable(
            sentence, hint="set `region` of the connection", retryable=False, detail=text
        )
    if isinstance(error, PermissionDeniedError | UnauthenticatedError) or "403 Forbidden" in text:
        reason = _first(_MESSAGE, text) or code or "access denied"
        return OutputUnreachable(
            f"{where} refused the keys for the bucket {settings.bucket} ({reason.rstrip('.')})",
            hint="check access_key and secret_key, or the AWS profile, and what it may do in this bucket",
            retryable=False,
            detail=text,
        )
    if "HTTP error" in text or "error sending request" in text:
        slow = (
            "did not answer in time"
            if "timed out" in text or "timeout" in text.lower()
            else "cannot be reached"
        )
        return OutputUnreachable(
            f"{where} {slow}",
            hint="check `endpoint` of the connection, the network and whether the server runs",
            detail=text,
        )
    reason = _first(_MESSAGE, text) or code or text.partition("\n")[0][:300]
    return OutputUnreachable(
        f"{settings.place}/{path} cannot be reached ({reason.rstrip('.')})",
        hint="--debug shows the whole answer of the store",
        detail=text,
    )


def _open(settings: S3Settings) -> S3Store:
    from obstore.exceptions import BaseError
    from obstore.store import S3Store

    # Limits, so that a store that cannot be reached is an error within about ten seconds.
    arguments: dict[str, Any] = {
        "region": settings.region,
        "client_options": {
            "allow_http": (settings.endpoint or "").startswith("http:"),
            "connect_timeout": timedelta(seconds=3),
            "timeout": timedelta(seconds=10),
        },
        "retry_config": {
            "max_retries": 6,
            "retry_timeout": timedelta(seconds=6),
            "backoff": {
                "init_backoff": timedelta(milliseconds=100),
                "max_backoff": timedelta(seconds=2),
                "base": 2,
            },
        },
    }
    if settings.endpoint:
        arguments |= {"endpoint": settings.endpoint, "virtual_hosted_style_request": False}
    if settings.access_key and settings.secret_key:
        arguments["credential_provider"] = _fix_credentials(settings.access_key, settings.secret_key)
    else:
        arguments |= _usual_chain(settings)
    try:
        return S3Store(settings.bucket, **arguments)
    except (BaseError, ValueError) as error:
        raise translate_s3_error(error, settings, "") from error


def _fix_credentials(access_key: Secret, secret_key: Secret) -> Callable[[], S3Credential]:
    """A provider of the connection's own keys alone: if they were plain settings, a session token from the
    environment, which does not belong to them, would be sent along."""

    def credential() -> S3Credential:
        return {
            "access_key_id": access_key.reveal(),
            "secret_access_key": secret_key.reveal(),
            "token": None,
            "expires_at": None,
        }

    return credential


def _usual_chain(settings: S3Settings) -> dict[str, Any]:
    """Keys from environment, profile, single sign-on or role, found by boto3 if it is installed, else by
    obstore."""
    try:
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError:
        return {}
    try:
        return {"credential_provider": Boto3CredentialProvider()}
    except Exception as error:  # botocore has a class of its own for every kind of broken profile
        raise OutputUnreachable(
            f"no AWS credentials were found for the bucket {settings.bucket}",
            hint="set access_key and secret_key of the connection, or AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY, or AWS_PROFILE",
            retryable=False,
            detail=mask(str(error)),
        ) from error


def _first(pattern: re.Pattern[str], text: str) -> str | None:
    match = pattern.search(text)
    return match.group(1) if match else None
