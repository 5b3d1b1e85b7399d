"""The optimize flows under `flows:`: their keys, and which tables they mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field

from tidegauge.config import values
from tidegauge.config.check import Problems
from tidegauge.config.forms import DocumentedDefault, Flag, Keys, SomeTexts, Tags, ValueParser
from tidegauge.config.problems import KeyPath, Problem, nearest, quoted
from tidegauge.errors import Place
from tidegauge.model.delta_flow import DeltaFlow
from tidegauge.model.optimize_flow import OPTIMIZE, OptimizeFlow
from tidegauge.model.select_words import TAG, SelectableFlow, is_called, select_by
from tidegauge.model.spec import Lake, Sync
from tidegauge.model.view_flow import WrittenInFlows


class OptimizeKeys(Keys):
    kind: Annotated[str, ValueParser(values.choice((OPTIMIZE,)), "`optimize`")] = Field(
        description="An optimize flow has no rows of its own, and no watermark."
    )
    select: Annotated[SomeTexts, DocumentedDefault("every flow that writes one")] = Field(
        default=(),
        description="The flows whose tables it looks after, in the words of `--select`: `tag:gold`, "
        "`silver_*`, a flow's name or its table, with `+` for what is above or below.",
    )
    vacuum: Annotated[Flag, DocumentedDefault("`true`")] = Field(
        default=True,
        description="Also remove files that are older than the table keeps and that no reader needs.",
    )
    tags: Tags = Field(default=(), description="Words to select by: `--select tag:WORD`.")


def make_optimize(
    check: Problems, name: str, body: Any, trail: KeyPath, pipeline: str
) -> OptimizeFlow | None:
    before = len(check.problems)
    keys = check.keys(OptimizeKeys, body, trail)
    if keys is None or len(check.problems) > before:
        return None
    here = check.document.key_place(trail)
    written = (*trail, "select")
    return OptimizeFlow(
        pipeline=pipeline,
        name=name,
        select=keys.select,
        vacuum=keys.vacuum,
        tags=keys.tags,
        place=here,
        select_place=check.document.place(written) if written in check.document.values else here,
    )


def find_tables(
    optimizes: Sequence[OptimizeFlow],
    flows: Sequence[WrittenInFlows],
    syncs: Sequence[Sync],
    problems: list[Problem],
) -> tuple[OptimizeFlow, ...]:
    """The same optimize flows, each with the flows whose tables it optimizes and those that read them.

    Only its database can tell which tables a sync fills. So a word of `select` that may mean such tables is
    no problem here; it is resolved when that database is asked.
    """
    filling = [sync for sync in syncs if isinstance(sync.to, Lake) and sync.to.delta]
    tables = [flow for flow in flows if isinstance(flow, DeltaFlow)]
    taken: dict[str, OptimizeFlow] = {}
    made = []
    for one in optimizes:
        meant, unknown = select_by(tables, one.select, is_called)
        for word in unknown:
            if not _may_be_filled(word, filling) or _find_called(word, [*flows, *optimizes]):
                problems.append(_explain_nothing_meant(one, word, [*flows, *optimizes]))
        if not meant and not unknown and not filling:
            problems.append(
                Problem(
                    f"the flow {quoted(one.name)} has nothing to optimize: no flow here writes a Delta table",
                    _require_place(one.place),
                    "write flows between Delta tables under `flows:`, or remove this one",
                )
            )
        for flow in meant:
            first = taken.setdefault(flow.name, one)
            if first is not one:
                problems.append(
                    Problem(
                        f"the flows {quoted(first.name)} and {quoted(one.name)} both optimize the table of"
                        f" {quoted(flow.name)}; the first one at {_require_place(first.select_place)}",
                        _require_place(one.select_place),
                        "narrow `select` of one of them: a table is looked after by one flow",
                    )
                )
                break
        made.append(one.look_after(meant, tables))
    return tuple(made)


def _explain_nothing_meant(one: OptimizeFlow, word: str, every: Sequence[SelectableFlow]) -> Problem:
    found = _find_called(word, every)
    if found == [one.name]:
        message = f"`select` of {quoted(one.name)} means itself: {quoted(word)}"
    elif found:
        message = (
            f"`select` of {quoted(one.name)} means no table: {quoted(word)} is {', '.join(found)}, and a view"
            " or an optimize flow has no files"
        )
    else:
        message = f"`select` of {quoted(one.name)} means no flow that writes a Delta table: {quoted(word)}"
    words = [flow.name for flow in every] + [f"{TAG}{tag}" for flow in every for tag in flow.tags]
    close = None if found else nearest(word.strip("+"), words)
    hint = f"did you mean `{close}`?" if close else "name flows that write Delta tables, or their tags"
    return Problem(message, _require_place(one.select_place), hint)


def _find_called(word: str, every: Sequence[SelectableFlow]) -> list[str]:
    return [flow.name for flow in every if is_called(flow, word.strip("+"))]


def _may_be_filled(word: str, filling: Sequence[Sync]) -> bool:
    bare = word.strip("+")
    return any(not bare.startswith(TAG) or bare.removeprefix(TAG) in sync.tags for sync in filling)


def _require_place(place: Place | None) -> Place:
    assert place is not None
    return place
