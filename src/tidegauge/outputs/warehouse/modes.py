"""What each mode does to the target, in SQL that every engine understands, in the committing transaction.

No mode uses MERGE: half the engines have none, and the others disagree on its clauses. An UPDATE of the rows
that differ and an INSERT of those that are missing do the same, and each gives its count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tidegauge.model.delta_flow import IS_CURRENT, VALID_FROM, VALID_TO
from tidegauge.model.mode import Mode
from tidegauge.model.spec import DeleteMode, TableName
from tidegauge.outputs.warehouse.heads import Counts
from tidegauge.outputs.warehouse.history import rebuild
from tidegauge.outputs.warehouse.mode_target import (
    DELETED_AT,
    HISTORY,
    LOADED_AT,
    RUN_ID,
    ModeTarget,
    exists,
    match,
)
from tidegauge.outputs.warehouse.warehouse import StagingTable, WarehouseSession


def append(session: WarehouseSession, target: ModeTarget, stage: StagingTable) -> Counts:
    return Counts(inserted=_insert(session, target, stage.table, [field.name for field in stage.fields], ()))


def merge(session: WarehouseSession, target: ModeTarget, stage: StagingTable) -> Counts:
    return _merge(session, target, stage.table, _kinds(stage), stage.key)


def overwrite(session: WarehouseSession, target: ModeTarget, stage: StagingTable) -> Counts:
    """Make the target exactly the staged rows; a row that is the same already is not written.

    Readers see the table before or after, since it is one transaction.
    """
    columns = [field.name for field in stage.fields]
    gone = 0
    if stage.key:
        gone = session.run(
            target.warehouse.delete(target.table, f"NOT {exists(target, stage.table, stage.key)}")
        )
        merged = _merge(session, target, stage.table, _kinds(stage), stage.key, whole=True)
        staged = f"SELECT COUNT(*) FROM {target.warehouse.table(stage.table)}"
        if session.rows(f"SELECT COUNT(*) FROM {target.name}") == session.rows(staged):
            return Counts(merged.inserted, merged.updated, gone)
        # The target itself had a key more than once: all rows are replaced.
        gone -= merged.inserted
    gone += session.run(target.warehouse.delete(target.table, "1 = 1"))
    return Counts(inserted=_insert(session, target, stage.table, columns, ()), deleted=gone)


def empty_target(session: WarehouseSession, target: ModeTarget) -> Counts:
    return Counts(deleted=session.run(target.warehouse.delete(target.table, "1 = 1")))


def delete(
    session: WarehouseSession,
    target: ModeTarget,
    stage: StagingTable,
    how: DeleteMode,
    only: str | None = None,
) -> Counts:
    """Delete or mark the target's rows that have a staged key. `only`: SQL condition that picks some of the
    staged rows. A key that is not in the target (any more) changes nothing."""
    warehouse = target.warehouse
    if how is DeleteMode.HARD:
        found = exists(target, stage.table, stage.key, only)
        return Counts(deleted=session.run(warehouse.delete(target.table, found)))
    there = f"t.{warehouse.name(DELETED_AT)} IS NULL" + (f" AND {only}" if only else "")
    return _end(session, target, stage, [(DELETED_AT, warehouse.now)], there)


def close(session: WarehouseSession, target: ModeTarget, stage: StagingTable) -> Counts:
    """End the current version of each staged key at the staged `valid_to`, when the key was seen gone, or at
    the version's own start where that is later. A key without a current version changes nothing."""
    warehouse = target.warehouse
    start, end = f"t.{warehouse.name(VALID_FROM)}", f"s.{warehouse.name(VALID_TO)}"
    ended = f"CASE WHEN {end} > {start} THEN {end} ELSE {start} END"
    sets = [(VALID_TO, ended), (IS_CURRENT, warehouse.false)]
    return _end(session, target, stage, sets, f"t.{warehouse.name(IS_CURRENT)} = {warehouse.true}")


def _end(
    session: WarehouseSession,
    target: ModeTarget,
    stage: StagingTable,
    sets: list[tuple[str, str]],
    unless_ended: str,
) -> Counts:
    """Set columns in target rows that have a staged key and are not ended yet; they count as deleted."""
    warehouse = target.warehouse
    where = f"{match(warehouse, stage.key)} AND {unless_ended}"
    sql = warehouse.update(target.table, warehouse.table(stage.table), [*sets, *_stamps(target)], where)
    return Counts(deleted=session.run(sql, _values(target)))


def scd2(session: WarehouseSession, target: ModeTarget, stage: StagingTable) -> Counts:
    """Rebuild the history of every staged key into `target.history`, then make the target agree with it.

    The versions that the target has of a key are events too, so a late row lands between its neighbours. Of
    rows of one moment the one that was read last counts; a row that changes nothing but the cursor makes no
    version. A version that ends where no other begins was closed (`close`). The close is an event as well: a
    row from before it does not undo it, and a row from after it begins a version, whatever its values. Only
    where the batch was read after the close (`ModeTarget.live`) does a row with an earlier cursor undo it:
    the key was still there, so it was never gone. The counts are of versions.

    A row that is set aside makes no version, and ends the one before it. It replaces all that was known of
    its moment; so does a row that was set aside earlier and passes now.
    """
    warehouse, history, cursor = target.warehouse, target.history, target.cursor
    assert history is not None
    assert cursor is not None
    session.run(rebuild(target, stage, history, cursor))
    key = (*stage.key, VALID_FROM)
    gone = session.run(
        warehouse.delete(
            target.table,
            f"{exists(target, stage.table, stage.key)} AND NOT {exists(target, history, key)}",
        )
    )
    columns = _kinds(stage) | {field.name: field.type for field in target.vanished}
    merged = _merge(session, target, history, columns | dict.fromkeys(HISTORY, ""), key)
    return Counts(merged.inserted, merged.updated, gone)


def _merge(
    session: WarehouseSession,
    target: ModeTarget,
    source: TableName,
    columns: Mapping[str, str],
    key: Sequence[str],
    *,
    whole: bool = False,
) -> Counts:
    """Update the target's rows that differ from the source's and insert those that are missing.

    `columns`: the types of the columns, as `Warehouse.changed` takes them. Each key is in the source once. A
    row that did not change is not written, and keeps its values in vanished columns, unless the source is the
    `whole` table.
    """
    warehouse = target.warehouse
    if not target.is_filled(session):
        return Counts(inserted=_insert(session, target, source, list(columns), ()))
    rest = [name for name in columns if name not in key]
    pairs = [(f"t.{warehouse.name(name)}", f"s.{warehouse.name(name)}") for name in rest]
    changed = [
        warehouse.changed(old, new, columns[name]) for name, (old, new) in zip(rest, pairs, strict=True)
    ]
    sets = [(name, new) for name, (_, new) in zip(rest, pairs, strict=True)]
    gone = [field.name for field in target.vanished if field.name not in columns]
    sets += [(name, "NULL") for name in gone]
    if whole:
        changed += [f"t.{warehouse.name(name)} IS NOT NULL" for name in gone]
    if target.soft:
        changed.append(f"t.{warehouse.name(DELETED_AT)} IS NOT NULL")
        sets.append((DELETED_AT, "NULL"))
    updated = 0
    if changed:
        where = f"{match(warehouse, key)} AND ({' OR '.join(changed)})"
        sets += _stamps(target)
        updated = session.run(
            warehouse.update(target.table, warehouse.table(source), sets, where), _values(target)
        )
    return Counts(inserted=_insert(session, target, source, list(columns), key), updated=updated)


def _insert(
    session: WarehouseSession,
    target: ModeTarget,
    source: TableName,
    columns: Sequence[str],
    unless: Sequence[str],
) -> int:
    """Insert the rows of the source, except those whose key (the columns `unless`) is in the target."""
    warehouse = target.warehouse
    stamps = _stamps(target)
    into = ", ".join(warehouse.name(name) for name in (*columns, *(name for name, _ in stamps)))
    values = ", ".join((*(f"s.{warehouse.name(name)}" for name in columns), *(value for _, value in stamps)))
    sql = f"INSERT INTO {target.name} ({into}) SELECT {values} FROM {warehouse.table(source)} AS s"
    if unless:
        sql += f" WHERE NOT EXISTS (SELECT 1 FROM {target.name} AS t WHERE {match(warehouse, unless)})"
    return session.run(sql, _values(target))


def _kinds(stage: StagingTable) -> dict[str, str]:
    return {field.name: field.type for field in stage.fields}


def _stamps(target: ModeTarget) -> list[tuple[str, str]]:
    """The metadata columns with the SQL of their values; `_values` has the values for its marks."""
    if target.run_id is None:
        return []
    return [(RUN_ID, target.warehouse.placeholder), (LOADED_AT, target.warehouse.now)]


def _values(target: ModeTarget) -> tuple[str, ...]:
    return () if target.run_id is None else (target.run_id,)


APPLY: dict[Mode, Callable[[WarehouseSession, ModeTarget, StagingTable], Counts]] = {
    Mode.APPEND: append,
    Mode.MERGE: merge,
    Mode.OVERWRITE: overwrite,
    Mode.SCD2: scd2,
}
"""What each mode does with the rows of a batch."""
REPEATS_ON_REFUSAL = frozenset({Mode.MERGE})
"""Modes that commit again with only the last row of each key, where the target refuses a repeated key."""
