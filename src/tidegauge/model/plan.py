"""A plan: the frozen windows of one flow, cut into batches, before anything is read."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tidegauge.model.expectation import Checks
from tidegauge.model.position import Position, Window, encode, from_body, to_body

# Made once: json.dumps would make one for every call.
_to_text = json.JSONEncoder(ensure_ascii=False).encode


class ReadWay(StrEnum):
    """How the window of a Delta input is read."""

    FEED = "feed"
    """Its change data feed, version by version."""
    FILES = "files"
    """The files that its versions added, where they did nothing else."""
    SNAPSHOT = "snapshot"
    """The whole table as it is at the window's end; what the output has besides goes."""
    DIFF = "diff"
    """What differs between the table at the window's two ends."""
    PINNED = "pinned"
    """No change of it counts: the whole table at the window's end, to be joined with."""
    COLUMN = "column"
    """Of a table without versions: the rows that a column puts into the window, or all there are."""
    NOTHING = "nothing"
    """Nothing has changed in the window; it may be empty."""


@dataclass(frozen=True)
class Batch:
    """A part of the plan's window: the unit of commit and of recovery."""

    windows: tuple[Window, ...]
    """One for each input of the plan, in the same order."""
    splits: tuple[Position, ...] = ()
    """Points inside the first window where parallel readers meet: one reads up to it, the next from it on."""
    rows: int | None = None
    """As counted when the plan was made; the truth is what was written."""
    nulls: bool = False
    """Reads the rows whose cursor is NULL, and nothing else."""
    again: bool = False
    """Reads below the watermark (`lookback`), so the watermark stays until the plan's last batch moves it."""
    empty: bool = False
    """Reads no rows: makes the output of a table that has none, with its columns."""
    deletes: bool = False
    """Reads no rows: takes from the output the keys that the source no longer has."""
    empties: bool = False
    """Reads no rows: the source has none, and the output is left with none."""
    repairs: Window | None = None
    """Reads again the rows up to this window's end that a comparison, made when it is written, finds missing
    or different in the output; with `deletes`: takes away what was too many there, and says how many in
    `rows`."""
    ways: tuple[ReadWay, ...] = ()
    """Of Delta inputs, how each one's window is read; in the order of the windows."""
    stamps: tuple[str | None, ...] = ()
    """When the source committed the upper end of each window; empty: known of the plan's end alone."""


NO_INDEX = "no index begins with"
"""How the note begins that says so of a cursor. It holds for many tables alike, and people read it once."""


@dataclass(frozen=True)
class InputPlan:
    """One input's part of a plan."""

    input: str
    cursor: str
    """The cursor's kind: `timestamp`, `value`, `version` or `files`."""
    window: Window | None
    """Up to the last row found. None while nothing is safe to read yet; a plan with batches has one."""
    source_id: str
    """Which server and table this is, so that a plan is never run against another one."""
    fingerprint: str
    """Of the columns and types that will be read."""
    pending: str | None = None
    """What the next plan has to know: `model.pending.Pending` as text."""
    stamp: str | None = None
    """When the source committed the upper end, where the source says so: a version's commit, the newest row
    of a batch of files. ISO 8601, in UTC unless the column that it comes from has no zone."""
    since: str | None = None
    """The same of the lower end, as the ledger knew it when it kept the plan."""
    checked: Position | None = None
    """The bound: how far the source was looked at, where that is further than the window's last row."""


@dataclass(frozen=True)
class Draft:
    """What planning found out about one flow. Without batches there is nothing new."""

    pipeline: str
    flow: str
    inputs: tuple[InputPlan, ...]
    batches: tuple[Batch, ...]
    rows_null: int = 0
    rows_waiting: int = 0
    notes: tuple[str, ...] = ()
    """What a person should know: a missing index, a transaction that holds the bound back."""
    limit_notes: tuple[str, ...] = ()
    """Those of the notes that say what a limit leaves for another run."""
    seen: tuple[int, int] | None = None
    """Epoch and sequence number of the watermark that the draft goes on from. The ledger keeps the draft only
    while that is still where the flow stands; None: the caller answers for that."""
    strategy: str | None = None
    """What ran side by side: sequential, inter-table or intra-table; None where it was not recorded."""

    @property
    def rows(self) -> int:
        return sum(batch.rows or 0 for batch in self.batches)

    def stamp(self, index: int, place: int) -> str | None:
        """When the source committed the end of a batch, for the input at a place; None: not known."""
        if self.batches[index].stamps:
            return self.batches[index].stamps[place]
        return self.inputs[place].stamp if index == len(self.batches) - 1 else None


@dataclass(frozen=True)
class Plan:
    """A draft that the ledger keeps."""

    plan_id: str
    draft: Draft
    epoch: int
    first_seq: int
    """The sequence number of the first batch; numbers go on from plan to plan within an epoch."""
    done: int = 0
    """How many of its batches have been advanced past."""

    def tag(self, index: int) -> Tag:
        return Tag(self.draft.pipeline, self.draft.flow, self.epoch, self.first_seq + index)


@dataclass(frozen=True)
class Tag:
    """What an output keeps in the same commit as a batch's rows."""

    pipeline: str
    flow: str
    epoch: int
    seq: int


@dataclass(frozen=True)
class Receipt:
    """What the output says of a committed batch."""

    tag: Tag
    windows: tuple[Window, ...]
    rows: int
    files: int
    bytes: int
    run_id: str
    inserted: int | None = None
    """None, here and below, where the output cannot know it."""
    updated: int | None = None
    deleted: int | None = None
    paths: tuple[str, ...] = ()
    """The files of a lake that the batch took its rows from, oldest first; none where it read a database."""
    read: int | None = None
    """Changed rows that went into it; None: as many as were written."""
    checks: Checks | None = None
    """What its expectations found; None where the flow has none."""


def window_to_dict(window: Window) -> dict[str, Any]:
    return {"after": to_body(window.after), "upto": to_body(window.upto)}


def window_from_dict(body: dict[str, Any]) -> Window:
    return Window(from_body(body["after"]), from_body(body["upto"]))


def draft_to_json(draft: Draft) -> str:
    """The ledger's text for everything but the names, which are columns of their own.

    The batches, which are most of it, are written by hand: that takes a third of the time.
    """
    rest = _to_text(_draft_body(draft))
    return f'{rest[:-1]}, "batches": [{",".join([_batch_text(batch) for batch in draft.batches])}]}}'


def draft_to_body(draft: Draft) -> dict[str, Any]:
    """What `draft_to_json` writes, for those who put it into a larger document."""
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
        "splits": [to_body(split) for split in batch.splits],
        "rows": batch.rows,
        "nulls": batch.nulls,
        "again": batch.again,
        **_batch_more(batch),
    }


def _batch_text(batch: Batch) -> str:
    windows = ",".join([_window_text(window) for window in batch.windows])
    splits = ",".join([encode(split) for split in batch.splits])
    rows = "null" if batch.rows is None else batch.rows
    flags = f'"nulls":{_word(batch.nulls)},"again":{_word(batch.again)}'
    more = _batch_more(batch)
    rest = f",{_to_text(more)[1:]}" if more else "}"
    return f'{{"windows":[{windows}],"splits":[{splits}],"rows":{rows},{flags}{rest}'


def _window_text(window: Window) -> str:
    return f'{{"after":{encode(window.after)},"upto":{encode(window.upto)}}}'


def _word(flag: bool) -> str:
    return "true" if flag else "false"


def _batch_more(batch: Batch) -> dict[str, Any]:
    """What few batches have."""
    return {
        **({"empty": True} if batch.empty else {}),
        **({"deletes": True} if batch.deletes else {}),
        **({"empties": True} if batch.empties else {}),
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
        splits=tuple(split for split in splits if split is not None),
        rows=body["rows"],
        nulls=body["nulls"],
        again=body["again"],
        empty=body.get("empty", False),
        deletes=body.get("deletes", False),
        empties=body.get("empties", False),
        repairs=window_from_dict(body["repairs"]) if body.get("repairs") else None,
        ways=tuple(ReadWay(way) for way in body.get("ways", ())),
        stamps=tuple(body.get("stamps", ())),
    )
