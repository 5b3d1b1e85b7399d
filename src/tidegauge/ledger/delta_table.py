"""One Delta table that only Tidegauge writes: its files at a version, and commits on exactly that version.

delta-rs opens the table and makes checkpoints. Commits are written without it: each is one file of the log,
put-if-absent, so that of many writers exactly one wins, and durable as soon as it can be seen, which delta-rs
does not promise on a local disk.
"""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from tidegauge.delta_log.commit import LOG, Commit, commit_path, parse_commit
from tidegauge.delta_log.delta_rs import address, is_panic, library, one_line, options
from tidegauge.delta_log.files import paths_of
from tidegauge.delta_log.log import ListedLog
from tidegauge.delta_log.protocol import catalogue_feature
from tidegauge.delta_log.snapshot import Log
from tidegauge.delta_log.write import commit_info, put_commit
from tidegauge.errors import LedgerError, LedgerUnreachable, LedgerVersion
from tidegauge.ledger.delta_snapshot import LedgerFile, LedgerSnapshot, apply_commits, partition_of
from tidegauge.ledger.storage_errors import translate_storage_error
from tidegauge.model.spec import Lake
from tidegauge.storage.clock import Clock, steady
from tidegauge.storage.store import Store, open_store

_READER, _WRITER = 1, 2
_CHECKPOINT_EVERY = 50
_CLEAN_EVERY = 500
_FRESH_SECONDS = 3600.0
"""How long a loaded version may be committed on. The log keeps its commits for days, so in that time nobody
can have written the next version and cleaned it away, and it cannot be written twice."""
_CONFIGURATION = {
    "delta.logRetentionDuration": "interval 7 days",
    "delta.deletedFileRetentionDuration": "interval 7 days",
    "tidegauge.ledger": "1",
}


class LedgerTable:
    def __init__(self, lake: Lake, store: Store, clock: Clock, name: str, columns: Mapping[str, str]) -> None:
        self._lake = replace(lake, path=f"{lake.path}/{name}")
        self._store = store
        self._clock = clock
        self.name = name
        self.columns = columns
        """The type of each column, by name. All are nullable."""
        self._partition = partition_of(columns)
        self._lock = threading.Lock()
        self._delta_table: Any = None
        self._newest: LedgerSnapshot | None = None
        self.shown = f"{lake.path}/{name}"

    def exists(self) -> bool:
        """Whether the table has a log. The log is not read."""
        with translate_storage_error(self.shown):
            return next(iter(self._store.list(f"{self.name}/{LOG}")), None) is not None

    def create(self) -> None:
        """Make the table, unless it exists."""
        now = self._milliseconds()
        fields = [
            {"name": name, "type": kind, "nullable": True, "metadata": {}}
            for name, kind in self.columns.items()
        ]
        metadata = {
            "id": str(uuid.uuid4()),
            "name": self.name,
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps({"type": "struct", "fields": fields}),
            "partitionColumns": [self._partition],
            "configuration": _CONFIGURATION,
            "createdTime": now,
        }
        protocol = {"minReaderVersion": _READER, "minWriterVersion": _WRITER}
        self._put(0, [commit_info(now, "CREATE TABLE"), {"protocol": protocol}, {"metaData": metadata}])

    def newest(self) -> LedgerSnapshot:
        """The table as it is now. Reads the commits that are new since the last call, one by one."""
        with self._lock:
            found = self._newest
            if found is None or steady() - found.seen > _FRESH_SECONDS:
                found = self._open()
            self._newest = self._catch_up(found)
            return self._newest

    def counter(self, snapshot: LedgerSnapshot, name: str) -> int:
        """The version of an application's last transaction, 0 before the first."""
        if name in snapshot.counters:
            return snapshot.counters[name]
        with self._lock, self._translate_errors():
            return int(self._delta_table.transaction_version(name) or 0)

    def get(self, file: LedgerFile) -> bytes:
        with translate_storage_error(self.shown):
            body = self._store.get(f"{self.name}/{file.place}")
        if body is None:
            raise LedgerError(
                f"the file {file.place} of the ledger's table {self.shown} is gone",
                hint="restore it; a file in use was removed by hand, or by a cleaning that did not wait",
            )
        return body

    def put(self, file: LedgerFile, body: bytes) -> None:
        """Write a data file under a new name. Nobody sees its rows before a commit adds it."""
        with translate_storage_error(self.shown):
            if not self._store.put_if_absent(f"{self.name}/{file.place}", body) and self.get(file) != body:
                raise LedgerError(f"{file.place} is there already in {self.shown}", retryable=True)

    def drop(self, places: Sequence[str]) -> None:
        with translate_storage_error(self.shown):
            self._store.delete([f"{self.name}/{path}" for path in places], below=self.name)

    def commit(
        self,
        on: LedgerSnapshot,
        add: Sequence[tuple[LedgerFile, Mapping[str, Any]]],
        remove: Sequence[LedgerFile],
        counters: Mapping[str, int],
    ) -> bool:
        """Add files, each with its statistics, and remove others, on exactly this version.

        False once anybody else has committed. After an error nobody knows whether the commit is there.
        """
        if steady() - on.seen > _FRESH_SECONDS:
            return False
        now = self._milliseconds()
        actions: list[dict[str, Any]] = [commit_info(now, "WRITE")]
        for file, stats in add:
            written = {"modificationTime": now, "dataChange": True, "stats": json.dumps(stats)}
            actions.append({"add": file.to_log(self._partition) | written})
        for file in remove:
            body = file.to_log(self._partition) | {"deletionTimestamp": now, "dataChange": True}
            actions.append({"remove": body | {"extendedFileMetadata": True}})
        for name, version in counters.items():
            actions.append({"txn": {"appId": name, "version": version, "lastUpdated": now}})
        won = self._put(on.version + 1, actions)
        if won and (on.version + 1) % _CHECKPOINT_EVERY == 0:
            self._checkpoint(on.version + 1)
        return won

    def tidy(self, older_than: timedelta) -> int:
        """Delete data files that the table has not used for `older_than`, and log files that no reader needs.
        Returns the number of data files."""
        used = {file.place for file in self.newest().files.values()}
        with translate_storage_error(self.shown):
            limit = self._clock.now() - older_than
            gone = [
                path
                for entry in self._store.list(self.name)
                if (path := entry.path.removeprefix(f"{self.name}/")) not in used
                and not path.startswith(f"{LOG}/")
                and entry.modified < limit
            ]
            if gone:
                recent = self._find_removed_since(limit)
                gone = [path for path in gone if path not in recent]
        self.drop(gone)
        with self._translate_errors():
            self._open_table().cleanup_metadata()
        return len(gone)

    def _find_removed_since(self, moment: datetime) -> set[str]:
        """The data files that were removed after this moment. A reader that looked before it may still need
        them."""
        log = Log(open_store(self._lake)).look()
        if log is None:
            return set()
        removed = [
            *log.checkpoint_actions("remove"),
            *(one for commit in log.since_checkpoint() for one in commit.removed),
        ]
        least = moment.timestamp() * 1000
        return {
            path for one in removed if (one.get("deletionTimestamp") or 0) >= least for path in paths_of(one)
        }

    def _open(self) -> LedgerSnapshot:
        import pyarrow as pa

        seen = steady()
        with self._translate_errors():
            self._delta_table = self._open_table()
            self._check_table()
            columns = pa.table(self._delta_table.get_add_actions(flatten=True)).to_pydict()
        count = len(columns["path"])
        partitions = columns.get(f"partition.{self._partition}") or [""] * count
        latest = columns.get("max.at") or [None] * count
        files = {
            path: LedgerFile(path, partition, rows or 0, size, moment)
            for path, partition, rows, size, moment in zip(
                columns["path"],
                partitions,
                columns["num_records"],
                columns["size_bytes"],
                latest,
                strict=True,
            )
        }
        return LedgerSnapshot(self._delta_table.version(), files, {}, seen)

    def _catch_up(self, snapshot: LedgerSnapshot) -> LedgerSnapshot:
        """Apply every commit after the snapshot. Nothing is listed: commits are numbered without gaps."""
        commits: list[Commit] = []
        while True:
            seen = steady()
            version = snapshot.version + len(commits) + 1
            with translate_storage_error(self.shown):
                body = self._store.get(f"{self.name}/{commit_path(version)}")
            if body is None:
                break
            commits.append(self._parse(version, body))
        if not commits:
            return replace(snapshot, seen=seen)
        return apply_commits(snapshot, commits, seen) or self._catch_up(self._open())

    def _parse(self, version: int, body: bytes) -> Commit:
        try:
            return parse_commit(version, body)
        except ValueError as error:
            raise LedgerError(
                f"the commit {version} of the ledger's table {self.shown} is damaged",
                hint="restore the file from a copy; nothing is written before it can be read",
            ) from error

    def _check_table(self) -> None:
        protocol = self._delta_table.protocol()
        if feature := catalogue_feature(
            [*(protocol.reader_features or ()), *(protocol.writer_features or ())]
        ):
            raise _catalogue_error(self.shown, feature)
        if protocol.min_reader_version > _READER or protocol.min_writer_version > _WRITER:
            raise _newer_code_error(
                self.shown,
                f"protocol {protocol.min_reader_version}/{protocol.min_writer_version},"
                f" where {_READER}/{_WRITER} is known",
            )
        made = self._delta_table.metadata().configuration.get("tidegauge.ledger")
        if made is None:
            raise LedgerError(
                f"{self.shown} is a Delta table, but none that Tidegauge made",
                hint="choose another folder for the ledger",
            )
        if made != _CONFIGURATION["tidegauge.ledger"]:
            raise _newer_code_error(
                self.shown, f"layout {made}, where {_CONFIGURATION['tidegauge.ledger']} is known"
            )

    def _read_features(self) -> Iterable[str]:
        """The table's features, read from the log because delta-rs cannot open the table; none where the log
        is damaged too."""
        with translate_storage_error(self.shown), suppress(OSError, ValueError, KeyError, TypeError):
            log = ListedLog(self._lake)
            state = None if log.latest is None else log.state(log.latest)
            return state.features if state else ()
        return ()

    def _open_table(self) -> Any:
        return library().DeltaTable(address(self._lake), storage_options=options(self._lake))

    def _put(self, version: int, actions: Sequence[Mapping[str, Any]]) -> bool:
        with translate_storage_error(self.shown):
            return put_commit(self._store, version, actions, self.name)

    def _checkpoint(self, version: int) -> None:
        """Write a checkpoint. Errors are ignored: the commit is there, and the next checkpoint makes up for
        this one."""
        try:
            with self._translate_errors():
                handle = self._open_table()
                handle.create_checkpoint()
                if version % _CLEAN_EVERY == 0:
                    handle.cleanup_metadata()
            with translate_storage_error(self.shown):
                name = f"{self.name}/{LOG}/{handle.version():020}.checkpoint.parquet"
                self._store.sync([name])
        except LedgerError:
            return

    def _milliseconds(self) -> int:
        """The store's time in milliseconds since 1970."""
        with translate_storage_error(self.shown):
            return int(self._clock.now().timestamp() * 1000)

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Translate errors of delta-rs into the ledger's errors."""
        exceptions = library().exceptions
        try:
            yield
        except LedgerError:
            raise
        except exceptions.DeltaError as error:
            text = one_line(error)
            if feature := catalogue_feature(self._read_features()):
                raise _catalogue_error(self.shown, feature) from error
            if "Unsupported" in text or isinstance(error, exceptions.DeltaProtocolError):
                raise _newer_code_error(self.shown, text) from error
            raise LedgerError(
                f"the ledger's table {self.shown} cannot be read: {text}",
                hint="a file of its _delta_log is damaged or missing; restore it from a copy",
            ) from error
        except OSError as error:
            raise LedgerUnreachable(
                f"the ledger's table {self.shown} cannot be reached: {one_line(error)}",
                hint="check the path, the endpoint, the keys and the network",
            ) from error
        except (ValueError, KeyError) as error:
            raise LedgerError(f"the ledger's table {self.shown} cannot be read: {one_line(error)}") from error
        except BaseException as error:
            if not is_panic(error):
                raise
            raise LedgerError(
                f"the ledger's table {self.shown} cannot be read here: {one_line(error)}",
                hint="start processes by `spawn` or `forkserver`; delta-rs does not survive a fork",
            ) from error


def _newer_code_error(shown: str, what: str) -> LedgerVersion:
    return LedgerVersion(
        f"the ledger's table {shown} was made or changed by newer code ({what})",
        hint="update tidegauge and deltalake; if a table feature was switched on by hand, drop it again",
    )


def _catalogue_error(shown: str, feature: str) -> LedgerError:
    return LedgerError(
        f"the ledger's table {shown} is committed to through a catalogue ({feature}), and a ledger decides by"
        " its own log alone",
        hint="choose a folder or schema whose tables have Delta's own log, or drop the table's feature",
    )
