"""Check that a table is still the one that a watermark, or a frozen plan, was made for. Pure."""

from __future__ import annotations

import json
from collections.abc import Collection

from tidegauge.errors import SourceError
from tidegauge.model.identity import digest, identify, read_identity
from tidegauge.model.position import Position, to_json
from tidegauge.model.spec import TableFlow
from tidegauge.model.table import SourceColumn, SourceTable


def check_identity(
    flow: TableFlow, source_table: SourceTable, known: str | None, position: Position | None = None
) -> None:
    """Raise SourceError where the watermark was taken over another table, another cursor or key, or another
    `where`."""
    if known is None or known == identify(source_table):
        return
    then, now = read_identity(known), read_identity(identify(source_table))
    assert now is not None
    if then is None or then.table != now.table:
        raise SourceError(
            f"{flow.name}: this is not the table its watermark was taken from"
            f" (then {known.rpartition('#')[0]}, now {now.table})",
            hint="point the connection back at the old database; if the table was made anew, begin again with"
            f" `tidegauge watermark reset -t {flow.name}`",
        )
    if then.order != now.order:
        raise SourceError(
            f"{flow.name}: its cursor or key is not the one its watermark was taken with",
            hint="put the old cursor and key back; to read everything again by the new ones use"
            f" `tidegauge watermark reset -t {flow.name}`",
        )
    if then.where != now.where and not then.by_hand:
        where = flow.options.where
        raise SourceError(
            f"{flow.name}: its `where` is not the one its watermark was taken with, and rows from below the"
            " watermark that only the new one takes would never be read",
            hint=f"put the old one back, or {_explain_restart(flow, position)}",
            place=where.place if where else flow.options.place,
        )


def check_masks(
    flow: TableFlow,
    source_table: SourceTable,
    known: str | None,
    held: Collection[str],
    position: Position | None,
) -> None:
    """Raise SourceError where a column's mask has changed, so that old and new rows would not match.

    `held` are the columns that the output has. A column that the output lacks is new, and may have any mask.
    """
    if known is None or known == identify(source_table):
        return
    then = read_identity(known)
    if then is None or then.by_hand:
        return
    there = {name.casefold() for name in held}
    for column in source_table.columns:
        before, after = then.masks.get(digest(column.name)), column.mask or None
        new = before is None and column.name.casefold() not in there
        if before == after or new:
            continue
        raise _make_mask_error(flow, column, before, position)


def _make_mask_error(
    flow: TableFlow, column: SourceColumn, before: str | None, position: Position | None
) -> SourceError:
    both = bool(before and column.mask)
    what = "another mask than" if both else "a mask now, unlike" if column.mask else "no mask, unlike"
    places = [one.place for one in flow.options.mask if one.place]
    return SourceError(
        f"{flow.name}: the column {column.name} has {what} in the rows that are there already, which would"
        " stay as they are",
        hint=f"put the mask back as it was, or {_explain_restart(flow, position)}",
        place=places[0] if places else flow.options.place,
    )


def _explain_restart(flow: TableFlow, position: Position | None) -> str:
    here = json.dumps(to_json(position), ensure_ascii=False)
    return (
        f"write the table anew: `tidegauge run --select {flow.refresh_name} --full-refresh`; to"
        f" read it all again over what is there: `tidegauge watermark reset -t {flow.name} --reason …`; if"
        f" only what comes from here on is meant: `tidegauge watermark set -t {flow.name} --position '{here}'"
        " --reason …`"
    )
