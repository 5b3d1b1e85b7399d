"""Reads a flow's batches from the commits of its target, without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tidegauge.delta_log.snapshot import Snapshot
from tidegauge.errors import OutputDisagrees, PositionError
from tidegauge.model.plan import ReadWay, window_from_dict
from tidegauge.model.position import Window
from tidegauge.outputs.delta.epochs import EPOCH_KIND


@dataclass(frozen=True)
class CommittedBatch:
    """One committed batch: the window and the way that each input was read."""

    epoch: int
    seq: int
    windows: dict[str, Window]
    ways: dict[str, ReadWay | None]


@dataclass(frozen=True)
class BatchReach:
    """How far back the commits reach."""

    whole: bool
    """Whether they reach to the table's beginning, or to where it was last emptied: then no earlier batch has
    a row in it."""


def committed_batches(look: Snapshot, pipeline: str, flow: str) -> Iterator[CommittedBatch | BatchReach]:
    """The flow's batches, newest first, and at the end how far back the log reaches. Raises OutputDisagrees
    where a commit's note cannot be read."""
    version = None
    for commit in look.commits():
        version = commit.version
        said = commit.note
        if said is None or (said.get("pipeline"), said.get("flow")) != (pipeline, flow):
            continue
        try:
            if said.get("kind") == EPOCH_KIND:
                if said["empty"]:
                    yield BatchReach(whole=True)
                    return
            elif said.get("kind") is None:
                yield CommittedBatch(
                    int(said["epoch"]),
                    int(said["seq"]),
                    {str(one["input"]): window_from_dict(one) for one in said["windows"]},
                    {
                        str(one["input"]): ReadWay(one["way"]) if one["way"] else None
                        for one in said["windows"]
                    },
                )
        except (KeyError, TypeError, ValueError, PositionError) as error:
            raise OutputDisagrees(
                f"what the commit {commit.version} of the flow {flow} says cannot be read: {error}",
                hint="another version of tidegauge wrote it: use that one",
            ) from error
    yield BatchReach(whole=version == 0)
