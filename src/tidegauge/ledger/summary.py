"""The summary of a table that people and other programs read, from what its stages have done. A field that is
not known is null."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from tidegauge.ledger.journal import describe_error
from tidegauge.ledger.log_entries import moment_text
from tidegauge.model.position import FilesPosition, Position, RowPosition, VersionPosition, to_moment
from tidegauge.model.run import RunRecord
from tidegauge.model.state import State
from tidegauge.model.unix_times import moment_of
from tidegauge.model.watermark import Tally

_S3A, _S3 = "s3a://", "s3://"


def stage_row(
    *,
    state: State,
    run: RunRecord | None,
    cursor: str | None,
    position: Position | None,
    stamp: str | None,
    tally: Tally,
    created_at: datetime | None,
    updated_at: datetime | None,
) -> dict[str, Any]:
    """What `table_fields` needs of a stage, in plain JSON values; document_store.ROW explains them."""
    text, number = split_position(position)
    return {
        "state": state.value,
        "run_state": run.state.value if run else None,
        "error": describe_error(run.error) if run and run.error else None,
        "cursor": cursor,
        "position": text,
        "version": number,
        "time": _text(to_moment(position, cursor or "", stamp)),
        "manual": tally.manual,
        "advanced_at": _text(tally.advanced_at),
        "total_rows": tally.rows,
        "total_batches": tally.batches,
        "total_files": tally.files,
        "total_seconds": tally.seconds,
        "strategy": tally.strategy,
        "loaded_files": tally.loaded_files,
        "created_at": _text(created_at),
        "updated_at": _text(updated_at),
    }


def table_fields(
    table: str,
    extract: Mapping[str, Any] | None,
    load: Mapping[str, Any] | None,
    loaded: Sequence[str],
) -> dict[str, Any]:
    """The summary's fields. `extract` and `load` are the rows of the stages, at least one; `loaded` are the
    files that the load has taken."""
    read, put = extract or {}, load or {}
    both = [row for row in (read, put) if row]
    errors = [row["error"] for row in both if row["error"]]
    return {
        "table_name": table,
        "last_mysql_extraction_time": _moment(read.get("advanced_at")),
        "last_mysql_data_timestamp": _data_moment(read),
        "mysql_rows_extracted": read.get("total_rows"),
        "mysql_status": _status(read),
        "last_redshift_load_time": _moment(put.get("advanced_at")),
        "redshift_rows_loaded": put.get("total_rows"),
        "redshift_status": _status(put),
        "backup_strategy": read.get("strategy"),
        "s3_file_count": read.get("total_files"),
        "processed_s3_files": [_to_s3_uri(path) for path in loaded] if put else None,
        "processed_s3_file_count": put.get("loaded_files") if put else None,
        "last_error": errors[0] if errors else None,
        "created_at": _moment(min((row["created_at"] for row in both if row["created_at"]), default=None)),
        "updated_at": _moment(max((row["updated_at"] for row in both if row["updated_at"]), default=None)),
        "metadata": _metadata(read, put, both),
    }


def _metadata(
    read: Mapping[str, Any], put: Mapping[str, Any], stages: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    batches = read.get("total_batches")
    return {
        "manual_watermark": any(row["manual"] for row in stages),
        "total_processing_time_seconds": round(sum(row["total_seconds"] for row in stages), 6),
        "average_batch_size": read["total_rows"] // batches if batches else None,
        # A run that found nothing new has the status `success`, so only these two fields show it.
        "mysql_nothing_new": found_nothing(read),
        "redshift_nothing_new": found_nothing(put),
    }


def split_position(position: Position | None) -> tuple[str | None, int | None]:
    """The cursor's text, or the number of a version or of a batch of files; (None, None) for no position."""
    match position:
        case None:
            return None, None
        case RowPosition(cursor, _):
            return cursor.text, None
        case VersionPosition(version):
            return None, version
        case FilesPosition(sequence):
            return None, sequence


def _status(row: Mapping[str, Any]) -> str | None:
    state = row.get("run_state")
    if state == "SUCCESS" and row["state"] == "READY" and row["advanced_at"] is None:
        return None  # a reset has undone what that run did
    if found_nothing(row):
        return "success"
    return state.lower() if state else None


def found_nothing(row: Mapping[str, Any]) -> bool:
    """Whether the stage's last run went well and found nothing new."""
    return row.get("run_state") == "SKIPPED"


def _data_moment(row: Mapping[str, Any]) -> str | None:
    """The time up to which the data has been read. Of a database the cursor's own digits, with a zone only if
    the column has one; of a Delta table the time of the commit; None for other cursors."""
    if row.get("cursor") == "version":
        return _moment(row.get("time"))
    if row.get("cursor") != "timestamp" or row["position"] is None:
        return None
    number = moment_of(str(row["position"]))
    return f"{_text(number)}Z" if number else str(row["position"]).replace(" ", "T")


def _to_s3_uri(path: str) -> str:
    """The path with `s3://` for `s3a://`, which only Hadoop knows."""
    return _S3 + path.removeprefix(_S3A) if path.startswith(_S3A) else path


def _moment(text: str | None) -> str | None:
    return f"{text}Z" if text else None


def _text(moment: datetime | None) -> str | None:
    return None if moment is None else moment_text(moment)
