"""The target's columns: made from the source's, then added to and widened as the source changes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tidegauge.errors import OutputDisagrees, OutputError
from tidegauge.model.delta_flow import IS_CURRENT, VALID_FROM, VALID_TO
from tidegauge.model.mode import MODES, Mode, OutputKind
from tidegauge.model.spec import DeleteMode, TableName, TableOptions
from tidegauge.model.table import Field, Layout
from tidegauge.outputs.warehouse.fit import FitVerdict
from tidegauge.outputs.warehouse.mode_target import (
    DELETED_AT,
    HISTORY,
    LOADED_AT,
    OURS,
    RUN_ID,
)
from tidegauge.outputs.warehouse.warehouse import Warehouse, WarehouseColumn, WarehouseSession


@dataclass(frozen=True)
class PreparedTarget:
    """The target's columns for one layout, after the target was made ready for it."""

    held: Mapping[str, Field]
    """The target's column for each name that the layout uses."""
    narrow: tuple[Field, ...]
    """Columns that hold most values of their field, but not all: the staged rows have to be checked."""
    fresh: bool
    """Whether the target was not there before."""
    columns: tuple[Field, ...] | None = None
    """All columns of the target; None where it will be made anew."""


def arrange(
    warehouse: Warehouse,
    session: WarehouseSession,
    table: TableName,
    layout: Layout,
    options: TableOptions,
    check_new: Callable[[WarehouseSession], None] | None = None,
) -> PreparedTarget:
    """Make the target, or add and widen columns in it. Commits. No data is lost: raises OutputDisagrees
    before anything is changed where that cannot be done. `check_new` runs before a missing target is made."""
    check_names(warehouse, layout, options)
    held = warehouse.columns(session, table)
    fresh = held is None
    if held is None:
        session.rollback()
        if check_new is not None:
            check_new(session)
            session.rollback()
        held = _make(warehouse, session, table, layout, options)
    found = {_fold(warehouse, field.name): field for field in held}
    added = [
        one for one in list_columns(warehouse, layout, options) if _fold(warehouse, one.name) not in found
    ]
    _check_added(warehouse, table, layout, options, added)
    wider, narrow = _compare(warehouse, table, layout, found)
    if added or wider:
        session.rollback()
        for column in added:
            session.run(warehouse.add_column(table, column))
        for name, kind in wider:
            warehouse.widen(session, table, name, kind)
        session.commit()
        held = warehouse.columns(session, table) or ()
        found = {_fold(warehouse, field.name): field for field in held}
    names = (*(field.name for field in layout.fields), *HISTORY)
    mine = {name: found[_fold(warehouse, name)] for name in names if _fold(warehouse, name) in found}
    return PreparedTarget(mine, tuple(narrow), fresh, held)


def _make(
    warehouse: Warehouse, session: WarehouseSession, table: TableName, layout: Layout, options: TableOptions
) -> tuple[Field, ...]:
    session.run(create(warehouse, table, layout, options))
    session.commit()
    held = warehouse.find_made(session, table, list_columns(warehouse, layout, options))
    if held is None:
        raise OutputDisagrees(
            f"{table} was made in {warehouse.place} and is not there",
            hint="somebody drops it at the same time: find out who, then run again",
        )
    return held


def _compare(
    warehouse: Warehouse, table: TableName, layout: Layout, found: Mapping[str, Field]
) -> tuple[list[tuple[str, str]], list[Field]]:
    """Columns to widen, each with its new type; and columns that hold most values of their field, not all."""
    wider: list[tuple[str, str]] = []
    narrow: list[Field] = []
    for field in layout.fields:
        there = found.get(_fold(warehouse, field.name))
        if there is None:
            continue
        fit = warehouse.fit(there, field, key=field.name in layout.key)
        match fit.verdict:
            case FitVerdict.WIDEN:
                wider.append((there.name, fit.type))
            case FitVerdict.NARROW:
                narrow.append(there)
            case FitVerdict.REFUSED:
                raise OutputDisagrees(
                    f"the column {field.name} of {table} is {there.source_type}, which cannot hold"
                    f" {field.source_type} ({field.type}) from the source",
                    hint="change the column's type, make the table anew from the source with `tidegauge run"
                    " --full-refresh`, or load into another with `rename:`",
                )
            case FitVerdict.HOLDS:
                pass
    return wider, narrow


def plan_changes(warehouse: Warehouse, layout: Layout, options: TableOptions) -> PreparedTarget:
    """The columns that the target will have once it is made anew."""
    check_names(warehouse, layout, options)
    made = {one.name: Field(one.name, "", one.type) for one in list_columns(warehouse, layout, options)}
    return PreparedTarget(made, (), fresh=True)


def fits(
    warehouse: Warehouse, held: Sequence[Field], layout: Layout, options: TableOptions, shape: str | None
) -> bool:
    """Whether a target with these columns can take a layout's rows, as it is or with more and wider columns.

    `shape`: how the target was laid out (`shape_of`); None: not known.
    """
    if shape is not None and not _can_continue(shape, layout, options):
        return False
    found = {_fold(warehouse, field.name): field for field in held}
    names = {_fold(warehouse, field.name) for field in layout.fields}
    history = {_fold(warehouse, name) for name in HISTORY}
    if not options.mode.facts.keeps_history and not history & names and history <= {*found}:
        return False
    if not {_fold(warehouse, name) for name in _find_needed(layout, options)} <= {*found}:
        return False
    return not any(
        warehouse.fit(found[_fold(warehouse, field.name)], field, key=field.name in layout.key).verdict
        is FitVerdict.REFUSED
        for field in layout.fields
        if _fold(warehouse, field.name) in found
    )


def _can_continue(shape: str, layout: Layout, options: TableOptions) -> bool:
    """Whether a target of this shape can be written in the mode and with the key that the flow has now."""
    before = mode_of(shape)
    if before is None:
        return True
    same_key = shape.partition(" ")[2] == shape_of(layout, options).partition(" ")[2]
    return same_key and go_together(before, options.mode)


def shape_of(layout: Layout, options: TableOptions) -> str:
    """How a target is laid out, as text for `tidegauge_commits`: the mode and the key columns."""
    return f"{options.mode} {json.dumps(key_of(layout, options), ensure_ascii=False)}"


def mode_of(shape: str) -> Mode | None:
    """The mode that a shape names; None where a newer version wrote one that we do not know."""
    word = shape.partition(" ")[0]
    return Mode(word) if word in MODES[OutputKind.WAREHOUSE] else None


def go_together(before: Mode, now: Mode) -> bool:
    """Whether mode `now` can go on with a target that mode `before` filled."""
    return before is now or all(mode.one_row_per_key(OutputKind.WAREHOUSE) for mode in (before, now))


def check_names(warehouse: Warehouse, layout: Layout, options: TableOptions) -> None:
    """Raises OutputError for names that the target cannot tell apart, or that Tidegauge uses itself."""
    seen: dict[str, str] = {}
    for field in layout.fields:
        twin = seen.setdefault(_fold(warehouse, field.name), field.name)
        if twin != field.name:
            raise OutputError(
                f"{layout.table} has the columns {twin} and {field.name}: one name in {warehouse.place}",
                hint="rename one of them at the source, or load through a view",
            )
    taken = OURS | (set(HISTORY) if options.mode.facts.keeps_history else set())
    clash = next((name for name in seen.values() if name.lower() in taken), None)
    if clash is not None:
        raise OutputError(
            f"{layout.table} has a column {clash}, and that name is Tidegauge's own in a target",
            hint="rename it at the source, or leave it out: `columns: {exclude: [" + clash + "]}`"
            if clash.lower() in OURS
            else "rename it at the source, or choose another mode than scd2",
        )


def list_columns(warehouse: Warehouse, layout: Layout, options: TableOptions) -> list[WarehouseColumn]:
    """Every column with which a target is made."""
    key = layout.key if not options.mode.facts.only_adds else ()
    columns = [
        WarehouseColumn(field.name, warehouse.type(field, key=field.name in key), required=field.name in key)
        for field in layout.fields
    ]
    if options.mode.facts.keeps_history:
        moment = next((field for field in layout.fields if field.name == layout.cursor_column), None)
        if moment is None:
            raise OutputError(
                f"{layout.table} has no cursor column to keep a history by",
                hint="mode scd2 needs a `cursor:` that is a column",
            )
        columns += [
            WarehouseColumn(VALID_FROM, warehouse.type(moment, key=True), required=True),
            WarehouseColumn(VALID_TO, warehouse.type(moment, key=True)),
            WarehouseColumn(IS_CURRENT, warehouse.boolean_type),
        ]
    if options.deletes is DeleteMode.SOFT and not options.mode.facts.keeps_history:
        columns.append(WarehouseColumn(DELETED_AT, warehouse.timestamp_type))
    if options.metadata_columns:
        columns += [
            WarehouseColumn(RUN_ID, warehouse.text_type),
            WarehouseColumn(LOADED_AT, warehouse.timestamp_type),
        ]
    return columns


def key_of(layout: Layout, options: TableOptions) -> tuple[str, ...]:
    """The key columns of the target, with `valid_from` in a history; empty in modes without a key."""
    if not options.mode.needs_key(OutputKind.WAREHOUSE):
        return ()
    return (*layout.key, VALID_FROM) if options.mode.facts.keeps_history else layout.key


def create(warehouse: Warehouse, table: TableName, layout: Layout, options: TableOptions) -> str:
    key = () if warehouse.key_after else key_of(layout, options)
    return warehouse.create(table, list_columns(warehouse, layout, options), key=key, options=options)


def _check_added(
    warehouse: Warehouse,
    table: TableName,
    layout: Layout,
    options: TableOptions,
    added: Sequence[WarehouseColumn],
) -> None:
    needed = _find_needed(layout, options)
    lacking = next((column.name for column in added if column.name in needed), None)
    if lacking is not None:
        raise OutputDisagrees(
            f"{table} in {warehouse.place} has no column {lacking}, which mode {options.mode} needs"
            " in every row",
            hint="to make it anew from the source use `tidegauge run --full-refresh`; to keep it as it is,"
            " load into another table with `rename:`",
        )


def _find_needed(layout: Layout, options: TableOptions) -> set[str]:
    """Columns that every row needs, so that they cannot be added to a table that has rows."""
    return {*key_of(layout, options)} | ({*HISTORY} if options.mode.facts.keeps_history else set())


def _fold(warehouse: Warehouse, name: str) -> str:
    return name.lower() if warehouse.folds_case else name
