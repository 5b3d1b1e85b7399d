"""Begin tables again at the beginning, with nothing left of what was there: the first half of a full refresh.

The second half is an ordinary run.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidegauge.errors import WrongState
from tidegauge.model.spec import Project, Stage
from tidegauge.observe.events import Listener
from tidegauge.operations import override_preview
from tidegauge.operations.override import OverridePreview, OverrideResult, Refresh, carry_out
from tidegauge.operations.refresh_check import find_unfillable, with_notes


def preview(
    project: Project, selection: Sequence[str], *, stage: Stage | None = None
) -> list[OverridePreview]:
    """What would be read again, and what would be emptied; both stages of a table unless one is named."""
    return with_notes(project, override_preview.preview(project, selection, Refresh(), stage=stage))


def refresh(
    project: Project, moves: Sequence[OverridePreview], *, reason: str, tell: Listener | None = None
) -> list[OverrideResult]:
    """Do what was shown, the stage nearest to the source first.

    In the other order a runner that comes between the two would load the old life of the lake into the target
    just emptied. Whose first stage cannot begin anew keeps its target as it is. So does who would not find
    what to fill it with again: that is looked for first, again, for a person may take his time to answer.
    """
    done: list[OverrideResult] = []
    why = find_unfillable(project, moves)
    failed: set[str] = set()
    for move in _nearest_first(moves):
        if move.name in why:
            done.append(OverrideResult(move, None, why[move.name]))
            failed.add(move.name)
            continue
        before = next((name for name in move.flow.upstreams if name in failed), None)
        if before is not None:
            error = WrongState(
                f"{move.name}: left as it is, because {before} could not begin again",
                hint="mend that first, then repeat the full refresh",
                retryable=True,
            )
            done.append(OverrideResult(move, None, error))
            continue
        [one] = carry_out(project, [move], reason=reason, tell=tell)
        done.append(one)
        if one.error is not None:
            failed.add(move.name)
    return done


def _nearest_first(moves: Sequence[OverridePreview]) -> list[OverridePreview]:
    """Whoever reads what another one here writes comes after it."""
    found: list[OverridePreview] = []
    left = list(moves)
    while left:
        names = {move.name for move in left}
        ready = [move for move in left if not names & set(move.flow.upstreams)]
        found += ready
        left = [move for move in left if move not in ready]
    return found
