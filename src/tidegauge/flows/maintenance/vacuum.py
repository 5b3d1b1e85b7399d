"""Vacuum Delta tables, without removing files that a flow of the project still has to read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from urllib.parse import unquote

from tidegauge.delta_log.commit import parse_commit, time_of
from tidegauge.delta_log.location import damaged_error, lake_of, missing_error
from tidegauge.delta_log.log import ListedLog
from tidegauge.errors import OutputError, SourceError, WrongState
from tidegauge.flows.maintenance.base import MaintainedTable, Maintenance, MaintenanceResult, open_log
from tidegauge.flows.maintenance.vacuum_needs import NeededFiles, VacuumCommit, find_needed_files
from tidegauge.model.retention import FILE_RETENTION, retention, shown
from tidegauge.model.run import FlowStatus
from tidegauge.model.state import State
from tidegauge.spark.errors import translate_spark_error

_CHECK = "spark.databricks.delta.retentionDurationCheck.enabled"
_LOGGED = "spark.databricks.delta.vacuum.logging.enabled"
_FEED = "_change_data"
_VACUUMED = "VACUUM END"
_VACUUM_AGAIN = timedelta(days=1)
"""Least time between two vacuums: each one lists every file of the table."""
_MOST = 1000
"""How many paths Delta's dry run names at most."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def check(maintenance: Maintenance, target: MaintainedTable, retain: timedelta | None) -> timedelta:
    """Return how long a vacuum of this table keeps files: `retain`, or else what the table's properties say.

    Raises WrongState if a reader still needs files that would go.
    """
    log = open_log(target)
    assert log.latest is not None
    try:
        state = log.state(log.latest)
        if state is None:
            raise missing_error(target.location, lake_of(target.location, target.table.storage))
        own = retention(state.properties, FILE_RETENTION)
        kept = own if retain is None else retain
        statuses, flows = maintenance.flows()
        if kept < own and target.delta_flow is not None:
            _refuse_writer(target, statuses.get(target.delta_flow.name), kept, own)
        earliest = min(log.commits, default=log.latest + 1)
        readers = flows.of(target.location, state.table_id, earliest)
        first = min((reader.after for reader in readers), default=log.latest) + 1
        commits = _read_commits(log, max(first, earliest))
        lost = find_needed_files(readers, commits, retain=kept, own=own, now=datetime.now(UTC))
    except OutputError as error:
        raise SourceError(f"{target.name}: {error.message}", hint=error.hint) from error
    except (ValueError, KeyError, TypeError) as error:
        raise SourceError(
            f"{target.name}: the log of {target.location} cannot be read: {error}",
            hint="a commit or checkpoint in its _delta_log is damaged or missing; nothing was removed",
        ) from error
    if lost:
        raise _refusal(target, lost, own)
    return kept


def vacuum(
    maintenance: Maintenance, target: MaintainedTable, retain: timedelta | None, *, dry_run: bool = False
) -> MaintenanceResult:
    """Remove files that are older than `check` allows. `dry_run`: only count them."""
    kept = check(maintenance, target, retain)
    hours = kept.total_seconds() / 3600
    with maintenance.session_of(target) as session, translate_spark_error(target.name):
        # Delta's own check does not know the readers; `check` has just asked each of them.
        session.conf.set(_CHECK, "true" if retain is None else "false")
        session.conf.set(_LOGGED, "true")
        words = f"VACUUM {target.sql} RETAIN {hours:.6f} HOURS{' DRY RUN' if dry_run else ''}"
        rows = session.sql(words).collect()
    if dry_run:
        # Delta also names folders of its change feed, which it removes only once they are empty.
        files = [row for row in rows if row[0].endswith(".parquet") or f"/{_FEED}" not in row[0]]
        return MaintenanceResult(target, retain=kept, removed=len(files), more=len(rows) >= _MOST)
    return MaintenanceResult(target, retain=kept, removed=_count_deleted(target), done=True)


def find_vacuum_reason(target: MaintainedTable, now: datetime) -> str | None:
    """Why a vacuum with the table's own retention would remove nothing, or too little; None: it pays."""
    log = open_log(target)
    assert log.latest is not None
    try:
        state = log.state(log.latest)
        own = retention(state.properties if state else {}, FILE_RETENTION)
        newest_first = sorted(log.commits, reverse=True)
        begun = time_of(log.commit(0) or b"") if 0 in log.commits else None
        if begun is not None and now - begun < own:
            return f"nothing in it is older than {shown(own)}"
        for version in newest_first:
            body = log.commit(version) or b""
            at = time_of(body)
            if at is None or now - at >= _VACUUM_AGAIN:
                return None
            if parse_commit(version, body).info.get("operation") == _VACUUMED:
                return f"it was vacuumed less than {shown(_VACUUM_AGAIN)} ago"
    except (ValueError, KeyError, TypeError) as error:
        raise damaged_error(target.location, error) from error
    return None


def _read_commits(log: ListedLog, first: int) -> list[VacuumCommit]:
    assert log.latest is not None
    numbers = [number for number in range(first, log.latest + 1) if number in log.commits]
    parsed = [
        (number, parse_commit(number, body))
        for number, body in zip(numbers, log.bodies(numbers), strict=True)
        if body
    ]
    written: dict[str, datetime] = {}
    if any(commit.cdc for _, commit in parsed):
        written = {entry.path: _utc(entry.modified) for entry in log.store.list(_FEED)}
    return [
        VacuumCommit(
            number,
            removed=min(
                (
                    _EPOCH + timedelta(milliseconds=int(one.get("deletionTimestamp") or 0))
                    for one in commit.removed
                ),
                default=None,
            ),
            # Only files that still exist: a vacuum cannot remove others.
            feed=min(
                (written[path] for one in commit.cdc if (path := unquote(one["path"])) in written),
                default=None,
            ),
        )
        for number, commit in parsed
    ]


def _count_deleted(target: MaintainedTable) -> int | None:
    """How many files the vacuum removed, by the commit that it left; None: it left none."""
    log = ListedLog(lake_of(target.location, target.table.storage))
    for number in sorted(log.commits, reverse=True)[:3]:
        for line in (log.commit(number) or b"").splitlines():
            info = json.loads(line).get("commitInfo", {}) if _VACUUMED.encode() in line else {}
            if info.get("operation") == _VACUUMED:
                count = (info.get("operationMetrics") or {}).get("numDeletedFiles")
                return None if count is None else int(count)
    return None


def _refuse_writer(
    target: MaintainedTable, status: FlowStatus | None, kept: timedelta, own: timedelta
) -> None:
    """Refuse a short retention while the flow that writes the table runs: its uncommitted files could go."""
    if status is not None and status.state is State.RUNNING:
        raise WrongState(
            f"{target.name} is running, and files that it has not committed yet are no part of any version:"
            f" keeping only {shown(kept)} could take them",
            hint=f"wait until it has ended, or keep {shown(own)} as the table itself says",
            retryable=True,
        )


def _refusal(target: MaintainedTable, lost: Sequence[NeededFiles], own: timedelta) -> WrongState:
    flows = ", ".join(dict.fromkeys(need.reader.flow for need in lost))
    oldest = max(need.age for need in lost)
    hint = f"run {flows} first"
    if oldest < own:
        hours = int(oldest.total_seconds() // 3600) + 2
        hint += f", or keep more: --retain {hours}h"
    return WrongState(
        f"{target.name}: {lost[0].text}" + (f"; so do {len(lost) - 1} more readers" if len(lost) > 1 else ""),
        hint=f"{hint}; nothing was removed",
    )


def _utc(moment: datetime) -> datetime:
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
