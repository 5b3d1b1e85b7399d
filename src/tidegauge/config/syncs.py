"""Turns the entries of `sync:` into syncs: what is moved from where to where."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tidegauge.config import values as config_values
from tidegauge.config.check import Problems
from tidegauge.config.column_keys import check_condition
from tidegauge.config.combinations import conflicts
from tidegauge.config.connections import Connections
from tidegauge.config.ends import SyncEnds, find_ends, refuse_itself
from tidegauge.config.expectations import make_expectations
from tidegauge.config.problems import InvalidValue, KeyPath, quoted
from tidegauge.config.project_keys import SyncKeys, TableKeys
from tidegauge.errors import Place
from tidegauge.model.choices import WithoutCursor
from tidegauge.model.columns import RowFilter
from tidegauge.model.delta_flow import TableRef
from tidegauge.model.expectation import Expectation
from tidegauge.model.mode import Mode
from tidegauge.model.schedule import FlowSchedule
from tidegauge.model.spec import (
    DeleteMode,
    Drift,
    Execution,
    FutureGuard,
    Lake,
    NullCursor,
    ReadMethod,
    Sync,
    TableOptions,
)

_NEED_CURSOR = (
    "add `cursor: COLUMN` to the sync, or to every override; `without_cursor: snapshot` reads tables whole"
)


def make_syncs(
    check: Problems, written: Any, connections: Connections, schedule: FlowSchedule | None = None
) -> list[Sync]:
    """The syncs of the file. `schedule` is for those that have none of their own."""
    found = [
        _make_sync(check, body, ("sync", index), connections, schedule)
        for index, body in enumerate(written if isinstance(written, list) else ())
    ]
    return [sync for sync in found if sync is not None]


def _make_sync(
    check: Problems,
    body: Any,
    trail: KeyPath,
    connections: Connections,
    schedule: FlowSchedule | None,
) -> Sync | None:
    if not isinstance(body, dict):
        check.add("each entry of `sync` must be a mapping", trail)
        return None
    keys = check.keys(SyncKeys, body, trail)
    overrides = body["override"] if isinstance(body.get("override"), dict) else {}
    tables: dict[str, TableKeys | None] = {
        pattern: check.keys(TableKeys, part, (*trail, "override", pattern))
        for pattern, part in overrides.items()
    }
    if keys is None:
        return None
    ends = find_ends(check, keys, trail, connections)
    given = _merge_overrides(keys, tables, overrides, trail)
    expected = _make_sync_expectations(check, given, trail)
    made = {
        where: replace(_make_table_options(check, values, where, ends), expect=expected[where])
        for where, values in given.items()
    }
    options = made[trail]
    merged = {str(where[-1]): found for where, found in made.items() if where != trail}
    if _lacks_cursor(options):
        if not tables:
            check.add("the key `cursor` is missing", trail, hint=_NEED_CURSOR, at_key=True)
        _require_cursors(check, merged, trail)
    if ends is None:
        return None
    for where, found in made.items():
        _refuse_conflicts(check, found, ends, frozenset(given[where]), where=where, sync=trail)
    refuse_itself(check, ends, keys.tables, options, merged, trail)
    return Sync(
        source=ends.source,
        via=ends.via,
        to=ends.to,
        tables=keys.tables,
        exclude=keys.exclude,
        options=options,
        per_table=merged,
        tags=keys.tags,
        place=check.document.place(trail),
        schedule=keys.schedule if "schedule" in keys.model_fields_set else schedule,
    )


def _make_sync_expectations(
    check: Problems, given: Mapping[KeyPath, Mapping[str, Any]], sync: KeyPath
) -> dict[KeyPath, tuple[Expectation, ...]]:
    """The expectations of the sync and of each override; an override without `expect` has the sync's."""
    made: dict[KeyPath, tuple[Expectation, ...]] = {}
    for where, values in given.items():
        if "expect" not in values:
            made[where] = ()
        elif where != sync and (*where, "expect") not in check.document.values:
            made[where] = made[sync]
        else:
            made[where] = make_expectations(check, values["expect"], (*where, "expect"), _looked_up)
    return made


def _looked_up(place: Mapping[str, Any], trail: KeyPath) -> TableRef:  # noqa: ARG001
    """The table of a foreign key, in the warehouse that the sync fills."""
    if "path" in place:
        raise InvalidValue(
            "a foreign key of a sync is looked up in the warehouse that it fills",
            hint="name a table there with `table`",
            trail=("path",),
        )
    return TableRef(name=config_values.text(place["table"]))


def _merge_overrides(
    keys: SyncKeys, tables: Mapping[str, TableKeys | None], overrides: Mapping[str, Any], trail: KeyPath
) -> dict[KeyPath, dict[str, Any]]:
    """The keys that the user wrote, by trail: those of the sync, and for each override the sync's keys with
    its own on top. A key that an override sets to null counts as not written."""
    given: dict[KeyPath, dict[str, Any]] = {trail: _given(keys)}
    for pattern, part in tables.items():
        if part is not None:
            kept = {
                key: value
                for key, value in _given(keys).items()
                if overrides[pattern].get(key, "") is not None
            }
            given[*trail, "override", pattern] = {**kept, **_given(part)}
    return given


def _given(keys: TableKeys) -> dict[str, Any]:
    """The keys of a table that the user wrote, with their values."""
    return {name: getattr(keys, name) for name in TableKeys.model_fields if name in keys.model_fields_set}


def _make_table_options(
    check: Problems, given: dict[str, Any], trail: KeyPath, ends: SyncEnds | None
) -> TableOptions:
    keys = TableKeys.model_construct(**given)
    options = TableOptions(
        cursor=keys.cursor.column if keys.cursor else "",
        epoch=keys.cursor.epoch if keys.cursor else None,
        future_guard=FutureGuard(keys.future_guard),
        without_cursor=WithoutCursor(keys.without_cursor),
        key=keys.key,
        settle=keys.settle,
        lookback=keys.lookback,
        initial=keys.initial,
        batch_rows=keys.batch_rows,
        # Inside the database one statement reads the whole window.
        parallel=1 if keys.execute == Execution.DATABASE else keys.parallel,
        null_cursor=NullCursor(keys.null_cursor),
        ignore_transactions_after=keys.open_transactions,
        types=keys.types,
        columns=replace(keys.columns, place=_place(check, trail, "columns")),
        mask=tuple(
            replace(one, place=_place(check, trail, "mask", one.pattern, at_key=True)) for one in keys.mask
        ),
        where=_make_row_filter(check, keys.where, trail, ends),
        zero_dates=keys.zero_dates,
        rename=keys.rename,
        mode=Mode(keys.mode),
        drift=Drift(keys.drift),
        read=ReadMethod(keys.read),
        execute=Execution(keys.execute),
        deletes=DeleteMode(keys.deletes),
        deletes_limit=keys.deletes_limit,
        metadata_columns=keys.metadata_columns,
        distkey=keys.distkey,
        sortkey=keys.sortkey,
        deletion_vectors=keys.deletion_vectors,
        hybrid=keys.hybrid,
        place=check.document.key_place(trail),
    )
    if "mode" not in given and ends is not None and isinstance(ends.to, Lake) and not ends.to.delta:
        return replace(options, mode=Mode.APPEND)
    return options


def _make_row_filter(
    check: Problems, text: str | None, trail: KeyPath, ends: SyncEnds | None
) -> RowFilter | None:
    if text is None:
        return None
    if ends is not None:
        written = check.first_written((*trail, "where"), (*trail[:2], "where"))
        check.attempt(lambda: check_condition(text, ends.source.engine), written)
    return RowFilter(text, _place(check, trail, "where"))


def _place(check: Problems, trail: KeyPath, *key: str, at_key: bool = False) -> Place:
    """The place of a key in the override or, if it is not there, in the sync."""
    found = check.first_written((*trail, *key), (*trail[:2], *key))
    return check.document.key_place(found) if at_key else check.document.place(found)


def _refuse_conflicts(
    check: Problems,
    options: TableOptions,
    ends: SyncEnds,
    written: frozenset[str],
    *,
    where: KeyPath,
    sync: KeyPath,
) -> None:
    for conflict in conflicts(options, ends, written):
        # A key in the override itself is a better place for the error than one it has from the sync.
        places = [(*trail, key) for trail in (where, sync) for key in conflict.keys]
        found = next((trail for trail in places if trail in check.document.values), where)
        check.add(conflict.message, found, hint=conflict.hint, at_key=True)


def _lacks_cursor(options: TableOptions) -> bool:
    return not options.cursor and options.without_cursor is WithoutCursor.FAIL


def _require_cursors(check: Problems, merged: Mapping[str, TableOptions], trail: KeyPath) -> None:
    for pattern, options in merged.items():
        if _lacks_cursor(options):
            where = (*trail, "override", pattern)
            check.add(
                f"the key `cursor` is missing for {quoted(pattern)}", where, hint=_NEED_CURSOR, at_key=True
            )
