"""Decide what to do about a table whose columns have changed. Pure: the output's columns are handed in.

Types are Spark's; `model.types.holds` says which type holds all values of another. A column that has become
nullable is no change: in outputs only key columns are NOT NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import Protocol

from tidegauge.errors import OutputDisagrees
from tidegauge.model.spec import Drift
from tidegauge.model.table import Field, Layout, SourceTable
from tidegauge.model.types import holds

EVENT = "schema_changed"
"""The event that the ledger's history keeps of a change, with `DriftDecision.summary` as its reason."""


class ChangeKind(StrEnum):
    ADDED = "added"
    DROPPED = "dropped"
    FOREIGN = "foreign"
    """Only the output has the column, and as far as is known the source never had it."""
    WIDENED = "widened"
    NARROWED = "narrowed"
    RETYPED = "retyped"
    TIGHT = "tight"
    """The output's column is too narrow for some values and cannot be widened."""
    KEY = "key"


@dataclass(frozen=True)
class ColumnChange:
    kind: ChangeKind
    column: str
    """The column's name; for a changed key, the columns of the new key."""
    held: str | None
    """The output's type of the column, or its key; None: the output has no such column."""
    now: str | None
    """The source's type of the column, or its key; None: the source has no such column."""
    outcome: str = ""
    """What is done about the change, as a clause for messages; empty: it stops the flow."""

    @property
    def fact(self) -> str:
        match self.kind:
            case ChangeKind.ADDED:
                return f"column {self.column} ({self.now}) is new"
            case ChangeKind.DROPPED:
                return f"column {self.column} ({self.held}) is gone from the source"
            case ChangeKind.FOREIGN:
                return f"column {self.column} ({self.held}) is in the output only"
            case ChangeKind.WIDENED:
                return f"column {self.column} was {self.held} and is the wider {self.now} now"
            case ChangeKind.NARROWED:
                return f"column {self.column} is {self.now} now, and {self.held} in the output"
            case ChangeKind.RETYPED:
                return f"column {self.column} was {self.held} and is {self.now} now"
            case ChangeKind.TIGHT:
                return f"column {self.column} is {self.now} now, and {self.held} in the output for good"
            case ChangeKind.KEY:
                return f"the key was ({self.held}) and is ({self.now}) now"

    @property
    def sentence(self) -> str:
        return f"{self.fact}: {self.outcome}"


@dataclass(frozen=True)
class DriftDecision:
    layout: Layout
    """The layout of the rows to write."""
    changes: tuple[ColumnChange, ...] = ()
    notes: tuple[str, ...] = ()
    """Sentences that `plan` shows: one for each change, and warnings such as a possible rename."""
    left_out: tuple[str, ...] = ()
    """Columns of the source that a frozen output does not get."""

    @property
    def summary(self) -> str:
        return "; ".join(change.sentence for change in self.changes)


class HoldsType(Protocol):
    """Whether a column of the output can hold the values of a source field."""

    def __call__(self, held: Field, field: Field, *, key: bool) -> str:
        """One of four words: the column `held` `holds` every value; it has to `widen` first; it is too
        `narrow` for some values and cannot widen; the type is `refused`."""


_BY_FIT = {
    "holds": None,
    "widen": ChangeKind.WIDENED,
    "narrow": ChangeKind.TIGHT,
    "refused": ChangeKind.RETYPED,
}


def keep_name(text: str) -> str:
    return text


def decide(
    policy: Drift,
    held: tuple[Field, ...] | None,
    layout: Layout,
    *,
    place: str = "the output",
    key: tuple[str, ...] | None = None,
    own: Collection[str] = (),
    foreign: Collection[str] = (),
    columns_unchanged: bool = False,
    named: Callable[[str], str] = keep_name,
    lands: Callable[[str], str] | None = None,
    fit: HoldsType | None = None,
) -> DriftDecision:
    """Compare the output's columns `held` with the source's `layout`, by column name; order means nothing.

    `held` is None where the output does not exist yet. `place` names the output in messages. `key` is the
    output's key, None where it knows none. `own` are columns that only the output has by design
    (`valid_from`), `foreign` those that the flow is not known to have written: somebody may have added them
    by hand. `columns_unchanged` says that the source looked the same in the last plan: changes decided then
    are left out. `named` and `lands` give the name and the type that the output gives to a source column;
    without `lands`, a wider type in the output counts as its way to hold the narrower one, and not as a
    change. An output with types of its own passes `fit`, which says what its columns can hold.

    Raises OutputDisagrees, with columns and both types, where the policy stops the flow, or the output cannot
    hold a type.
    """
    if held is None:
        return DriftDecision(layout)
    judge = partial(_judge_by_fit, fit) if fit else partial(_judge_by_type, lands)
    found = _find_differences(held, layout, key=key, own=own, foreign=foreign, named=named, judge=judge)
    if columns_unchanged:
        found = _leave_out_decided(policy, layout, found)
    changes = [
        replace(change, outcome=_outcome(policy, change.kind, key_column=change.column in layout.key))
        for change in found
    ]
    refused = [change for change in changes if not change.outcome]
    if refused:
        raise _refusal(policy, layout, place, changes, refused)
    renames = [
        f"{gone} may have been renamed to {come}: taken for one column that is gone and one that is new"
        for gone, come in _find_renames(held, layout, changes, named)
    ]
    if policy is Drift.FREEZE:
        return _freeze(_new_columns(held, layout, named), layout, changes, renames)
    return DriftDecision(layout, tuple(changes), (*(change.sentence for change in changes), *renames))


def _leave_out_decided(policy: Drift, layout: Layout, found: list[ColumnChange]) -> list[ColumnChange]:
    """Leave out the changes that the last plan has already decided on."""
    # A column that the output still lacks has to be decided on again, unless the output is frozen.
    old = {ChangeKind.DROPPED, ChangeKind.FOREIGN, ChangeKind.NARROWED, ChangeKind.TIGHT}
    if policy is Drift.FREEZE:
        old.add(ChangeKind.ADDED)
    return [change for change in found if change.kind not in old or change.column in layout.key]


def _freeze(
    new: tuple[str, ...], layout: Layout, changes: list[ColumnChange], renames: list[str]
) -> DriftDecision:
    """Leave the new columns out of the layout, and name them in one note."""
    notes = [change.sentence for change in changes if change.kind is not ChangeKind.ADDED] + renames
    if new:
        layout = narrow_layout(layout, {field.name for field in layout.fields} - set(new))
        word = "column is" if len(new) == 1 else "columns are"
        notes.append(f"{len(new)} new {word} left out, as `drift: freeze` says: {', '.join(new)}")
    return DriftDecision(layout, tuple(changes), tuple(notes), new)


def _new_columns(held: tuple[Field, ...], layout: Layout, named: Callable[[str], str]) -> tuple[str, ...]:
    there = {named(field.name) for field in held}
    return tuple(field.name for field in layout.fields if named(field.name) not in there)


def narrow(source_table: SourceTable, names: Collection[str]) -> SourceTable:
    """The table with only these columns; its cursor and key stay as they are."""
    return replace(
        source_table, columns=tuple(column for column in source_table.columns if column.name in names)
    )


def narrow_layout(layout: Layout, names: Collection[str]) -> Layout:
    return replace(
        layout,
        fields=tuple(field for field in layout.fields if field.name in names),
        cursor_column=layout.cursor_column if layout.cursor_column in names else None,
    )


def _find_differences(
    held: tuple[Field, ...],
    layout: Layout,
    *,
    key: tuple[str, ...] | None,
    own: Collection[str],
    foreign: Collection[str],
    named: Callable[[str], str],
    judge: Callable[[Field, Field, bool], ChangeKind | None],
) -> list[ColumnChange]:
    there = {named(field.name): field for field in held}
    come = {named(field.name) for field in layout.fields}
    found: list[ColumnChange] = []
    if key is not None and set(map(named, key)) != set(map(named, layout.key)):
        new = ", ".join(layout.key)
        found.append(ColumnChange(ChangeKind.KEY, new, ", ".join(key), new))
    for field in layout.fields:
        old = there.get(named(field.name))
        if old is None:
            found.append(ColumnChange(ChangeKind.ADDED, field.name, None, field.type))
        elif kind := judge(old, field, field.name in layout.key):
            alike = _normalize_type(old.type) == _normalize_type(field.type)
            before, now = (old.source_type, field.source_type) if alike else (old.type, field.type)
            found.append(ColumnChange(kind, field.name, before or old.source_type, now))
    return found + [
        ColumnChange(
            ChangeKind.FOREIGN if field.name in foreign else ChangeKind.DROPPED,
            field.name,
            field.type or field.source_type,
            None,
        )
        for field in held
        if named(field.name) not in come and field.name not in own
    ]


def _judge_by_fit(fit: HoldsType, held: Field, field: Field, key: bool) -> ChangeKind | None:
    return _BY_FIT[fit(held, field, key=key)]


def _judge_by_type(
    lands: Callable[[str], str] | None, old: Field, field: Field, _: bool
) -> ChangeKind | None:
    held, now = _normalize_type(old.type), _normalize_type(field.type)
    landed = _normalize_type(lands(now)) if lands else now
    if held in (now, landed):
        return None
    if holds(held, landed) or holds(held, now):
        return ChangeKind.NARROWED if lands else None
    return ChangeKind.WIDENED if holds(now, held) or holds(landed, held) else ChangeKind.RETYPED


def _outcome(policy: Drift, kind: ChangeKind, *, key_column: bool) -> str:
    """What is done about a change, as a clause for messages; empty: the flow stops."""
    if policy is Drift.FAIL:
        return ""
    match kind:
        case ChangeKind.RETYPED | ChangeKind.KEY:
            return ""
        case ChangeKind.ADDED if key_column:
            return ""  # existing rows have no value for it, and a key is never NULL
        case ChangeKind.ADDED if policy is Drift.FREEZE:
            return "it is left out"
        case ChangeKind.ADDED:
            return "it is added, and NULL in the rows already there"
        case ChangeKind.WIDENED if policy is Drift.FREEZE:
            return ""
        case ChangeKind.WIDENED:
            return "the output's column is widened"
        case ChangeKind.TIGHT:
            return "a value that it cannot hold stops the batch"
        case ChangeKind.DROPPED:
            return "the output keeps it, NULL in the rows written from now on and as it was in the others"
        case ChangeKind.FOREIGN:
            return "it stays as it is, for no batch of this flow is known to have written it"
        case ChangeKind.NARROWED:
            return "the output's column stays as wide as it is"


def _refusal(
    policy: Drift, layout: Layout, place: str, changes: list[ColumnChange], refused: list[ColumnChange]
) -> OutputDisagrees:
    table = str(layout.table)
    anew = f"write it anew with `tidegauge sync -t {table} --full-refresh`"
    if policy is Drift.FAIL:
        return OutputDisagrees(
            f"{table}: its columns have changed, and `drift: fail` stops at that: {_join_facts(changes)}",
            hint=f"make the same change in {place}, or say `drift: evolve`, which loses nothing; or {anew}",
        )
    facts = _join_facts(refused)
    if any(change.kind is ChangeKind.KEY or change.column in layout.key for change in refused):
        return OutputDisagrees(
            f"{table}: {facts}; {place} tells rows apart by the old key",
            hint=f"put the old key back (`key: […]`), or {anew}",
        )
    if all(change.kind is ChangeKind.WIDENED for change in refused):
        return OutputDisagrees(
            f"{table}: {facts}; {place} is frozen, and what it has cannot hold every value",
            hint="say `drift: evolve` to widen it, or widen it in the target yourself",
        )
    return OutputDisagrees(
        f"{table}: {facts}; what {place} has cannot hold the values",
        hint=f"say how the column shall arrive (`types:`), change it in the target yourself, or {anew}",
    )


def _join_facts(changes: Iterable[ColumnChange]) -> str:
    return "; ".join(change.fact for change in changes)


def _find_renames(
    held: tuple[Field, ...], layout: Layout, changes: list[ColumnChange], named: Callable[[str], str]
) -> list[tuple[str, str]]:
    """Pairs of a dropped and an added column that have one type and follow the same neighbour."""
    gone = {change.column for change in changes if change.kind is ChangeKind.DROPPED}
    come = {change.column for change in changes if change.kind is ChangeKind.ADDED}
    if not gone or not come:
        return []
    before = _neighbours([(named(field.name), field.type, field.name in gone) for field in held])
    after = _neighbours([(named(field.name), field.type, field.name in come) for field in layout.fields])
    shown = {named(field.name): field.name for field in (*held, *layout.fields)}
    return [(shown[before[spot]], shown[after[spot]]) for spot in before if spot in after]


def _neighbours(columns: Iterable[tuple[str, str, bool]]) -> dict[tuple[str | None, int, str], str]:
    """The marked columns' names by where they stand: the unmarked column before them, their number after it,
    and their type."""
    spots: dict[tuple[str | None, int, str], str] = {}
    behind: str | None = None
    nth = 0
    for name, kind, marked in columns:
        if marked:
            spots[behind, nth, _normalize_type(kind)] = name
            nth += 1
        else:
            behind, nth = name, 0
    return spots


def _normalize_type(name: str) -> str:
    return name.lower().replace(" ", "")
