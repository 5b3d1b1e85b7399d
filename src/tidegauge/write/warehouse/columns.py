"""The target's columns: made from the source's, and given room for what the source has learnt since."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidegauge.errors import OutputDisagrees, OutputError
from tidegauge.model.spec import Deletes, Mode, TableName, TableOptions
from tidegauge.model.table import Field, Layout
from tidegauge.write.warehouse.engine import Column, Session, Warehouse
from tidegauge.write.warehouse.fit import Verdict
from tidegauge.write.warehouse.modes import (
    DELETED_AT,
    HISTORY,
    IS_CURRENT,
    LOADED_AT,
    OURS,
    RUN_ID,
    VALID_FROM,
    VALID_TO,
)


@dataclass(frozen=True)
class Room:
    """What the target has for a layout, now that it was made ready."""

    held: Mapping[str, Field]
    """By the name that the layout uses."""
    narrow: tuple[Field, ...]
    """Columns that hold most values of their field; the rows have to be looked at."""
    fresh: bool
    """The target was not there before."""


def arrange(
    house: Warehouse, session: Session, table: TableName, layout: Layout, options: TableOptions
) -> Room:
    """Make the target, or room in it. Nothing that is there is lost; what cannot be done raises
    OutputDisagrees before anything was changed. Commits."""
    check_names(house, layout, options)
    held = house.columns(session, table)
    fresh = held is None
    if held is None:
        session.rollback()
        session.run(_create(house, table, layout, options))
        session.commit()
        held = house.columns(session, table)
        if held is None:
            raise OutputDisagrees(
                f"{table} was made in {house.place} and is not there",
                hint="somebody drops it at the same time: find out who, then run again",
            )
    found = {_folded(house, field.name): field for field in held}
    added = [one for one in wanted(house, layout, options) if _folded(house, one.name) not in found]
    _check_added(house, table, layout, options, added)
    wider: list[tuple[str, str]] = []
    narrow: list[Field] = []
    for field in layout.fields:
        there = found.get(_folded(house, field.name))
        if there is None:
            continue
        fit = house.fit(there, field, key=field.name in layout.key)
        match fit.verdict:
            case Verdict.WIDEN:
                wider.append((there.name, fit.type))
            case Verdict.NARROW:
                narrow.append(there)
            case Verdict.REFUSED:
                raise OutputDisagrees(
                    f"the column {field.name} of {table} is {there.source_type}, which cannot hold"
                    f" {field.source_type} ({field.type}) from the source",
                    hint="change the column's type, drop the table, or load into another with `rename:`",
                )
            case Verdict.HOLDS:
                pass
    if added or wider:
        session.rollback()
        for column in added:
            session.run(house.add_column(table, column))
        for name, kind in wider:
            house.widen(session, table, name, kind)
        session.commit()
        held = house.columns(session, table) or ()
        found = {_folded(house, field.name): field for field in held}
    names = (*(field.name for field in layout.fields), *HISTORY)
    mine = {name: found[_folded(house, name)] for name in names if _folded(house, name) in found}
    return Room(mine, tuple(narrow), fresh)


def check_names(house: Warehouse, layout: Layout, options: TableOptions) -> None:
    """Raises OutputError for names that the target cannot tell apart, or that are its own."""
    seen: dict[str, str] = {}
    for field in layout.fields:
        twin = seen.setdefault(_folded(house, field.name), field.name)
        if twin != field.name:
            raise OutputError(
                f"{layout.table} has the columns {twin} and {field.name}: one name in {house.place}",
                hint="rename one of them at the source, or load through a view",
            )
    taken = OURS | (set(HISTORY) if options.mode is Mode.SCD2 else set())
    clash = next((name for name in seen.values() if name.lower() in taken), None)
    if clash is not None:
        raise OutputError(
            f"{layout.table} has a column {clash}, and that name is Tidegauge's own in a target",
            hint="rename it at the source, or choose another mode than scd2",
        )


def wanted(house: Warehouse, layout: Layout, options: TableOptions) -> list[Column]:
    """Every column of a target that is made today."""
    key = layout.key if options.mode is not Mode.APPEND else ()
    columns = [
        Column(field.name, house.type(field, key=field.name in key), required=field.name in key)
        for field in layout.fields
    ]
    if options.mode is Mode.SCD2:
        moment = next((field for field in layout.fields if field.name == layout.cursor_column), None)
        if moment is None:
            raise OutputError(
                f"{layout.table} has no cursor column to keep a history by",
                hint="mode scd2 needs a `cursor:` that is a column",
            )
        columns += [
            Column(VALID_FROM, house.type(moment, key=True), required=True),
            Column(VALID_TO, house.type(moment, key=True)),
            Column(IS_CURRENT, house.flag),
        ]
    if options.deletes is Deletes.SOFT and options.mode is not Mode.SCD2:
        columns.append(Column(DELETED_AT, house.moment))
    if options.metadata_columns:
        columns += [Column(RUN_ID, house.text), Column(LOADED_AT, house.moment)]
    return columns


def key_of(layout: Layout, options: TableOptions) -> tuple[str, ...]:
    """What is there once in the target."""
    match options.mode:
        case Mode.APPEND:
            return ()
        case Mode.SCD2:
            return (*layout.key, VALID_FROM)
        case _:
            return layout.key


def _create(house: Warehouse, table: TableName, layout: Layout, options: TableOptions) -> str:
    key = () if house.key_after else key_of(layout, options)
    return house.create(table, wanted(house, layout, options), key=key, options=options)


def _check_added(
    house: Warehouse, table: TableName, layout: Layout, options: TableOptions, added: Sequence[Column]
) -> None:
    needed = {*key_of(layout, options)} | ({*HISTORY} if options.mode is Mode.SCD2 else set())
    lacking = next((column.name for column in added if column.name in needed), None)
    if lacking is not None:
        raise OutputDisagrees(
            f"{table} in {house.place} has no column {lacking}, which mode {options.mode} needs in every row",
            hint="it was made by something else: drop it, or load into another table with `rename:`",
        )


def _folded(house: Warehouse, name: str) -> str:
    return name.lower() if house.folds_case else name
