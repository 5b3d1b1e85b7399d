"""What each mode does to the target, in SQL that every engine understands, in the committing transaction.

There is no MERGE among it: half the engines have none, and the others disagree on its clauses. An UPDATE of
the rows that differ and an INSERT of those that are missing do the same, and count themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tidegauge.model.mode import Mode
from tidegauge.model.spec import Deletes, TableName
from tidegauge.model.table import Field
from tidegauge.outputs.warehouse.heads import Counts
from tidegauge.outputs.warehouse.warehouse import StagingTable, Warehouse, WarehouseSession

RUN_ID, LOADED_AT = "_tidegauge_run_id", "_tidegauge_loaded_at"
DELETED_AT = "_tidegauge_deleted_at"
VALID_FROM, VALID_TO, IS_CURRENT = "valid_from", "valid_to", "is_current"
OURS = frozenset({RUN_ID, LOADED_AT, DELETED_AT})
HISTORY = (VALID_FROM, VALID_TO, IS_CURRENT)


@dataclass(frozen=True)
class ModeTarget:
    """The table as one transaction writes it."""

    warehouse: Warehouse
    table: TableName
    soft: bool
    """It has the column that marks deleted rows."""
    run_id: str | None
    """For the metadata columns; None where there are none."""
    vanished: tuple[Field, ...] = ()
    """Columns that this flow wrote and that its rows no longer have: NULL in every row that is written."""
    live: bool = True
    """What comes was read after all that the target has; not so where a lake's files are loaded again."""

    history: TableName | None = None
    """Where a mode that keeps a history builds that of the staged keys."""
    cursor: str | None = None
    """The column that orders the versions of a key."""
    aside: str | None = None
    """A condition on staged rows, called `s`, that are set aside."""
    checked: bool = False
    """Rows are checked, so that one which was set aside may no longer be."""

    @property
    def name(self) -> str:
        return self.warehouse.table(self.table)

    def is_filled(self, session: WarehouseSession) -> bool:
        return bool(session.rows(f"SELECT 1 FROM {self.name} LIMIT 1"))


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
    where = f"{_match(warehouse, stage.key)} AND {unless_ended}"
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
    session.run(_rebuild(target, stage, history, cursor))
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


def _rebuild(target: ModeTarget, stage: StagingTable, history: TableName, cursor: str) -> str:
    warehouse = target.warehouse
    fields = (*stage.fields, *target.vanished)
    place = {field.name: f"c{number}" for number, field in enumerate(fields)}
    every = ", ".join(place.values())
    key = ", ".join(place[name] for name in stage.key)
    compared = {place[one.name]: one.type for one in fields if one.name not in (*stage.key, cursor)}
    known = _select_known(target, stage, place)
    staged = _select_staged(target, stage, cursor, place)
    events = (
        f"SELECT {every}, at_, gone_, bad_,"
        f" ROW_NUMBER() OVER (PARTITION BY {key}, at_, gone_ ORDER BY ord_ DESC)"
        f" AS r_ FROM ({known} UNION ALL {staged}) AS e_"
    )
    # A row that was read up to the moment it was seen gone at came before that.
    window = f"OVER (PARTITION BY {key} ORDER BY at_, gone_)"
    before = "".join(f", LAG({alias}) {window} AS p{alias}" for alias in compared)
    chain = (
        f"SELECT {every}, at_, gone_, bad_, ROW_NUMBER() {window} AS n_, LAG(gone_) {window} AS after_,"
        f" LEAD(gone_) {window} AS later_{before} FROM ({events}) AS d_ WHERE r_ = 1"
    )
    changed = " OR ".join(
        [
            "n_ = 1",
            "gone_ = 1",
            "after_ = 1",
            *(warehouse.changed(alias, f"p{alias}", kind) for alias, kind in compared.items()),
        ]
    )
    counts = f"({changed})"
    if target.live:
        counts += " AND (gone_ = 0 OR bad_ = 1 OR later_ IS NOT NULL)"
    versions = f"SELECT {every}, at_, gone_, LEAD(at_) {window} AS next_ FROM ({chain}) AS f_ WHERE {counts}"
    into = ", ".join(warehouse.name(name) for name in (*place, *HISTORY))
    current = f"CASE WHEN next_ IS NULL THEN {warehouse.true} ELSE {warehouse.false} END"
    return (
        f"INSERT INTO {warehouse.table(history)} ({into})"
        f" SELECT {every}, at_, next_, {current} FROM ({versions}) AS v_ WHERE gone_ = 0"
    )


def _select_known(target: ModeTarget, stage: StagingTable, place: Mapping[str, str]) -> str:
    """What the target has of the staged keys, as events: where each version begins, and where one was closed,
    which is where it ends and no other begins."""
    warehouse = target.warehouse
    start, end = f"t.{warehouse.name(VALID_FROM)}", f"t.{warehouse.name(VALID_TO)}"
    picked = ", ".join(f"t.{warehouse.name(name)} AS {alias}" for name, alias in place.items())
    mine = ", ".join(f"t.{warehouse.name(name)}" for name in stage.key)
    said = _said_anew(target, stage, {"new_from_": start, "new_to_": end})
    held = (
        f"(SELECT {picked}, {start} AS from_, {end} AS to_,"
        f" LEAD({start}) OVER (PARTITION BY {mine} ORDER BY {start}) AS follows_{said}"
        f" FROM {target.name} AS t WHERE {exists(target, stage.table, stage.key)})"
    )
    every = ", ".join(place.values())
    unless_from, unless_to = (" WHERE new_from_ = 0", " AND new_to_ = 0") if said else ("", "")
    return (
        f"SELECT {every}, from_ AS at_, -1 AS ord_, 0 AS gone_, 0 AS bad_ FROM {held} AS k_{unless_from}"
        f" UNION ALL SELECT {every}, to_ AS at_, -1 AS ord_, 1 AS gone_, 0 AS bad_ FROM {held} AS g_"
        f" WHERE to_ IS NOT NULL AND (follows_ IS NULL OR follows_ <> to_){unless_to}"
    )


def _said_anew(target: ModeTarget, stage: StagingTable, moments: Mapping[str, str]) -> str:
    """Columns that are 1 where the staged rows have a word of their own on a moment of a known version; none
    where none was ever set aside."""
    if not target.checked:
        return ""
    assert target.cursor is not None
    cursor = f"s.{target.warehouse.name(target.cursor)}"
    return "".join(
        f", CASE WHEN {exists(target, stage.table, stage.key, target.warehouse.same(moment, cursor))}"
        f" THEN 1 ELSE 0 END AS {name}"
        for name, moment in moments.items()
    )


def _select_staged(target: ModeTarget, stage: StagingTable, cursor: str, place: Mapping[str, str]) -> str:
    """The staged rows as events. One that the target has just so keeps its value in a vanished column."""
    warehouse = target.warehouse
    values = {field.name: f"s.{warehouse.name(field.name)}" for field in stage.fields}
    source = f"{warehouse.table(stage.table)} AS s"
    if target.vanished:
        at = warehouse.same(f"t.{warehouse.name(VALID_FROM)}", f"s.{warehouse.name(cursor)}")
        source += f" LEFT JOIN {target.name} AS t ON {_match(warehouse, stage.key)} AND {at}"
        differs = [f"t.{warehouse.name(VALID_FROM)} IS NULL"] + [
            warehouse.changed(f"t.{warehouse.name(one.name)}", f"s.{warehouse.name(one.name)}", one.type)
            for one in stage.fields
            if one.name not in (*stage.key, cursor)
        ]
        for field in target.vanished:
            kept = f"t.{warehouse.name(field.name)}"
            values[field.name] = f"CASE WHEN {' OR '.join(differs)} THEN NULL ELSE {kept} END"
    picked = ", ".join(f"{values[name]} AS {alias}" for name, alias in place.items())
    ordinal = f"s.{warehouse.name(stage.ordinal)}"
    aside = "0" if target.aside is None else f"CASE WHEN {target.aside} THEN 1 ELSE 0 END"
    return (
        f"SELECT {picked}, s.{warehouse.name(cursor)} AS at_, {ordinal} AS ord_, {aside} AS gone_,"
        f" {aside} AS bad_ FROM {source}"
    )


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
        where = f"{_match(warehouse, key)} AND ({' OR '.join(changed)})"
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
        sql += f" WHERE NOT EXISTS (SELECT 1 FROM {target.name} AS t WHERE {_match(warehouse, unless)})"
    return session.run(sql, _values(target))


def _kinds(stage: StagingTable) -> dict[str, str]:
    return {field.name: field.type for field in stage.fields}


def exists(target: ModeTarget, source: TableName, key: Sequence[str], only: str | None = None) -> str:
    warehouse = target.warehouse
    where = _match(warehouse, key) + (f" AND {only}" if only else "")
    return f"EXISTS (SELECT 1 FROM {warehouse.table(source)} AS s WHERE {where})"


def _match(warehouse: Warehouse, key: Sequence[str]) -> str:
    return " AND ".join(
        warehouse.same(f"t.{warehouse.name(name)}", f"s.{warehouse.name(name)}") for name in key
    )


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
