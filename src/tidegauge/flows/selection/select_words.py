"""Which flows the words of a selection mean, whatever kind they are."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import TypeVar

from tidegauge.errors import ConfigError
from tidegauge.flows.names import matches, stage_of, table_of
from tidegauge.model.delta_flow import DeltaFlow
from tidegauge.model.optimize_flow import OptimizeFlow
from tidegauge.model.select_words import TAG, is_called, select_by
from tidegauge.model.spec import Stage, TableFlow
from tidegauge.model.view_flow import GraphFlow, ViewFlow, WithoutData

_F = TypeVar("_F", bound=TableFlow | DeltaFlow | ViewFlow | OptimizeFlow)


def select_flows(flows: Sequence[_F], selection: Sequence[str]) -> tuple[list[_F], list[str]]:
    """The flows that are meant, all of them without a selection, and the words that mean none.

    A word is a name, a pattern, `tag:WORD` or the table that is read or written; `+WORD` adds all that those
    flows read from, `WORD+` all that reads from them.
    """
    return select_by(flows, selection, is_meant)


def is_meant(flow: GraphFlow, word: str) -> bool:
    """Whether a word of a selection, without its `+`, means this flow."""
    if word.startswith(TAG) or not isinstance(flow, TableFlow):
        return is_called(flow, word)
    if flow.name == word or matches(flow.table, word, flow.source):
        return True
    # `settlement.*/load`: one stage of some tables.
    return (
        flow.stage is not None
        and flow.stage is stage_of(word)
        and matches(flow.table, table_of(word), flow.source)
    )


def nothing_selected_error(
    selection: Sequence[str], stage: Stage | None, names: Sequence[str]
) -> ConfigError:
    """Make the error for words that select no flow. `names`: those of all flows."""
    words = (*selection, *([f"--stage {stage}"] if stage else []))
    word = words[0].strip("+")
    # People usually type the table's name, which means both stages.
    known = list(names) if stage_of(word) else list(dict.fromkeys(map(table_of, names)))
    near = difflib.get_close_matches(word, known, n=3, cutoff=0.4)
    return ConfigError(
        f"nothing is selected by {', '.join(words)}",
        hint=f"did you mean {', '.join(near)}?" if near else f"there are: {', '.join(sorted(known)[:10])}",
    )


def no_data_error(flows: Sequence[WithoutData]) -> ConfigError:
    """Make the error for a selection of only views and optimize flows, where a command needs data."""
    names = ", ".join(flow.name for flow in flows)
    kinds = " and ".join(sorted({flow.kind_of_flow for flow in flows}))
    return ConfigError(
        f"{names}: {kinds} has no data and no watermark of its own, so there is nothing to do here",
        hint="select the tables that it is about; `tidegauge run` does what there is to do for it",
    )
