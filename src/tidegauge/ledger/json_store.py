"""JSON files on a local file system or S3: one for each table, replaced by compare-and-set."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from tidegauge.errors import LedgerError
from tidegauge.ledger import json_logs
from tidegauge.ledger.document_store import (
    LOGS,
    AssignedNumbers,
    Entry,
    LoadedDocuments,
    NumberedRecord,
    OpenFlow,
    StoredFlow,
    WriterCameBetween,
)
from tidegauge.ledger.json_document import (
    FORMAT,
    TableDocument,
    newer_format_error,
    parse,
    render,
    replace_flows,
    table_of,
)
from tidegauge.ledger.json_logs import map_in_threads
from tidegauge.ledger.storage_errors import translate_storage_error
from tidegauge.model.spec import Lake
from tidegauge.storage.clock import Clock
from tidegauge.storage.folder import folder_name
from tidegauge.storage.local import TEMPORARY
from tidegauge.storage.probe import check_store
from tidegauge.storage.store import Store, open_store

FOLDER = "watermarks"
_LEFTOVER_AGE = timedelta(days=1)
"""The age from which a temporary file counts as left behind by a killed writer."""
_MARK = "tidegauge.json"
_MARK_BODY = json.dumps({"tidegauge": "ledger", "format": FORMAT}).encode() + b"\n"


@dataclass(frozen=True)
class _File:
    document: TableDocument | None
    token: str | None


@dataclass(frozen=True)
class _Seen:
    files: Mapping[str, _File]
    """By path; the document is None where there was no file."""
    paths: Mapping[str, str]
    """By flow, the path of its file."""


class JsonDocumentStore:
    """Implements DocumentStore. A file holds every flow of one table, of any pipeline; where the file system
    ignores case, also the flows of tables whose names differ by case alone."""

    def __init__(self, store: Store, shown: str) -> None:
        self._store = store
        self._clock = Clock(store)
        self.shown = shown

    @classmethod
    def open(cls, lake: Lake, *, shown: str, create: bool) -> JsonDocumentStore | None:
        """The store at a local folder or `s3a://` path. One that does not exist is made with `create`, and
        None without it.

        With `create` the store has to prove, once in a process, that of many who put or replace a file at
        once only one wins. Raises LedgerError if it does not, LedgerVersion for a ledger of newer code.
        """
        with translate_storage_error(shown):
            store = open_store(lake)
            mark = store.get(_MARK)
            if create:
                identity = (lake.path, lake.endpoint, lake.region, lake.access_key, lake.secret_key)
                check_store(store, identity, replacing=True)
                if mark is None:
                    store.put_if_absent(_MARK, _MARK_BODY)
                    mark = store.get(_MARK)
            if mark is None and not any(True for _ in store.list(FOLDER)):
                return None
        _check_mark(mark or _MARK_BODY, f"{store.place}/{_MARK}")
        return cls(store, shown)

    def now(self) -> datetime:
        with translate_storage_error(self.shown):
            return self._clock.now().replace(tzinfo=None)

    def pipelines(self) -> list[str]:
        documents = [file.document for file in self._read_all().values() if file.document]
        return sorted(
            {stored_flow.pipeline for document in documents for stored_flow in document.stored_flows}
        )

    def load(self, pipeline: str, flows: Sequence[str] | None = None) -> LoadedDocuments:
        files = self._read_all() if flows is None else self._read(sorted({path_of(flow) for flow in flows}))
        stored_flows: dict[str, StoredFlow] = {}
        paths = {} if flows is None else {flow: path_of(flow) for flow in flows}
        for path, file in files.items():
            for stored_flow in file.document.stored_flows if file.document else ():
                # Skip a copy that somebody has made under another name: it is not the flow's file.
                if stored_flow.pipeline != pipeline or _fold_case(path_of(stored_flow.flow)) != _fold_case(
                    path
                ):
                    continue
                if flows is None or stored_flow.flow in paths:
                    stored_flows[stored_flow.flow] = stored_flow
                    paths[stored_flow.flow] = path
        return LoadedDocuments(pipeline, stored_flows, _Seen(files, paths))

    def save(self, loaded: LoadedDocuments, stored_flows: Iterable[StoredFlow]) -> None:
        seen: _Seen = loaded.token
        by_path: dict[str, list[StoredFlow]] = {}
        for stored_flow in stored_flows:
            by_path.setdefault(seen.paths[stored_flow.flow], []).append(stored_flow)

        def replace(path: str) -> bool:
            file = seen.files[path]
            body = render(replace_flows(file.document, by_path[path]))
            return self._store.replace(path, body, file.token) is not None

        paths = sorted(by_path)
        with translate_storage_error(self.shown):
            won = dict(zip(paths, map_in_threads(self._store, replace, paths), strict=True))
        if not all(won.values()):
            raise WriterCameBetween(
                frozenset(stored_flow.flow for path in paths if won[path] for stored_flow in by_path[path])
            )

    def append(self, log: str, entries: Sequence[Entry]) -> None:
        with translate_storage_error(self.shown):
            json_logs.append(self._store, log, entries)

    def show(
        self,
        pipeline: str,  # noqa: ARG002
        flows: Sequence[OpenFlow],  # noqa: ARG002
        logs: Sequence[str],  # noqa: ARG002
        *,
        whole: bool = False,  # noqa: ARG002
    ) -> bool:
        """Does nothing: people read the files themselves."""
        return True

    def numbers(self, log: str) -> AssignedNumbers:  # noqa: ARG002
        return AssignedNumbers()

    def records(self) -> list[NumberedRecord]:
        return []

    def read(
        self,
        log: str,
        pipeline: str,
        *,
        flow: str | None = None,
        kinds: Sequence[str] | None = None,
        limit: int | None = None,
    ) -> list[Entry]:
        with translate_storage_error(self.shown):
            return json_logs.read(self._store, log, pipeline, flow=flow, kinds=kinds, limit=limit)

    def prune(self, log: str, pipeline: str, before: datetime, *, keep: Collection[str] = ()) -> int:
        with translate_storage_error(self.shown):
            if log == LOGS[0]:
                self._delete_leftovers()
            return json_logs.prune(self._store, log, pipeline, before, keep)

    def close(self) -> None:
        """Does nothing: connections are shared by the whole process."""

    def _delete_leftovers(self) -> None:
        """Delete the temporary files of writers that were killed inside a save."""
        limit = self._clock.now() - _LEFTOVER_AGE
        left = [
            entry.path
            for entry in self._store.list(FOLDER)
            if entry.path.endswith(TEMPORARY) and entry.modified < limit
        ]
        self._store.delete(left, below=FOLDER)

    def _read_all(self) -> dict[str, _File]:
        with translate_storage_error(self.shown):
            listed = [entry.path for entry in self._store.list(FOLDER)]
        names = {path: path.rpartition("/")[2] for path in listed}
        return self._read(
            [path for path, name in names.items() if name.endswith(".json") and not name.startswith(".")]
        )

    def _read(self, paths: Sequence[str]) -> dict[str, _File]:
        with translate_storage_error(self.shown):
            return dict(zip(paths, map_in_threads(self._store, self._file, paths), strict=True))

    def _file(self, path: str) -> _File:
        found = self._store.read(path)
        if found is None:
            return _File(None, None)
        return _File(parse(found[0], f"{self._store.place}/{path}"), found[1])


def path_of(flow: str) -> str:
    return f"{FOLDER}/{folder_name(table_of(flow))}.json"


def _fold_case(path: str) -> str:
    """The path as a file system sees it that ignores case."""
    return path.casefold()


def _check_mark(body: bytes, file: str) -> None:
    try:
        found = json.loads(body)["format"]
    except (ValueError, KeyError, TypeError):
        raise LedgerError(
            f"{file} is not the mark of a ledger",
            hint="point `ledger:` at another folder, or bring back a copy",
        ) from None
    if found != FORMAT:
        raise newer_format_error(file, found)
