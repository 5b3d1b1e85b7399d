"""One statement that rebuilds the history of keys from the target's versions of them and the staged rows."""

from __future__ import annotations

from collections.abc import Mapping

from tidegauge.model.delta_flow import VALID_FROM, VALID_TO
from tidegauge.model.spec import TableName
from tidegauge.outputs.warehouse.mode_target import HISTORY, ModeTarget, exists, match
from tidegauge.outputs.warehouse.warehouse import StagingTable


def rebuild(target: ModeTarget, stage: StagingTable, history: TableName, cursor: str) -> str:
    """SQL that fills `history` with all versions of the staged keys; `modes.scd2` says by which rules."""
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
    # A row and a delete of the same moment: the row came first.
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
    """The target's versions of the staged keys, as events: where each version begins, and where one was
    closed, that is, ends without another one beginning there."""
    warehouse = target.warehouse
    start, end = f"t.{warehouse.name(VALID_FROM)}", f"t.{warehouse.name(VALID_TO)}"
    picked = ", ".join(f"t.{warehouse.name(name)} AS {alias}" for name, alias in place.items())
    mine = ", ".join(f"t.{warehouse.name(name)}" for name in stage.key)
    said, joined = _join_staged_moments(target, stage) if target.checked else ("", "")
    held = (
        f"(SELECT {picked}, {start} AS from_, {end} AS to_,"
        f" LEAD({start}) OVER (PARTITION BY {mine} ORDER BY {start}) AS follows_{said}"
        f" FROM {target.name} AS t{joined} WHERE {exists(target, stage.table, stage.key)})"
    )
    every = ", ".join(place.values())
    unless_from, unless_to = (" WHERE new_from_ = 0", " AND new_to_ = 0") if said else ("", "")
    return (
        f"SELECT {every}, from_ AS at_, -1 AS ord_, 0 AS gone_, 0 AS bad_ FROM {held} AS k_{unless_from}"
        f" UNION ALL SELECT {every}, to_ AS at_, -1 AS ord_, 1 AS gone_, 0 AS bad_ FROM {held} AS g_"
        f" WHERE to_ IS NOT NULL AND (follows_ IS NULL OR follows_ <> to_){unless_to}"
    )


def _join_staged_moments(target: ModeTarget, stage: StagingTable) -> tuple[str, str]:
    """Columns that are 1 where a staged row has the very moment at which a known version begins or ends, and
    the joins that they need."""
    warehouse = target.warehouse
    assert target.cursor is not None
    cursor = warehouse.name(target.cursor)
    key = ", ".join(map(warehouse.name, stage.key))
    columns = joins = ""
    for name, moment, alias in (("new_from_", VALID_FROM, "a_"), ("new_to_", VALID_TO, "b_")):
        same = warehouse.same(f"t.{warehouse.name(moment)}", f"{alias}.at_")
        columns += f", CASE WHEN {alias}.at_ IS NULL THEN 0 ELSE 1 END AS {name}"
        joins += (
            f" LEFT JOIN (SELECT DISTINCT {key}, {cursor} AS at_ FROM {warehouse.table(stage.table)})"
            f" AS {alias} ON {match(warehouse, stage.key, alias)} AND {same}"
        )
    return columns, joins


def _select_staged(target: ModeTarget, stage: StagingTable, cursor: str, place: Mapping[str, str]) -> str:
    """The staged rows as events. A row that the target has unchanged keeps its values in vanished columns."""
    warehouse = target.warehouse
    values = {field.name: f"s.{warehouse.name(field.name)}" for field in stage.fields}
    source = f"{warehouse.table(stage.table)} AS s"
    if target.vanished:
        at = warehouse.same(f"t.{warehouse.name(VALID_FROM)}", f"s.{warehouse.name(cursor)}")
        source += f" LEFT JOIN {target.name} AS t ON {match(warehouse, stage.key)} AND {at}"
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
