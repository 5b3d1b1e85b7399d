"""The time at an S3 endpoint, by the date of an HTTP answer, so that nothing has to be written."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http.client import HTTPException
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from tidegauge.storage.s3_settings import S3Settings

_SECONDS = 10


def ask_time(settings: S3Settings) -> datetime | None:
    """The time in UTC, to the second; None if no answer has a date. Needs no keys: a refusal has one, too."""
    endpoint = settings.endpoint or f"https://s3.{settings.region}.amazonaws.com"
    try:
        # The lake's own endpoint, which the store has talked to already.
        with urlopen(Request(endpoint, method="HEAD"), timeout=_SECONDS) as answer:  # noqa: S310
            said = answer.headers.get("Date")
    except HTTPError as refusal:
        said = refusal.headers.get("Date")
    except (OSError, HTTPException, ValueError):
        return None
    try:
        return parsedate_to_datetime(said).astimezone(UTC) if said else None
    except ValueError:
        return None
