"""A manifest: the one small file by which a batch's data files belong to the table.

`<table's folder>/_tidegauge/<epoch>/<seq>.json`. The fields for people and other programs come first
(`files`, `rows`, `windows`, `schema`, `run_id`), then those that identify the batch exactly.
"""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from tidegauge.errors import OutputDisagrees, OutputUnreachable, TidegaugeError
from tidegauge.model.plan import Batch, Receipt, Tag, window_from_dict, window_to_dict
from tidegauge.model.position import Window
from tidegauge.model.staged import DataFile
from tidegauge.model.table import Field, Layout
from tidegauge.storage.store import Store

FORMAT = 1
MANIFESTS = "_tidegauge"
DATA = "data"
COMPACTIONS = "compacted"
"""A folder of its own, so that older versions do not take compacted files for leftovers."""
_COMPACTION = re.compile(rf"{COMPACTIONS}/(\d+)-(\d+)-(\d+)-[0-9a-f]{{32}}/", re.ASCII)
COPIES = f"{MANIFESTS}/copy"
"""The folder for manifests that a warehouse reads; each exists only while its COPY runs."""

_PATIENCE = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
_NAME = re.compile(r"(0|[1-9]\d*)/(?:(0|[1-9]\d*)|open)\.json")


_There = TypeVar("_There")


@dataclass(frozen=True)
class Removal:
    """A batch's files were removed on purpose. Its manifest stays, since the batch was committed."""

    at: str
    """When, by the store's clock, in UTC."""
    why: str
    """LOADED, EARLIER or COMPACTED."""
    reason: str

    def __str__(self) -> str:
        return f"cleaned away at {self.at[:19].replace('T', ' ')} UTC ({self.why}: {self.reason})"


LOADED, EARLIER, COMPACTED = "loaded", "earlier epoch", "replaced by compaction"
"""Why files were removed: every load has passed the batch; no reader follows its epoch; its rows are in a
compacted file."""


@dataclass(frozen=True)
class Compaction:
    """Where the rows of a compacted batch are, besides its own files as long as those exist."""

    at: str
    """When, by the store's clock, in UTC."""
    reason: str
    committed: str
    """When the batch was committed; its manifest's file has the date of the last change."""
    files: tuple[DataFile, ...]
    """For each of the batch's own files, in order, the compacted file and the place of its rows there."""
    before: tuple[str, ...] = ()
    """Paths of compacted files that had the rows before."""


@dataclass(frozen=True)
class Manifest:
    """A committed batch: its tag, its files, and what was read."""

    tag: Tag
    files: tuple[DataFile, ...]
    """The files that the batch wrote; see `sources`."""
    windows: tuple[Window, ...]
    nulls: bool
    inputs: tuple[str, ...]
    """The name of each window's input."""
    cursor: str
    schema: tuple[Field, ...]
    run_id: str
    key: tuple[str, ...] = ()
    """Key columns of the table; empty also in manifests from before lakes could be loaded."""
    cursor_column: str | None = None
    removed: Removal | None = None
    """Set where `files` were removed; they are still named."""
    compacted: Compaction | None = None

    @property
    def gone(self) -> Removal | None:
        """Set where the batch's rows can no longer be read; None: they can."""
        return None if self.compacted and self.removed and self.removed.why == COMPACTED else self.removed

    @property
    def sources(self) -> tuple[DataFile, ...]:
        """The files that the batch's rows are read from, in order."""
        return self.compacted.files if self.compacted else self.files

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    @property
    def receipt(self) -> Receipt:
        size = sum(file.bytes for file in self.files)
        # Nothing is deleted in a lake; how many rows are new there is not known.
        return Receipt(self.tag, self.windows, self.rows, len(self.files), size, self.run_id, deleted=0)


@dataclass(frozen=True, order=True)
class BatchNumber:
    """The epoch and number of a batch; they sort by number, not as text."""

    epoch: int
    seq: int


def manifest_of(
    tag: Tag, batch: Batch, files: Sequence[DataFile], *, layout: Layout, run_id: str
) -> Manifest:
    return Manifest(
        tag=tag,
        files=tuple(files),
        windows=batch.windows,
        nulls=batch.nulls,
        inputs=(str(layout.table),) * len(batch.windows),
        cursor=layout.cursor,
        schema=layout.fields,
        run_id=run_id,
        key=layout.key,
        cursor_column=layout.cursor_column,
    )


def path_of(folder: str, epoch: int, seq: int) -> str:
    return f"{folder}/{MANIFESTS}/{epoch}/{seq}.json"


def list_batches(store: Store, folder: str) -> list[BatchNumber]:
    """Every manifest of every epoch, in order; only their names are read."""
    return list_manifests(store, folder)[0]


def list_manifests(store: Store, folder: str) -> tuple[list[BatchNumber], list[int]]:
    """Every manifest in order, and every epoch that was opened."""
    top = f"{folder}/{MANIFESTS}/"
    found = [_NAME.fullmatch(entry.path.removeprefix(top)) for entry in store.list(top.rstrip("/"))]
    names = [name for name in found if name]
    batches = sorted(BatchNumber(int(name[1]), int(name[2])) for name in names if name[2])
    return batches, sorted(int(name[1]) for name in names if not name[2])


def load(store: Store, folder: str, epoch: int, seq: int, *, durable: bool = False) -> Manifest | None:
    """The manifest of a batch; None where there is none. Raises OutputDisagrees, which names the file, for
    one that is damaged or not ours."""
    path = path_of(folder, epoch, seq)
    body = store.get(path, durable=durable)
    if body is None:
        return None
    manifest = parse(body, f"{store.place}/{path}")
    if (manifest.tag.epoch, manifest.tag.seq) != (epoch, seq):
        raise foreign(
            f"{store.place}/{path}", f"it is of epoch {manifest.tag.epoch}, batch {manifest.tag.seq}"
        )
    return manifest


def put_once(store: Store, path: str, body: bytes, there: Callable[[], _There | None]) -> _There | None:
    """Put a file that is put only once. None: it was put. If somebody else was first: what `there` reads."""
    for pause in _PATIENCE:
        if store.put_if_absent(path, body):
            return None
        theirs = there()
        if theirs is not None:
            return theirs
        # Somebody else puts it at the same moment: then S3 may refuse both, and neither file is there.
        time.sleep(pause)
    raise OutputUnreachable(
        f"{store.place}/{path} could not be put, and is not there either",
        hint="another runner may be at the same batch; try again",
    )


def render(manifest: Manifest) -> bytes:
    tag = manifest.tag
    body = {
        "files": [{"path": f.path, "rows": f.rows, "bytes": f.bytes} for f in manifest.files],
        "rows": manifest.rows,
        "windows": [
            {"input": name, "cursor": manifest.cursor, **window.to_json()}
            for name, window in zip(manifest.inputs, manifest.windows, strict=True)
        ],
        "schema": [{"name": f.name, "type": f.type, "source_type": f.source_type} for f in manifest.schema],
        "key": list(manifest.key),
        "cursor_column": manifest.cursor_column,
        "run_id": manifest.run_id,
        "tidegauge": FORMAT,
        "pipeline": tag.pipeline,
        "flow": tag.flow,
        "epoch": tag.epoch,
        "seq": tag.seq,
        "nulls": manifest.nulls,
        "exact_windows": [window_to_dict(window) for window in manifest.windows],
    }
    # ASCII only: a name may hold half a surrogate pair, which UTF-8 cannot.
    return (json.dumps(body, indent=1) + "\n").encode()


def parse(body: bytes, name: str) -> Manifest:
    """Read what `render` wrote, and check it; `name` is the file's name in errors. Raises OutputDisagrees."""
    try:
        return _parse(json.loads(body))
    except (ValueError, KeyError, TypeError, AttributeError, AssertionError, TidegaugeError) as error:
        raise foreign(name, f"{type(error).__name__}: {error}") from error


def _parse(body: dict[str, Any]) -> Manifest:
    if integer(body["tidegauge"]) != FORMAT:
        raise ValueError(f"its format is {body['tidegauge']}, and this version reads {FORMAT}")
    tag = Tag(text(body["pipeline"]), text(body["flow"]), integer(body["epoch"]), integer(body["seq"]))
    manifest = Manifest(
        tag=tag,
        files=tuple(_parse_file(file) for file in body["files"]),
        windows=tuple(window_from_dict(window) for window in body["exact_windows"]),
        nulls=bool(body["nulls"]),
        inputs=tuple(text(window["input"]) for window in body["windows"]),
        cursor=next((text(window["cursor"]) for window in body["windows"]), ""),
        schema=tuple(
            Field(text(field["name"]), text(field["type"]), text(field["source_type"]))
            for field in body["schema"]
        ),
        run_id=text(body["run_id"]),
        key=tuple(text(name) for name in body.get("key", ())),
        cursor_column=body.get("cursor_column") and text(body["cursor_column"]),
        removed=_parse_removal(body.get("removed")),
    )
    manifest = replace(manifest, compacted=_parse_compaction(body.get("compacted"), manifest.files))
    if manifest.rows != integer(body["rows"]):
        raise ValueError(f"its files have {manifest.rows} rows, and it says {body['rows']}")
    if [window.to_json() for window in manifest.windows] != [
        {"after": window["after"], "upto": window["upto"]} for window in body["windows"]
    ]:
        raise ValueError("its windows do not agree with each other")
    return manifest


def _parse_removal(body: dict[str, Any] | None) -> Removal | None:
    return None if body is None else Removal(text(body["at"]), text(body["why"]), text(body["reason"]))


def _parse_compaction(body: dict[str, Any] | None, files: Sequence[DataFile]) -> Compaction | None:
    if body is None:
        return None
    places = [_parse_file(one | {"rows": file.rows}) for one, file in zip(body["files"], files, strict=True)]
    return Compaction(
        text(body["at"]),
        text(body["reason"]),
        text(body["committed"]),
        tuple(places),
        tuple(map(text, body["before"])),
    )


def mark_compacted(body: bytes, compaction: Compaction) -> bytes:
    """The manifest with one more field. An older version of Tidegauge ignores it and reads the batch's own
    files as long as they exist."""
    said = {
        "at": compaction.at,
        "reason": compaction.reason,
        "committed": compaction.committed,
        "files": [{"path": one.path, "bytes": one.bytes, "first": one.first} for one in compaction.files],
        "before": list(compaction.before),
    }
    return (json.dumps({**json.loads(body), "compacted": said}, indent=1) + "\n").encode()


def name_compaction(epoch: int, first: int, last: int) -> str:
    """A new folder name for the compacted files of these batches."""
    return f"{COMPACTIONS}/{epoch}-{first}-{last}-{uuid.uuid4().hex}"


def compacted_batches(path: str) -> tuple[int, int, int] | None:
    """The batches in the path of a compacted file: epoch, first and last; None for another path."""
    found = _COMPACTION.match(path)
    return (int(found[1]), int(found[2]), int(found[3])) if found else None


def mark_touched(body: bytes) -> bytes:
    """The same manifest with different bytes, so that nobody can replace it by the token of the old one."""
    return (json.dumps({**json.loads(body), "touched": uuid.uuid4().hex}, indent=1) + "\n").encode()


def mark_removed(body: bytes, removal: Removal) -> bytes:
    """The manifest with one more field. An older version of Tidegauge ignores it and finds files missing."""
    said = {"at": removal.at, "why": removal.why, "reason": removal.reason}
    return (json.dumps({**json.loads(body), "removed": said}, indent=1) + "\n").encode()


def refuse_removed(place: str, manifests: Iterable[Manifest], anew: str) -> None:
    """Raises OutputDisagrees where the rows of a batch are gone. `anew`: the hint how to get them again."""
    gone = [one for one in manifests if one.gone]
    if gone:
        first = gone[0]
        more = f", and {len(gone) - 1} more," if len(gone) > 1 else ""
        verb = "were" if len(gone) > 1 else "was"
        raise OutputDisagrees(
            f"{place}: batch {first.tag.seq} of epoch {first.tag.epoch}{more} {verb} {first.gone}, and has"
            " to be read",
            hint=f"read these rows from the source again: {anew}",
        )


def _parse_file(body: dict[str, Any]) -> DataFile:
    path = text(body["path"])
    parts = path.split("/")
    top = COMPACTIONS if "first" in body else DATA
    if parts[0] != top or len(parts) < 2 or any(part in ("", ".", "..") for part in parts) or "\0" in path:
        raise ValueError(f"{path!r} is not a path inside the table's {top} folder")
    first = integer(body["first"]) if "first" in body else None
    return DataFile(path, integer(body["rows"]), integer(body["bytes"]), first)


def text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not text")
    return value


def integer(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{value!r} is not a count")
    return value


def foreign(name: str, reason: str) -> OutputDisagrees:
    return OutputDisagrees(
        f"{name} is not a file that Tidegauge wrote whole ({reason})",
        hint="somebody changed or copied it: put it back from a backup; nothing was changed",
    )
