"""The target table of a flow as its log describes it, and how it is altered to take a batch's rows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidegauge.delta_log.snapshot import Snapshot
from tidegauge.errors import OutputDisagrees, TransformFailed
from tidegauge.model.delta_flow import CHANGE_TYPE, COMMIT_TIMESTAMP, COMMIT_VERSION, DeltaTable
from tidegauge.model.mode import OutputKind
from tidegauge.model.spec import Drift
from tidegauge.model.types import quote
from tidegauge.model.versions import FEED, has_feed, is_on
from tidegauge.outputs.delta.types import (
    as_sql,
    bare,
    can_widen,
    find_new_fields,
    fits,
    names_in,
)
from tidegauge.outputs.delta.written_columns import find_vanished, note_written, replace_kept, written_columns

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

FEED_COLUMNS = (CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP)
VECTORS = "delta.enableDeletionVectors"
_WIDENING, _MAPPING = "delta.enableTypeWidening", "delta.columnMapping.mode"
_FORBIDDEN = set(" ,;{}()\n\t=")
"""Characters that a column's name may only have with column mapping."""


@dataclass(frozen=True)
class TargetColumn:
    """A column of the target."""

    name: str
    type: Any
    """Bare: without nullability and metadata, as `types.bare` gives it."""
    required: bool = False
    made_by: str | None = None
    """The expression or counter by which Delta fills the column; None: writers fill it."""


@dataclass(frozen=True)
class DeltaTarget:
    id: str
    columns: tuple[TargetColumn, ...]
    partition_by: tuple[str, ...]
    properties: dict[str, str]

    def column(self, name: str) -> TargetColumn | None:
        return next((one for one in self.columns if one.name.casefold() == name.casefold()), None)


@dataclass(frozen=True)
class DeltaColumn:
    """A column that is written: its name in the target, its name in the rows, its bare type in the target."""

    name: str
    source: str
    type: Any


@dataclass(frozen=True)
class TargetAlterations:
    """How the target has to be altered before a batch is written, and which columns are then written."""

    columns: tuple[DeltaColumn, ...]
    statements: tuple[str, ...] = ()
    """SQL clauses, each to follow `ALTER TABLE <target> `."""
    notes: tuple[str, ...] = ()
    vanished: tuple[str, ...] = ()
    """Columns that the flow wrote and that its rows no longer have: NULL in every row that is written."""


def target_of(look: Snapshot) -> DeltaTarget:
    metadata = look.state.metadata
    columns = []
    for field in json.loads(metadata["schemaString"])["fields"]:
        facts = field.get("metadata") or {}
        made_by = facts.get("delta.generationExpression")
        if "delta.identity.start" in facts:
            made_by = "a counter (identity)"
        columns.append(
            TargetColumn(field["name"], bare(field["type"]), required=not field["nullable"], made_by=made_by)
        )
    return DeltaTarget(
        str(metadata["id"]),
        tuple(columns),
        tuple(metadata.get("partitionColumns") or ()),
        dict(metadata.get("configuration") or {}),
    )


def list_columns(schema: StructType, output: DeltaTable) -> tuple[TargetColumn, ...]:
    """The columns that the target needs for these rows. Raises TransformFailed where they do not fit."""
    fields = [(one.name, bare(one.dataType.jsonValue())) for one in schema.fields]
    if output.mode.facts.keeps_history:
        from tidegauge.outputs.delta.scd2 import added_columns

        fields += [(one.name, bare(one.dataType.jsonValue())) for one in added_columns(schema, output)]
    feed = {name.casefold() for name in FEED_COLUMNS}
    found = tuple(TargetColumn(name, type_) for name, type_ in fields if name.casefold() not in feed)
    seen: set[str] = set()
    for one in found:
        if one.name.casefold() in seen:
            raise TransformFailed(
                f"the rows for {output.table} have two columns named {one.name}",
                hint="give one of them another name in the transform",
            )
        seen.add(one.name.casefold())
        if one.type == "void":
            raise TransformFailed(
                f"the column {one.name} for {output.table} is always NULL and has no type",
                hint=f"say one in the transform: CAST(NULL AS string) AS {one.name}",
            )
    needed = [(name, "key") for name in output.key] + [(name, "partition_by") for name in output.partition_by]
    if output.sequence_by:
        needed.append((output.sequence_by, "sequence_by"))
    for name, what in needed:
        if name.casefold() not in seen:
            raise TransformFailed(
                f"the rows for {output.table} have no column {name}, which `{what}` names",
                hint=f"let the transform return it, or name another column in `{what}`",
            )
    return found


MADE = "tidegauge.made"
"""The property of a target that Tidegauge created, and not its user."""


def properties_for(columns: Sequence[TargetColumn], output: DeltaTable) -> dict[str, str]:
    """The table properties of a target that is created."""
    found = {FEED: "true", MADE: "true"}
    vectors = output.deletion_vectors
    if vectors is not None or output.mode.needs_key(OutputKind.DELTA):
        # Also set where it is false: the session may have another default.
        found[VECTORS] = "false" if vectors is False else "true"
    if needs_mapping(columns):
        found[_MAPPING] = "name"
    return replace_kept(found, columns, output)


def plan_alterations(
    columns: tuple[TargetColumn, ...],
    target: DeltaTarget,
    output: DeltaTable,
    drift: Drift,
) -> TargetAlterations:
    """How the target has to be altered. Raises OutputDisagrees where it cannot take the rows without loss."""
    _check(target, output)
    known = written_columns(target, output)
    statements: list[str] = []
    notes: list[str] = []
    if not has_feed(target.properties):
        statements.append(f"SET TBLPROPERTIES ('{FEED}' = 'true')")
        notes.append(f"the change data feed of {output.table} was off, and is on from here")
    statement, note = _set_vectors(target, output)
    statements += statement
    notes += note
    added, widened, written = [], [], []
    grown: list[NewField] = []
    for one in columns:
        held = target.column(one.name)
        if held is None:
            if drift is Drift.EVOLVE:
                added.append(one)
                written.append(DeltaColumn(one.name, one.name, one.type))
            elif drift is Drift.FREEZE:
                notes.append(
                    f"the column {one.name} is not in {output.table} and is left out (drift: freeze)"
                )
            else:
                raise _drift_error(output, f"has no column {one.name}, which {output.giver} gives")
        elif fits(held.type, one.type):
            written.append(DeltaColumn(held.name, one.name, held.type))
        elif can_widen(one.type, held.type) and drift is Drift.EVOLVE:
            widened.append(TargetColumn(held.name, one.type))
            written.append(DeltaColumn(held.name, one.name, one.type))
        elif drift is Drift.EVOLVE and (fields := find_new_fields(held.type, one.type)):
            grown += [((held.name, *path), type_) for path, type_ in fields]
            written.append(DeltaColumn(held.name, one.name, one.type))
        else:
            raise _mismatch_error(output, held, one)
    given = {one.name.casefold() for one in columns}
    vanished = find_vanished(target, output, known, given)
    notes += [
        f"{output.giver} no longer gives the column {name} of {output.table}: it is NULL in the rows"
        " written from now on and as it was in the others"
        for name in vanished
    ]
    _check_not_given(target, output, given, drift)
    statements += _alter(target, added, widened, grown)
    statements += note_written(output, known, written)
    return TargetAlterations(tuple(written), tuple(statements), tuple(notes), vanished)


def _set_vectors(target: DeltaTarget, output: DeltaTable) -> tuple[list[str], list[str]]:
    """Statements and notes that turn deletion vectors on or off, if the table is not as the output says."""
    held, wanted = is_on(target.properties, VECTORS), output.deletion_vectors
    if wanted is None or wanted is held:
        return [], []
    set_to = f"SET TBLPROPERTIES ('{VECTORS}' = '{str(wanted).lower()}')"
    if wanted:
        return [set_to], [f"deletion vectors of {output.table} were off, and are on from here"]
    return [set_to], [
        f"deletion vectors of {output.table} were on, and are off from here; readers that do not know them"
        " can read it once the feature is dropped: ALTER TABLE … DROP FEATURE deletionVectors"
    ]


def _check_not_given(target: DeltaTarget, output: DeltaTable, given: set[str], drift: Drift) -> None:
    """Raises OutputDisagrees where the rows lack a column of the target: any column with `drift: fail`, else
    one that is NOT NULL."""
    for held in target.columns:
        if held.name.casefold() in given:
            continue
        if drift is Drift.FAIL:
            raise _drift_error(output, f"has a column {held.name}, which {output.giver} does not give")
        if held.required:
            raise OutputDisagrees(
                f"{output.table} has a column {held.name} that must not be NULL, and {output.giver} does not"
                " give it",
                hint=f"ALTER TABLE … ALTER COLUMN {held.name} DROP NOT NULL, or let {output.giver} give it",
            )


NewField = tuple[tuple[str, ...], Any]
"""A new field of a struct: its path, which begins with the column's name, and its type."""


def _alter(
    target: DeltaTarget,
    added: Sequence[TargetColumn],
    widened: Sequence[TargetColumn],
    grown: Sequence[NewField],
) -> Iterator[str]:
    inside = [TargetColumn(path[-1], type_) for path, type_ in grown]
    if needs_mapping([*added, *inside]) and target.properties.get(_MAPPING, "none") == "none":
        yield f"SET TBLPROPERTIES ('{_MAPPING}' = 'name')"
    if added or grown:
        fields: list[NewField] = [*(((one.name,), one.type) for one in added), *grown]
        columns = ", ".join(f"{'.'.join(map(quote, path))} {as_sql(type_)}" for path, type_ in fields)
        yield f"ADD COLUMNS ({columns})"
    if widened and not is_on(target.properties, _WIDENING):
        yield f"SET TBLPROPERTIES ('{_WIDENING}' = 'true')"
    yield from (f"ALTER COLUMN {quote(one.name)} TYPE {as_sql(one.type)}" for one in widened)


def _check(target: DeltaTarget, output: DeltaTable) -> None:
    for name in (*output.key, *output.partition_by, *((output.sequence_by,) if output.sequence_by else ())):
        if target.columns and target.column(name) is None:
            raise OutputDisagrees(
                f"{output.table} has no column {name}, which the output names",
                hint="somebody dropped or renamed it: bring it back, or drop the table and begin again with"
                " `tidegauge watermark reset`",
            )
    for held in target.columns:
        if held.made_by is not None:
            raise OutputDisagrees(
                f"the column {held.name} of {output.table} is filled by Delta itself ({held.made_by}), and"
                " flows write every column themselves",
                hint="make the table without it, and let the transform compute it",
            )
    ours = {name.casefold() for name in output.partition_by}
    theirs = {name.casefold() for name in target.partition_by}
    if output.mode.facts.replaces_partitions and ours != theirs:
        named = ", ".join(target.partition_by) or "nothing"
        raise OutputDisagrees(
            f"{output.table} is partitioned by {named}, and `partition_by` says"
            f" {', '.join(output.partition_by) or 'nothing'}",
            hint="name the table's own partition columns, or drop the table and begin again with `tidegauge"
            " watermark reset`",
        )
    if not output.mode.facts.only_adds and is_on(target.properties, "delta.appendOnly"):
        raise OutputDisagrees(
            f"{output.table} has delta.appendOnly set, and mode {output.mode} changes rows",
            hint="ALTER TABLE … UNSET TBLPROPERTIES ('delta.appendOnly'), or use mode: append",
        )


def _mismatch_error(output: DeltaTable, held: TargetColumn, one: TargetColumn) -> OutputDisagrees:
    wider = can_widen(one.type, held.type)
    hint = (
        "`drift: evolve` widens it"
        if wider
        else f"cast it in the transform to {as_sql(held.type)}, or alter the table"
    )
    return OutputDisagrees(
        f"the column {held.name} of {output.table} is {as_sql(held.type)}, and {output.giver} gives"
        f" {as_sql(one.type)}, which does not fit",
        hint=hint,
    )


def _drift_error(output: DeltaTable, what: str) -> OutputDisagrees:
    return OutputDisagrees(
        f"{output.table} {what} (drift: fail)",
        hint=f"mend {output.giver} or the table, or set `drift: evolve`",
    )


def needs_mapping(columns: Iterable[TargetColumn]) -> bool:
    return any(_FORBIDDEN & set(name) for one in columns for name in (one.name, *names_in(one.type)))
