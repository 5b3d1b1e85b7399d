"""What each mode does to the target, in SQL that every engine understands, in the committing transaction.

There is no MERGE among it: half the engines have none, and the others disagree on its clauses. An UPDATE of
the rows that differ and an INSERT of those that are missing do the same, and count themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tidegauge.model.mode import Mode
from tidegauge.model.spec import Deletes, TableName
from tidegauge.outputs.warehouse.heads import Counts
from tidegauge.outputs.warehouse.history import rebuild
from tidegauge.outputs.warehouse.mode_target import (
    DELETED_AT,
    HISTORY,
    IS_CURRENT,
    LOADED_AT,
    RUN_ID,
    VALID_FROM,
    VALID_TO,
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
    """The target is exactly the staged rows after it; a row that is the same already is not written.

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
        # A key that the target itself had more than once.
        gone -= merged.inserted
    gone += session.run(target.warehouse.delete(target.table, "1 = 1"))
    return Counts(inserted=_insert(session, target, stage.table, columns, ()), deleted=gone)


def empty_target(session: WarehouseSession, target: ModeTarget) -> Counts:
    return Counts(deleted=session.run(target.warehouse.delete(target.table, "1 = 1")))


def delete(
    session: WarehouseSession, target: ModeTarget, stage: StagingTable, how: Deletes, only: str | None = None
) -> Counts:
    """The staged rows are keys, or those of them that the condition `only` picks; those that are not in the
    target (any more) change nothing."""
    warehouse = target.warehouse
    if how is Deletes.HARD:
        found = exists(target, stage.table, stage.key, only)
        return Counts(deleted=session.run(warehouse.delete(target.table, found)))
    there = f"t.{warehouse.name(DELETED_AT)} IS NULL" + (f" AND {only}" if only else "")
    return _end(session, target, stage, [(DELETED_AT, warehouse.now)], there)


def close(session: WarehouseSession, target: ModeTarget, stage: StagingTable) -> Counts:
    """The staged rows are keys, and in `valid_to` when they were seen gone: the version of each that is
    current ends there, or at its own start where that is later. A key without one changes nothing."""
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
    warehouse = target.warehouse
    where = f"{match(warehouse, stage.key)} AND {unless_ended}"
    sql = warehouse.update(target.table, warehouse.table(stage.table), [*sets, *_stamps(target)], where)
    return Counts(deleted=session.run(sql, _values(target)))


def scd2(session: WarehouseSession, target: ModeTarget, stage: StagingTable) -> Counts:
    """Rebuild the history of every staged key into `target.history`, then bring the target into line.

    What the target knows of a key counts as events too, so a late one lands between its neighbours. Of events
    at one moment the one that was read last counts; one that changes nothing but the cursor makes no version.
    A version that ends where no other begins was closed (`close`): that is an event as well, so what comes
    from before it changes nothing of it, and what comes from after it begins a version, whatever its values.
    Only a row that was read later, and has a cursor from before it was seen gone, is taken for one that never
    was gone. The counts are of versions.

    A row that is set aside makes no version, and ends the one before it. What it says of its moment takes the
    place of all that was known of that moment, as does a row that was set aside then and no longer is.
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
    """Columns with their types, as `Warehouse.changed` takes them; each key is in the source once.

    A row that came as it was is not written, and keeps what it has in a vanished column, unless the rows are
    the `whole` table.
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
    """Rows of the source, but for those whose key (`unless`) is in the target."""
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
    if target.run_id is None:
        return []
    return [(RUN_ID, target.warehouse.mark), (LOADED_AT, target.warehouse.now)]


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
"""Modes that commit again with the last row of each key alone, where the target refuses a key twice."""
