"""Chooses how a flow's transform is evaluated, and says why. No Spark."""

from __future__ import annotations

from tidegauge.errors import TransformFailed
from tidegauge.model.delta_flow import DeltaFlow, Evaluate, Function, Sql
from tidegauge.transform.nondeterminism import refuse_nondeterminism
from tidegauge.transform.parse import is_readable
from tidegauge.transform.sql import Columns, Evaluation, read_sql

_UNLESS = "unless the run finds that to be too little, as for a window or an aggregate"
_BEST_FIRST = (Evaluate.ROWS, Evaluate.KEYS, Evaluate.WHOLE)


def choose_evaluation(flow: DeltaFlow, *, columns: Columns | None = None) -> Evaluation:
    """Choose how to evaluate the flow's transform. Raises TransformFailed for SQL that cannot be read, is not
    deterministic, or does not allow the `evaluate` or mode asked for.

    `columns` are those of the inputs, where they are known; without them more flows are computed as a whole.
    """
    mode, asked = flow.output.mode, flow.evaluate
    whole = mode.facts.replaces_all or (asked is Evaluate.WHOLE and not mode.facts.only_adds)
    if whole and isinstance(flow.transform, Sql) and not is_readable(flow.transform.text):
        return Evaluation(Evaluate.WHOLE, "the SQL is left to Spark to read")
    refuse_nondeterminism(flow, columns or {})
    best = _find_best(flow, columns)
    if mode.facts.replaces_all:
        return Evaluation(Evaluate.WHOLE, "the mode is overwrite")
    if mode.facts.only_adds:
        return _choose_for_append(flow, best)
    if asked is Evaluate.AUTO:
        return best
    if _BEST_FIRST.index(asked) < _BEST_FIRST.index(best.evaluate):
        raise TransformFailed(
            f"with `evaluate: {asked}` the target would differ from the transform over all rows: {best.why}",
            hint=f"leave `evaluate` out: auto chooses {best.evaluate} here",
            place=flow.place,
        )
    return Evaluation(asked, f"the flow asks for it; auto would be {best.evaluate}: {best.why}")


def _choose_for_append(flow: DeltaFlow, best: Evaluation) -> Evaluation:
    asked = flow.evaluate
    if best.evaluate is not Evaluate.ROWS or asked not in (Evaluate.AUTO, Evaluate.ROWS):
        cause = best.why if best.evaluate is not Evaluate.ROWS else f"`evaluate: {asked}`"
        raise TransformFailed(
            f"append takes a row-wise transform of one incremental input, and this is none: {cause}",
            hint="use `mode: merge` with a key, or `snapshot: true` for the other inputs",
            place=flow.place,
        )
    return best


def _find_best(flow: DeltaFlow, columns: Columns | None) -> Evaluation:
    """The cheapest evaluation that the transform allows: by rows, by keys, or as a whole."""
    best = _read_transform(flow, columns)
    raw = next((part for part in flow.inputs if part.raw), None)
    if raw is None:
        return best
    return Evaluation(Evaluate.ROWS, f"the transform itself handles the raw change feed of {raw.name}")


def _read_transform(flow: DeltaFlow, columns: Columns | None) -> Evaluation:
    incremental = [part.name for part in flow.incremental]
    transform = flow.transform
    if transform is None:
        return Evaluation(Evaluate.ROWS, "rows as they are")
    if isinstance(transform, Function):
        if flow.evaluate is not Evaluate.AUTO:
            return Evaluation(flow.evaluate, "the flow says so of a Python function")
        if len(incremental) > 1:
            return Evaluation(
                Evaluate.KEYS, f"a Python function of {len(incremental)} incremental inputs, {_UNLESS}"
            )
        return Evaluation(Evaluate.ROWS, f"a Python function of one incremental input, {_UNLESS}")
    output = flow.output
    partitions = output.mode.facts.replaces_partitions
    by = output.partition_by if partitions else output.key
    return read_sql(
        transform.text,
        inputs=[part.name for part in flow.read],
        incremental=incremental,
        by=by,
        place=transform.file,
        columns=columns,
        kind="partition" if partitions else "key",
    )
