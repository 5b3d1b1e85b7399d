"""Keys of a flow that are right one by one and wrong together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tidegauge.config.flow_keys import InputKeys, OutputKeys
from tidegauge.config.flow_values import NONE, VERSION
from tidegauge.config.problems import KeyPath, quoted
from tidegauge.config.view_keys import ViewInputKeys
from tidegauge.model.delta_flow import IS_CURRENT, VALID_FROM, VALID_TO, DeltaFlow, DeltaInput, Evaluate
from tidegauge.model.expectation import Unique
from tidegauge.model.mode import Mode, OutputKind

_OF_VERSIONS = ("feed", "initial", "on_missing", "max_versions", "max_bytes")
_OF_CHANGES = ("cursor", *_OF_VERSIONS, "key", "lookback", "settle", "format")
_ADDED = (VALID_FROM, VALID_TO, IS_CURRENT)


@dataclass(frozen=True)
class FlowConflict:
    trails: tuple[KeyPath, ...]
    """Trails below what was checked. The first one that is in the file is where the error points."""
    message: str
    hint: str


def in_a_place(keys: InputKeys | OutputKeys | ViewInputKeys, what: str) -> Iterator[FlowConflict]:
    if keys.table is not None and keys.path is not None:
        yield FlowConflict((("path",),), f"`table` and `path` both name the {what}", "keep one of them")
    elif keys.table is None and keys.path is None:
        yield FlowConflict(
            ((),),
            f"the {what} names no table",
            "say which with `table`, by its name in Spark's catalogue, or with `path`",
        )


def in_an_input(keys: InputKeys) -> Iterator[FlowConflict]:
    yield from in_a_place(keys, "input")
    if keys.snapshot:
        for key in _OF_CHANGES:
            if key in keys.model_fields_set:
                yield FlowConflict(
                    ((key,),),
                    f"`{key}` belongs to an input whose changes are followed, and this one is a snapshot",
                    "remove it, or `snapshot`",
                )
    else:
        yield from _in_an_input_by_column(keys)


def _in_an_input_by_column(keys: InputKeys) -> Iterator[FlowConflict]:
    if keys.cursor == VERSION:
        for key in ("key", "lookback", "settle", "format"):
            if key in keys.model_fields_set:
                yield FlowConflict(
                    ((key,),),
                    f"`{key}` belongs to an input with a column as its cursor, and this one has versions",
                    "remove it, or name the column with `cursor`",
                )
        return
    for key in _OF_VERSIONS:
        if key in keys.model_fields_set:
            yield FlowConflict(
                ((key,),),
                f"`{key}` belongs to versions, and the cursor of this input is `{keys.cursor}`",
                "remove it, or `cursor`",
            )
    if keys.cursor == NONE:
        for key in ("key", "lookback", "settle"):
            if key in keys.model_fields_set:
                yield FlowConflict(
                    ((key,),), f"`{key}` means nothing where the whole table is compared", "remove it"
                )
    if keys.format is not None and keys.path is None:
        yield FlowConflict(
            (("format",),), "`format` says what is at a `path`, and this is a table's name", "remove it"
        )


def in_an_output(keys: OutputKeys) -> Iterator[FlowConflict]:
    yield from in_a_place(keys, "output")
    mode = Mode(keys.mode)
    at_mode: tuple[KeyPath, ...] = (("mode",), ())
    if mode.needs_key(OutputKind.DELTA) and not keys.key:
        yield FlowConflict(at_mode, f"mode `{mode}` needs a `key`", "name the columns that tell rows apart")
    if mode is Mode.SCD2 and keys.sequence_by is None:
        yield FlowConflict(
            at_mode, "mode `scd2` needs `sequence_by`", "name the column that orders the changes of a key"
        )
    if mode is Mode.REPLACE_PARTITIONS and not keys.partition_by:
        yield FlowConflict(
            at_mode,
            "mode `replace_partitions` needs `partition_by`",
            "name the columns whose values make a partition",
        )
    if mode is Mode.APPEND and keys.key:
        yield FlowConflict(
            (("key",),),
            "`key` has no meaning in mode `append`, which adds every change as a row",
            "remove it, or use mode `merge`",
        )
    if not mode.needs_key(OutputKind.DELTA) and keys.sequence_by is not None:
        yield FlowConflict(
            (("sequence_by",),),
            f"`sequence_by` orders the changes of a key, and mode `{mode}` goes by none",
            "remove it, or use mode `merge`",
        )
    for key, owner in (
        ("track", Mode.SCD2),
        ("surrogate_key", Mode.SCD2),
        ("on_delete", Mode.APPEND),
    ):
        if key in keys.model_fields_set and mode is not owner:
            yield FlowConflict(
                ((key,),), f"`{key}` belongs to mode `{owner}`, and this is `{mode}`", "remove it"
            )
    yield from _in_zorder(keys)
    yield from _among_columns(keys, mode)


def _in_zorder(keys: OutputKeys) -> Iterator[FlowConflict]:
    partitions = {column.casefold() for column in keys.partition_by}
    for column in keys.zorder:
        if column.casefold() in partitions:
            yield FlowConflict(
                (("zorder",),),
                f"the table is partitioned by {quoted(column)}, which `zorder` cannot sort by",
                "name another column",
            )


def _among_columns(keys: OutputKeys, mode: Mode) -> Iterator[FlowConflict]:
    in_key = {column.casefold() for column in keys.key}
    sequence = (keys.sequence_by or "").casefold()
    if sequence in in_key:
        yield FlowConflict(
            (("sequence_by",),),
            f"{quoted(keys.sequence_by or '')} is part of `key`, and so never differs within one",
            "name a column that grows with every change",
        )
    if mode is not Mode.SCD2:
        return
    named = {
        "key": in_key,
        "sequence_by": {sequence},
        "track": {column.casefold() for column in keys.track},
        "surrogate_key": {(keys.surrogate_key or "").casefold()},
    }
    for key, columns in named.items():
        for column in _ADDED:
            if column in columns:
                yield FlowConflict(
                    ((key,),),
                    f"`{column}` is added by mode `scd2` itself, and so cannot stand in `{key}`",
                    "name another column",
                )
    if keys.surrogate_key is not None:
        for key in ("key", "sequence_by", "track"):
            if named["surrogate_key"] & named[key]:
                yield FlowConflict(
                    (("surrogate_key",),),
                    f"{quoted(keys.surrogate_key)} stands in `{key}` too, and `surrogate_key` is a new one",
                    "give it another name",
                )


def _in_expectations(flow: DeltaFlow) -> Iterator[FlowConflict]:
    for one in flow.expect:
        if flow.output.mode.facts.keeps_history and isinstance(one.rule, Unique):
            yield FlowConflict(
                (("expect", one.name.partition(":")[0]), ("expect",)),
                f"{quoted(one.name)} has no meaning in mode `scd2`, which keeps many rows of one key",
                "remove it; no two rows of a key are ever valid at once",
            )


def in_a_flow(flow: DeltaFlow) -> Iterator[FlowConflict]:
    incremental, mode = flow.incremental, flow.output.mode
    if not incremental:
        yield FlowConflict(
            (("inputs",), ()),
            "no input of the flow is followed: each is a snapshot",
            "let one of them be no snapshot, so that its changes have something to do",
        )
    if flow.transform is None and len(flow.read) > 1:
        yield FlowConflict(
            ((),),
            "a flow with several inputs needs a `transform`",
            "name a `.sql` file or `MODULE:FUNCTION` that makes one table of them",
        )
    yield from _in_expectations(flow)
    if flow.by_column is not None:
        yield from _in_a_flow_by_column(flow, flow.by_column)
        return
    at_evaluate: tuple[KeyPath, ...] = (("evaluate",), ())
    if len(incremental) > 1:
        names = ", ".join(f"`{part.name}`" for part in incremental)
        if flow.evaluate is Evaluate.ROWS:
            yield FlowConflict(
                at_evaluate,
                f"evaluate `rows` follows one input, and here are several: {names}",
                "use `keys` or `auto`, or let all but one be snapshots",
            )
        if mode is Mode.APPEND:
            yield FlowConflict(
                (("output", "mode"), ("output",)),
                f"mode `append` follows one input, and here are several: {names}",
                "use mode `merge`, or let all but one be snapshots",
            )
    if flow.evaluate in (Evaluate.KEYS, Evaluate.WHOLE):
        if mode is Mode.APPEND:
            yield FlowConflict(
                at_evaluate,
                f"evaluate `{flow.evaluate}` computes rows anew, and mode `append` would add them again",
                "leave it out, or use mode `merge`",
            )
        if any(part.raw for part in incremental):
            yield FlowConflict(
                at_evaluate,
                f"evaluate `{flow.evaluate}` computes from whole tables, and feed `raw` gives changes only",
                "leave out one of the two",
            )


def _in_a_flow_by_column(flow: DeltaFlow, part: DeltaInput) -> Iterator[FlowConflict]:
    assert part.by_column is not None
    column, mode = part.by_column.column, flow.output.mode
    for other in flow.incremental:
        if other is not part:
            yield FlowConflict(
                (("inputs", other.name),),
                f"{quoted(other.name)} is followed beside {quoted(part.name)}, which has no versions",
                "let all other inputs be snapshots, or copy the table by a flow of its own first",
            )
    at_mode: tuple[KeyPath, ...] = (("output", "mode"), ("output",))
    allowed = (Mode.APPEND, Mode.MERGE) if column else (Mode.MERGE, Mode.REPLACE_PARTITIONS, Mode.OVERWRITE)
    if mode not in allowed:
        why = "has a column as its cursor" if column else "is read whole each time"
        yield FlowConflict(
            at_mode,
            f"mode `{mode}` does not go with {quoted(part.name)}, which {why}",
            f"use {' or '.join(f'`{one}`' for one in allowed)}, and let a flow that reads the target keep it"
            f" in mode `{mode}`",
        )
    if column and mode is Mode.APPEND and not part.by_column.key:
        yield FlowConflict(
            (("inputs", part.name),),
            f"{quoted(part.name)} needs a `key`: what is read again must not be appended a second time",
            "name the columns that tell its rows apart",
        )
    if flow.evaluate not in (Evaluate.AUTO, Evaluate.ROWS if column else Evaluate.WHOLE):
        yield FlowConflict(
            (("evaluate",), ()),
            f"evaluate `{flow.evaluate}` needs versions, and {quoted(part.name)} has none",
            "remove it",
        )
