"""What each mode does to the target, in SQL that every engine understands, in the committing transaction.

There is no MERGE among it: half the engines have none, and the others disagree on its clauses. An UPDATE of
the rows that differ and an INSERT of those that are missing do the same, and count themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidegauge.model.spec import Deletes, TableName
from tidegauge.write.warehouse.commits import Counts
from tidegauge.write.warehouse.engine import Session, Stage, Warehouse

RUN_ID, LOADED_AT = "_tidegauge_run_id", "_tidegauge_loaded_at"
DELETED_AT = "_tidegauge_deleted_at"
VALID_FROM, VALID_TO, IS_CURRENT = "valid_from", "valid_to", "is_current"
OURS = frozenset({RUN_ID, LOADED_AT, DELETED_AT})
HISTORY = (VALID_FROM, VALID_TO, IS_CURRENT)


@dataclass(frozen=True)
class Target:
    """The table as one transaction writes it."""

    warehouse: Warehouse
    table: TableName
    soft: bool
    """It has the column that marks deleted rows."""
    run_id: str | None
    """For the metadata columns; None where there are none."""

    @property
    def name(self) -> str:
        return self.warehouse.table(self.table)

    def is_filled(self, session: Session) -> bool:
        return bool(session.rows(f"SELECT 1 FROM {self.name} LIMIT 1"))


def append(session: Session, target: Target, stage: Stage) -> Counts:
    return Counts(inserted=_insert(session, target, stage.table, [field.name for field in stage.fields], ()))


def merge(session: Session, target: Target, stage: Stage) -> Counts:
    return _merge(session, target, stage.table, _kinds(stage), stage.key)


def overwrite(session: Session, target: Target, stage: Stage) -> Counts:
    """The target is exactly the staged rows after it; a row that is the same already is not written.

    Readers see the table before or after, since it is one transaction.
    """
    columns = [field.name for field in stage.fields]
    gone = 0
    if stage.key:
        gone = session.run(
            target.warehouse.delete(target.table, f"NOT {_exists(target, stage.table, stage.key)}")
        )
        merged = _merge(session, target, stage.table, _kinds(stage), stage.key)
        staged = f"SELECT COUNT(*) FROM {target.warehouse.table(stage.table)}"
        if session.rows(f"SELECT COUNT(*) FROM {target.name}") == session.rows(staged):
            return Counts(merged.inserted, merged.updated, gone)
        # A key that the target itself had more than once.
        gone -= merged.inserted
    gone += session.run(target.warehouse.delete(target.table, "1 = 1"))
    return Counts(inserted=_insert(session, target, stage.table, columns, ()), deleted=gone)


def delete(session: Session, target: Target, stage: Stage, how: Deletes) -> Counts:
    """The staged rows are keys; those that are not in the target (any more) change nothing."""
    house = target.warehouse
    if how is Deletes.HARD:
        found = _exists(target, stage.table, stage.key)
        return Counts(deleted=session.run(house.delete(target.table, found)))
    stamps = _stamps(target)
    marked = session.run(
        house.update(
            target.table,
            house.table(stage.table),
            [(DELETED_AT, house.now), *stamps],
            f"{_match(house, stage.key)} AND t.{house.name(DELETED_AT)} IS NULL",
        ),
        _values(target),
    )
    return Counts(deleted=marked)


def scd2(session: Session, target: Target, stage: Stage, history: TableName, cursor: str) -> Counts:
    """Rebuild the history of every staged key into `history`, then bring the target's into line with it.

    What the target knows of a key counts as events too, so a late one lands between its neighbours. Of events
    at one moment the one that was read last counts; one that changes nothing but the cursor makes no version.
    The counts are of versions.
    """
    house = target.warehouse
    session.run(_rebuild(target, stage, history, cursor))
    key = (*stage.key, VALID_FROM)
    gone = session.run(
        house.delete(
            target.table,
            f"{_exists(target, stage.table, stage.key)} AND NOT {_exists(target, history, key)}",
        )
    )
    merged = _merge(session, target, history, _kinds(stage) | dict.fromkeys(HISTORY, ""), key)
    return Counts(merged.inserted, merged.updated, gone)


def _rebuild(target: Target, stage: Stage, history: TableName, cursor: str) -> str:
    house = target.warehouse
    names = [field.name for field in stage.fields]
    place = {name: f"c{number}" for number, name in enumerate(names)}
    aliases = list(place.values())
    every = ", ".join(aliases)
    key = ", ".join(place[name] for name in stage.key)
    told = {place[one.name]: one.type for one in stage.fields if one.name not in (*stage.key, cursor)}

    def of(row: str, moment: str, ordinal: str) -> str:
        picked = ", ".join(f"{row}.{house.name(name)} AS {alias}" for name, alias in place.items())
        return f"SELECT {picked}, {row}.{house.name(moment)} AS at_, {ordinal} AS ord_"

    known = (
        f"{of('t', VALID_FROM, '-1')} FROM {target.name} AS t WHERE {_exists(target, stage.table, stage.key)}"
    )
    brought = f"{of('s', cursor, 's.' + house.name(stage.ordinal))} FROM {house.table(stage.table)} AS s"
    events = (
        f"SELECT {every}, at_, ROW_NUMBER() OVER (PARTITION BY {key}, at_ ORDER BY ord_ DESC) AS r_"
        f" FROM ({known} UNION ALL {brought}) AS e_"
    )
    window = f"OVER (PARTITION BY {key} ORDER BY at_)"
    before = "".join(f", LAG({alias}) {window} AS p{alias}" for alias in told)
    chain = f"SELECT {every}, at_, ROW_NUMBER() {window} AS n_{before} FROM ({events}) AS d_ WHERE r_ = 1"
    changed = " OR ".join(
        ["n_ = 1", *(house.changed(alias, f"p{alias}", kind) for alias, kind in told.items())]
    )
    versions = f"SELECT {every}, at_, LEAD(at_) {window} AS next_ FROM ({chain}) AS f_ WHERE {changed}"
    into = ", ".join(house.name(name) for name in (*names, *HISTORY))
    current = f"CASE WHEN next_ IS NULL THEN {house.true} ELSE {house.false} END"
    return (
        f"INSERT INTO {house.table(history)} ({into})"
        f" SELECT {every}, at_, next_, {current} FROM ({versions}) AS v_"
    )


def _merge(
    session: Session, target: Target, source: TableName, columns: Mapping[str, str], key: Sequence[str]
) -> Counts:
    """Columns with their types, as `Warehouse.changed` takes them; each key is in the source once."""
    house = target.warehouse
    if not target.is_filled(session):
        return Counts(inserted=_insert(session, target, source, list(columns), ()))
    rest = [name for name in columns if name not in key]
    pairs = [(f"t.{house.name(name)}", f"s.{house.name(name)}") for name in rest]
    changed = [house.changed(old, new, columns[name]) for name, (old, new) in zip(rest, pairs, strict=True)]
    sets = [(name, new) for name, (_, new) in zip(rest, pairs, strict=True)]
    if target.soft:
        changed.append(f"t.{house.name(DELETED_AT)} IS NOT NULL")
        sets.append((DELETED_AT, "NULL"))
    updated = 0
    if changed:
        where = f"{_match(house, key)} AND ({' OR '.join(changed)})"
        sets += _stamps(target)
        updated = session.run(house.update(target.table, house.table(source), sets, where), _values(target))
    return Counts(inserted=_insert(session, target, source, list(columns), key), updated=updated)


def _insert(
    session: Session, target: Target, source: TableName, columns: Sequence[str], unless: Sequence[str]
) -> int:
    """Rows of the source, but for those whose key (`unless`) is in the target."""
    house = target.warehouse
    stamps = _stamps(target)
    into = ", ".join(house.name(name) for name in (*columns, *(name for name, _ in stamps)))
    values = ", ".join((*(f"s.{house.name(name)}" for name in columns), *(value for _, value in stamps)))
    sql = f"INSERT INTO {target.name} ({into}) SELECT {values} FROM {house.table(source)} AS s"
    if unless:
        sql += f" WHERE NOT EXISTS (SELECT 1 FROM {target.name} AS t WHERE {_match(house, unless)})"
    return session.run(sql, _values(target))


def _kinds(stage: Stage) -> dict[str, str]:
    return {field.name: field.type for field in stage.fields}


def _exists(target: Target, source: TableName, key: Sequence[str]) -> str:
    house = target.warehouse
    return f"EXISTS (SELECT 1 FROM {house.table(source)} AS s WHERE {_match(house, key)})"


def _match(house: Warehouse, key: Sequence[str]) -> str:
    return " AND ".join(house.same(f"t.{house.name(name)}", f"s.{house.name(name)}") for name in key)


def _stamps(target: Target) -> list[tuple[str, str]]:
    if target.run_id is None:
        return []
    return [(RUN_ID, target.warehouse.mark), (LOADED_AT, target.warehouse.now)]


def _values(target: Target) -> tuple[str, ...]:
    return () if target.run_id is None else (target.run_id,)
