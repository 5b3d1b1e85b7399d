"""A plan: the frozen windows of one flow, cut into batches, before anything is read."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tidegauge.model.expectation import Checks
from tidegauge.model.position import Position, Window, encode, from_body, to_body

# One encoder for all calls: json.dumps would create one for each call.
_to_text = json.JSONEncoder(ensure_ascii=False).encode


class ReadWay(StrEnum):
    """How the window of a Delta input is read."""

    FEED = "feed"
    """The change data feed, version by version."""
    FILES = "files"
    """The files that its versions added, if those versions did nothing else."""
    SNAPSHOT = "snapshot"
    """The whole table at the window's end; the output deletes everything else that it has."""
    DIFF = "diff"
    """The difference between the table at the window's two ends."""
    PINNED = "pinned"
    """The whole table at the window's end, to join with; its changes start no work."""
    COLUMN = "column"
    """For a table without versions: the rows whose column value lies in the window, or all rows."""
    NOTHING = "nothing"
    """Nothing has changed in the window, which may be empty."""


@dataclass(frozen=True)
class Batch:
    """A part of the plan's window: the unit of commit and of recovery."""

    windows: tuple[Window, ...]
    """One window for each input of the plan, in the same order."""
    split_points: tuple[Position, ...] = ()
    """Points that cut the first window for parallel readers: one reads up to a point, the next from there."""
    rows: int | None = None
    """Number of rows when the plan was made; the number that is written may differ."""
    nulls: bool = False
    """Whether the batch reads only the rows whose cursor is NULL."""
    rereads: bool = False
    """Whether it reads below the watermark (`lookback`): the watermark stays until the plan's last batch."""
    creates_output: bool = False
    """Whether it reads no rows, and only creates the output, with its columns, for a table without rows."""
    deletes: bool = False
    """Whether it reads no rows, and deletes from the output the keys that the source no longer has."""
    empties_output: bool = False
    """Whether it reads no rows, and deletes all rows of the output, because the source has none."""
    repairs: Window | None = None
    """If set, the batch is a repair up to this window's end: when written, it compares source and output, and
    reads the rows that are missing or different in the output. With `deletes` it removes the rows that only
    the output has; `rows` is their number."""
    ways: tuple[ReadWay, ...] = ()
    """For Delta inputs: how each window is read, in the order of the windows."""
    stamps: tuple[str | None, ...] = ()
    """When the source committed the upper end of each window; empty: known only for the plan's end."""

    @property
    def kind(self) -> str:
        """What it does to the output, as outputs note it: two batches of one window may differ in it."""
        if self.empties_output:
            return EMPTIES
        return DELETES if self.deletes else NULLS if self.nulls else BATCH


BATCH, NULLS, DELETES, EMPTIES = "batch", "nulls", "deletes", "empties"
"""Kinds of batches."""

NO_INDEX = "no index begins with"
"""How the note begins that a cursor has no index. Many tables can have this note, so it is shown once."""


@dataclass(frozen=True)
class InputPlan:
    """One input's part of a plan."""

    input: str
    cursor: str
    """The cursor's kind: `timestamp`, `value`, `version`, `files`, or `snapshot` for what is read whole."""
    window: Window | None
    """Ends at the last row found. None if nothing is safe to read yet; never None in a plan with batches."""
    source_id: str
    """Identifies server and table, so that a plan is never run against another one."""
    fingerprint: str
    """Fingerprint of the columns and types that will be read."""
    pending: str | None = None
    """What the next plan has to know, as the text of `model.pending.Pending`."""
    stamp: str | None = None
    """When the source committed the upper end, if known: for a version its commit, for a batch of files its
    newest row. ISO 8601, in UTC unless it comes from a column without a zone."""
    since: str | None = None
    """When the source committed the lower end, as the ledger knew it when it stored the plan."""
    checked: Position | None = None
    """How far the source was looked at, if that is further than the window's last row."""


def describe_window(of_input: str | None, cursor: str | None, window: Window) -> dict[str, Any]:
    """A window as documents show it; input and cursor are None where they are not known."""
    return {"input": of_input, "cursor": cursor, **window.to_json()}


@dataclass(frozen=True)
class Draft:
    """The result of planning one flow, not yet in the ledger. Without batches there is nothing new."""

    pipeline: str
    flow: str
    inputs: tuple[InputPlan, ...]
    batches: tuple[Batch, ...]
    rows_null: int = 0
    rows_waiting: int = 0
    notes: tuple[str, ...] = ()
    """Notes for people: a missing index, a transaction that holds the bound back."""
    limit_notes: tuple[str, ...] = ()
    """The subset of `notes` about what a limit leaves for another run."""
    seen: tuple[int, int] | None = None
    """Epoch and sequence number of the watermark that the draft starts from. The ledger accepts the draft
    only if the flow still stands there; None: the caller guarantees it."""
    strategy: str | None = None
    """The `Strategy` of the run: what ran in parallel; None if not recorded."""

    @property
    def rows(self) -> int:
        return sum(batch.rows or 0 for batch in self.batches)

    def windows_to_json(self) -> list[dict[str, Any]]:
        return [
            describe_window(part.input, part.cursor, part.window)
            for part in self.inputs
            if part.window is not None
        ]

    def stamp(self, index: int, place: int) -> str | None:
        """Return when the source committed the end of a batch, for the input at a place; None: not known."""
        if self.batches[index].stamps:
            return self.batches[index].stamps[place]
        return self.inputs[place].stamp if index == len(self.batches) - 1 else None


@dataclass(frozen=True)
class Plan:
    """A draft stored in the ledger."""

    plan_id: str
    draft: Draft
    epoch: int
    first_seq: int
    """Sequence number of the first batch; within an epoch numbers continue from plan to plan."""
    done: int = 0
    """How many batches have been committed and advanced."""

    def tag(self, index: int) -> Tag:
        return Tag(self.draft.pipeline, self.draft.flow, self.epoch, self.first_seq + index)


@dataclass(frozen=True)
class Tag:
    """Identifies a batch: an output stores the tag in the same commit as the batch's rows."""

    pipeline: str
    flow: str
    epoch: int
    seq: int


@dataclass(frozen=True)
class Receipt:
    """What the output reports about a committed batch."""

    tag: Tag
    windows: tuple[Window, ...]
    rows: int
    files: int
    bytes: int
    run_id: str
    inserted: int | None = None
    """Number of inserted rows; like `updated` and `deleted` None if the output cannot know it."""
    updated: int | None = None
    deleted: int | None = None
    paths: tuple[str, ...] = ()
    """The lake files that the batch read, oldest first; empty if it read a database."""
    read: int | None = None
    """Number of changed rows that the batch read; None: as many as were written."""
    checks: Checks | None = None
    """What the expectations found; None if the flow has none."""


def window_to_dict(window: Window) -> dict[str, Any]:
    return {"after": to_body(window.after), "upto": to_body(window.upto)}


def window_from_dict(body: dict[str, Any]) -> Window:
    return Window(from_body(body["after"]), from_body(body["upto"]))


def draft_to_json(draft: Draft) -> str:
    """Return the ledger's text for a draft, without the names of pipeline and flow, which are columns.

    The batches, which are most of the text, are formatted by hand: that takes a third of the time.
    """
    rest = _to_text(_draft_body(draft))
    return f'{rest[:-1]}, "batches": [{",".join([_batch_text(batch) for batch in draft.batches])}]}}'


def draft_to_body(draft: Draft) -> dict[str, Any]:
    """Return the same as `draft_to_json` before it becomes text, for use in a larger document."""
    return _draft_body(draft) | {"batches": [_batch_body(batch) for batch in draft.batches]}


def _draft_body(draft: Draft) -> dict[str, Any]:
    return {
        "inputs": [
            {
                "input": part.input,
                "cursor": part.cursor,
                "window": window_to_dict(part.window) if part.window else None,
                "source_id": part.source_id,
                "fingerprint": part.fingerprint,
                "stamp": part.stamp,
                **({"pending": part.pending} if part.pending else {}),
                **({"checked": to_body(part.checked)} if part.checked else {}),
                **({"since": part.since} if part.since else {}),
            }
            for part in draft.inputs
        ],
        "rows_null": draft.rows_null,
        "rows_waiting": draft.rows_waiting,
        "notes": list(draft.notes),
        **({"limit_notes": list(draft.limit_notes)} if draft.limit_notes else {}),
        "strategy": draft.strategy,
    }


def _batch_body(batch: Batch) -> dict[str, Any]:
    return {
        "windows": [window_to_dict(window) for window in batch.windows],
        "splits": [to_body(split) for split in batch.split_points],
        "rows": batch.rows,
        "nulls": batch.nulls,
        "again": batch.rereads,
        **_rare_fields(batch),
    }


def _batch_text(batch: Batch) -> str:
    windows = ",".join([_window_text(window) for window in batch.windows])
    splits = ",".join([encode(split) for split in batch.split_points])
    rows = "null" if batch.rows is None else batch.rows
    flags = f'"nulls":{_flag_text(batch.nulls)},"again":{_flag_text(batch.rereads)}'
    more = _rare_fields(batch)
    rest = f",{_to_text(more)[1:]}" if more else "}"
    return f'{{"windows":[{windows}],"splits":[{splits}],"rows":{rows},{flags}{rest}'


def _window_text(window: Window) -> str:
    return f'{{"after":{encode(window.after)},"upto":{encode(window.upto)}}}'


def _flag_text(flag: bool) -> str:
    return "true" if flag else "false"


def _rare_fields(batch: Batch) -> dict[str, Any]:
    """Return the fields that few batches have."""
    return {
        **({"empty": True} if batch.creates_output else {}),
        **({"deletes": True} if batch.deletes else {}),
        **({"empties": True} if batch.empties_output else {}),
        **({"repairs": window_to_dict(batch.repairs)} if batch.repairs else {}),
        **({"ways": list(batch.ways)} if batch.ways else {}),
        **({"stamps": list(batch.stamps)} if batch.stamps else {}),
    }


def draft_from_json(pipeline: str, flow: str, text: str) -> Draft:
    return draft_from_body(pipeline, flow, json.loads(text))


def draft_from_body(pipeline: str, flow: str, body: dict[str, Any]) -> Draft:
    return Draft(
        pipeline=pipeline,
        flow=flow,
        inputs=tuple(
            InputPlan(
                part["input"],
                part["cursor"],
                window_from_dict(part["window"]) if part["window"] else None,
                part["source_id"],
                part["fingerprint"],
                pending=part.get("pending"),
                stamp=part.get("stamp"),
                checked=from_body(part.get("checked")),
                since=part.get("since"),
            )
            for part in body["inputs"]
        ),
        batches=tuple(_batch(batch) for batch in body["batches"]),
        rows_null=body["rows_null"],
        rows_waiting=body["rows_waiting"],
        notes=tuple(body["notes"]),
        limit_notes=tuple(body.get("limit_notes", ())),
        strategy=body.get("strategy"),
    )


def _batch(body: dict[str, Any]) -> Batch:
    splits = [from_body(split) for split in body["splits"]]
    return Batch(
        windows=tuple(window_from_dict(window) for window in body["windows"]),
        split_points=tuple(split for split in splits if split is not None),
        rows=body["rows"],
        nulls=body["nulls"],
        rereads=body["again"],
        creates_output=body.get("empty", False),
        deletes=body.get("deletes", False),
        empties_output=body.get("empties", False),
        repairs=window_from_dict(body["repairs"]) if body.get("repairs") else None,
        ways=tuple(ReadWay(way) for way in body.get("ways", ())),
        stamps=tuple(body.get("stamps", ())),
    )
