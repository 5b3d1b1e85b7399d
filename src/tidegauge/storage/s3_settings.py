"""Where a bucket is, and by which keys it is used; completed from the environment as AWS tools do it."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass

from tidegauge.errors import ConfigError
from tidegauge.model.secret import Secret
from tidegauge.model.spec import Lake


@dataclass(frozen=True)
class S3Settings:
    """Where the bucket is, and the keys for it; found out once, so that Spark and this process agree."""

    bucket: str
    prefix: str
    """Without slashes at either end; empty for the whole bucket."""
    endpoint: str | None
    """None: Amazon's own endpoint for the region."""
    region: str
    access_key: Secret | None
    """None: keys are found in the usual AWS chain."""
    secret_key: Secret | None

    @property
    def place(self) -> str:
        return f"s3a://{self.bucket}/{self.prefix}".rstrip("/")


def settings_of(lake: Lake) -> S3Settings:
    """The settings of a connection, completed from the environment as AWS tools do it. Raises ConfigError."""
    bucket, _, prefix = lake.path.removeprefix("s3a://").partition("/")
    if not bucket:
        raise ConfigError(
            f"{lake.path} names no bucket", hint="write it as s3a://bucket/prefix", place=lake.place
        )
    prefix = prefix.strip("/")
    if prefix and any(part in ("", ".", "..") for part in prefix.split("/")):
        raise ConfigError(
            f"{lake.path} has an empty, '.' or '..' part, which S3 keeps as it stands",
            hint="write the path without it",
            place=lake.place,
        )
    if (lake.access_key is None) != (lake.secret_key is None):
        raise ConfigError(
            f"the connection {lake.name} has only one of access_key and secret_key",
            hint="set both, or neither for the usual AWS chain",
            place=lake.place,
        )
    return S3Settings(
        bucket=bucket,
        prefix=prefix,
        endpoint=lake.endpoint or _environment("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
        region=lake.region or _environment("AWS_REGION", "AWS_DEFAULT_REGION") or _default_region(lake),
        access_key=lake.access_key,
        secret_key=lake.secret_key,
    )


def _environment(*names: str) -> str | None:
    return next((os.environ[name] for name in names if os.environ.get(name)), None)


def _default_region(lake: Lake) -> str:
    if not lake.endpoint:
        with contextlib.suppress(Exception):  # no boto3, or a profile that cannot be read
            import boto3

            return str(boto3.Session().region_name or "us-east-1")
    return "us-east-1"
