"""Checks that a transform returns the columns that its output needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tidegauge.errors import TransformFailed
from tidegauge.model.delta_flow import DeltaFlow
from tidegauge.model.mode import OutputKind

_COLUMN_KINDS = {"key": "key column", "partition_by": "partition column"}


def refuse_without_needed(flow: DeltaFlow, name: str, columns: Sequence[str]) -> None:
    """Raises TransformFailed where a needed column is not among `columns`. `name` names the transform in
    messages."""
    given = {column.casefold() for column in columns}
    for option, column in _find_needed(flow):
        if column.casefold() not in given:
            verb = "has no" if flow.transform is None else "drops the"
            raise TransformFailed(
                f"{name} {verb} {_COLUMN_KINDS.get(option, 'column')} {column}, which output.{option} names",
                hint=f"it gives {', '.join(columns)}",
                place=flow.output.place,
            )


def _find_needed(flow: DeltaFlow) -> Iterator[tuple[str, str]]:
    output = flow.output
    if output.mode.needs_key(OutputKind.DELTA):
        yield from (("key", column) for column in output.key)
    yield from (("sequence_by", column) for column in (output.sequence_by,) if column is not None)
    yield from (("partition_by", column) for column in output.partition_by)
    yield from (("track", column) for column in output.track)
