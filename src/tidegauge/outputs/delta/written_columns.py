"""Which columns a flow has written to its Delta target, by the table's properties: so that columns of the
user's are left alone, and dropped ones are noticed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from tidegauge.errors import OutputDisagrees
from tidegauge.model.delta_flow import DeltaTable
from tidegauge.model.mode import OutputKind
from tidegauge.outputs.delta.types import literal

if TYPE_CHECKING:
    from tidegauge.outputs.delta.target import DeltaColumn, DeltaTarget, TargetColumn

WRITTEN = "tidegauge.columns."
"""The prefix of properties with the names of all columns that a flow ever wrote. Other columns of the table
are the user's; a column with such a name that is missing was dropped. The properties are numbered, since
catalogues hold no more than 4,000 characters in one."""
_PART = 3_000


def list_kept(names: list[str]) -> dict[str, str]:
    """The properties that keep these column names."""
    text = json.dumps(names)
    return {f"{WRITTEN}{at // _PART}": text[at : at + _PART] for at in range(0, len(text), _PART)}


def replace_kept(
    properties: Mapping[str, str], columns: Iterable[TargetColumn], output: DeltaTable
) -> dict[str, str]:
    """The properties with the names of these columns, in place of the names that they have."""
    others = {name: value for name, value in properties.items() if not name.startswith(WRITTEN)}
    return others if output.mode.facts.replaces_all else others | list_kept([one.name for one in columns])


def written_columns(target: DeltaTarget, output: DeltaTable) -> list[str]:
    """The columns that a flow ever wrote to the table. Raises OutputDisagrees."""
    there = {name for name in target.properties if name.startswith(WRITTEN)}
    try:
        text = "".join(target.properties[f"{WRITTEN}{number}"] for number in range(len(there)))
        return [str(name) for name in json.loads(text or "[]")]
    except (ValueError, TypeError, KeyError) as error:
        raise OutputDisagrees(
            f"the properties {', '.join(sorted(there))} of {output.table} are not as they were written",
            hint="remove them (ALTER TABLE … UNSET TBLPROPERTIES): they are written anew",
        ) from error


def note_written(output: DeltaTable, known: Sequence[str], written: Sequence[DeltaColumn]) -> Iterator[str]:
    """The statement that keeps the names of columns that are written for the first time. It comes after the
    columns are added: a kept name without a column would be taken for a column that was dropped.

    A table without kept names is left as it is, unless the mode sets vanished columns to NULL.
    """
    ours = {name.casefold() for name in known}
    names = [*known, *(one.name for one in written if one.name.casefold() not in ours)]
    if len(names) > len(known) and (known or output.mode.one_row_per_key(OutputKind.DELTA)):
        parts = ", ".join(f"'{name}' = {literal(part, 'string')}" for name, part in list_kept(names).items())
        yield f"SET TBLPROPERTIES ({parts})"


def find_vanished(
    target: DeltaTarget, output: DeltaTable, known: Sequence[str], given: set[str]
) -> tuple[str, ...]:
    """Columns that the flow wrote before and its rows no longer have; none in modes that keep them."""
    if not output.mode.one_row_per_key(OutputKind.DELTA):
        return ()
    ours = {name.casefold() for name in known} - given
    return tuple(held.name for held in target.columns if held.name.casefold() in ours)
