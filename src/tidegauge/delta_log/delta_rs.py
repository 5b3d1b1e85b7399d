"""What delta-rs needs to open a table: the library itself, the table's address and its storage options."""

from __future__ import annotations

import re
from typing import Any

from tidegauge.errors import RuntimeMissing
from tidegauge.model.secret import mask
from tidegauge.model.spec import Lake
from tidegauge.storage.s3_settings import settings_of

_SHELL = re.compile(r"\x1b\[\d+m|↳")
_FRAMES = re.compile(r"\n +\d+: .*", re.DOTALL)


def library() -> Any:
    """The module `deltalake`. Raises RuntimeMissing where it is not installed."""
    try:
        import deltalake
        import deltalake.exceptions
    except ImportError as error:
        raise RuntimeMissing(
            "Delta tables are reached through the library deltalake, which is not installed",
            hint="run: pip install 'tidegauge[delta]'",
        ) from error
    return deltalake


def address(lake: Lake) -> str:
    return f"s3://{lake.path.removeprefix('s3a://')}" if lake.on_s3 else lake.path


def options(lake: Lake) -> dict[str, str] | None:
    """Storage options for S3; None on a local disk. Timeouts are as short as those of our own requests, so
    that a store which does not answer is an error within seconds."""
    if not lake.on_s3:
        return None
    settings = settings_of(lake)
    found = {
        "aws_region": settings.region,
        "conditional_put": "etag",
        "connect_timeout": "3s",
        "timeout": "10s",
        "max_retries": "4",
        "retry_timeout": "6s",
    }
    if settings.endpoint:
        plain = str(settings.endpoint.startswith("http:")).lower()
        found |= {"aws_endpoint": settings.endpoint, "aws_virtual_hosted_style_request": "false"}
        found["allow_http"] = plain
    if settings.access_key and settings.secret_key:
        found["aws_access_key_id"] = settings.access_key.reveal()
        found["aws_secret_access_key"] = settings.secret_key.reveal()
    return found


def is_panic(error: BaseException) -> bool:
    """Whether the library panicked, as it does in a process that was forked after its first use. A panic is
    no Exception, and its class cannot be imported."""
    return type(error).__name__ == "PanicException"


def one_line(error: BaseException) -> str:
    """The library's message in one masked line, without colours, arrows and stack frames."""
    text = _FRAMES.sub("", _SHELL.sub(" ", mask(str(error))))
    return " ".join(text.split())[:300].rstrip(". ")
