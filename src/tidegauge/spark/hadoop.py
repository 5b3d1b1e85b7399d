"""The options that tell Spark where a lake is, and what its files have to look like.

Wherever Spark allows it, they are options of a single read or write, so that two lakes never share settings
and a remote Spark needs none of its own.
"""

from __future__ import annotations

import hashlib
import re
import threading
from typing import TYPE_CHECKING

from tidegauge.errors import OutputUnreachable, RuntimeMissing, TidegaugeError
from tidegauge.model.secret import mask
from tidegauge.model.spark_causes import with_causes
from tidegauge.model.spec import Lake
from tidegauge.storage.s3_settings import settings_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COMMIT = {
    # Files move to their place when the whole job has succeeded, so that a task that is repeated, or runs
    # twice, leaves no second copy of its rows.
    "mapreduce.fileoutputcommitter.algorithm.version": "1",
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
}

SESSION = {
    # Other readers take Spark's own default, INT96, for nanoseconds, which end in the year 2262.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.writeLegacyFormat": "false",
    "spark.sql.sources.commitProtocolClass": (
        "org.apache.spark.sql.execution.datasources.SQLHadoopMapReduceCommitProtocol"
    ),
    "spark.sql.parquet.output.committer.class": "org.apache.parquet.hadoop.ParquetOutputCommitter",
}
"""Settings that cannot be given as options. A session that Tidegauge starts has these from the beginning."""

_UNSHARED = "fs.s3a.impl.disable.cache"
_seen: dict[str, str] = {}
_lock = threading.Lock()

_FULL = re.compile(r"No space left on device|Disk quota exceeded")
_DENIED = re.compile(
    r"AccessDeniedException|InvalidAccessKeyId|SignatureDoesNotMatch|\(Permission denied\)|Mkdirs failed"
)
_PATTERN = re.compile(r"[\[\]{}*?\\]")
_NO_S3A = re.compile(r"ClassNotFoundException: Class org\.apache\.hadoop\.fs\.s3a\.")


def on_connect(session: SparkSession) -> bool:
    return type(session).__module__.startswith("pyspark.sql.connect")


def path_of(lake: Lake, relative: str) -> str:
    """The full path of a file as Hadoop takes it: nothing is percent-encoded."""
    if lake.on_s3:
        return f"{settings_of(lake).place}/{relative}"
    return f"file:{lake.path.rstrip('/')}/{relative}"


def literal(path: str) -> str:
    """Escape a path to read, so that it is no pattern. With Spark's own switch for that, `__globPaths__`, one
    path with a bracket in it lets Spark read every file as many times as there are paths."""
    return _PATTERN.sub(r"\\\g<0>", path)


def options_of(lake: Lake) -> dict[str, str]:
    """The options with the address and the keys of the lake's bucket; empty for a local folder."""
    if not lake.on_s3:
        return {}
    settings = settings_of(lake)
    options = {
        "fs.s3a.endpoint.region": settings.region,
        "fs.s3a.path.style.access": "true" if settings.endpoint else "false",
    }
    if settings.endpoint:
        options["fs.s3a.endpoint"] = settings.endpoint
        options["fs.s3a.connection.ssl.enabled"] = str(not settings.endpoint.startswith("http:")).lower()
    if settings.access_key and settings.secret_key:
        options["fs.s3a.access.key"] = settings.access_key.reveal()
        options["fs.s3a.secret.key"] = settings.secret_key.reveal()
        provider = "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"
    else:
        provider = "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"
    options["fs.s3a.aws.credentials.provider"] = provider
    if _differs(settings.bucket, options):
        options[_UNSHARED] = "true"
    return options


def configure_bucket(session: SparkSession, lake: Lake) -> None:
    """Make this session use the lake's settings in the lake's bucket; other buckets keep theirs."""
    if not lake.on_s3:
        return
    bucket = settings_of(lake).bucket
    for name, value in options_of(lake).items():
        # Hadoop reads this one only under its general name, not for each bucket.
        own = name if name == _UNSHARED else name.replace("fs.s3a.", f"fs.s3a.bucket.{bucket}.", 1)
        session.conf.set(own, value)


def configure_session(spark: SparkSession) -> None:
    """Set `SESSION`, so that files look the same whatever the session's owner has set. Settings that are
    right already are not touched."""
    for name, value in SESSION.items():
        if spark.conf.get(name, value) != value:
            spark.conf.set(name, value)


def is_scattered(spark: SparkSession) -> bool:
    """Whether executors may be on other machines, with other disks."""
    return not str(spark.conf.get("spark.master", "")).startswith("local")


def translate_hadoop_error(error: Exception, place: str) -> TidegaugeError | None:
    """The error for a Spark job that failed because of the place it wrote to; None if it failed otherwise."""
    text = mask(with_causes(error))
    if _FULL.search(text):
        return OutputUnreachable(
            f"no space is left to write to {place}",
            hint="free some space; the next run goes on where this one stopped",
            detail=text,
        )
    if _NO_S3A.search(text):
        return RuntimeMissing(
            f"Spark cannot write to {place}: it has no S3A file system",
            hint="let Tidegauge start the session, or add hadoop-aws to the cluster",
            detail=text,
        )
    if "UnknownStoreException" in text or "NoSuchBucket" in text:
        return OutputUnreachable(
            f"Spark finds no bucket for {place}",
            hint="create the bucket, or correct `path` and `endpoint` of the connection",
            retryable=False,
            detail=text,
        )
    if _DENIED.search(text):
        return OutputUnreachable(
            f"Spark may not write to {place}",
            hint="check that the executors have the keys or the permission to write there",
            retryable=False,
            detail=text,
        )
    return None


def _differs(bucket: str, options: dict[str, str]) -> bool:
    """Whether the options differ from the first ones of this bucket in this process: with those Hadoop has
    made the one client that it keeps for the bucket."""
    mark = hashlib.sha256(repr(sorted(options.items())).encode()).hexdigest()
    with _lock:
        return _seen.setdefault(bucket, mark) != mark
