"""A batch that is planned but not committed: its frames are computed by the commit itself."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tidegauge.delta_log.application import prefix_of
from tidegauge.delta_log.snapshot import Snapshot
from tidegauge.model.batch_data import GUARD, DeltaBatch, DeltaChange, Verdict
from tidegauge.model.delta_flow import DeltaFlow
from tidegauge.model.expectation import Checks
from tidegauge.model.spark_causes import with_causes
from tidegauge.outputs.delta import modes
from tidegauge.outputs.delta.target import TargetAlterations
from tidegauge.spark.hadoop import on_connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass
class PendingChange:
    batch_data: DeltaBatch
    session: SparkSession
    change: DeltaChange
    room: TargetAlterations
    notes: tuple[str, ...]
    checked: modes.CheckedChange | None = None

    @property
    def small(self) -> bool:
        """Whether the commit may be made without Spark, if the target is small too."""
        return self.batch_data.reads_little and not on_connect(self.session)

    @property
    def whole(self) -> bool:
        """Whether a guarded change covers all rows of the transform, and not only those of a window."""
        verdict = self.change.judge() if self.change.judge else None
        return verdict is not None and verdict.whole

    def check(self, job: modes.DeltaWrite) -> tuple[modes.CheckedChange, Verdict | None]:
        """Check the change by the flow's expectations and the output's mode. What can be refused is refused
        here."""
        verdict = self.change.judge() if self.change.judge else None
        self.checked = modes.check(job)
        if verdict is None:
            return self.checked, None
        checks = verdict.checks
        if checks.checked is None and self.checked.read is not None:
            checks = replace(checks, checked=self.checked.read - (self.checked.deletes or 0))
        if self.change.count_repeated:
            checks = checks.and_also(self.change.count_repeated(self.checked.rows))
        return self.checked, replace(verdict, checks=checks)

    def release(self) -> None:
        """Let go of the frames that are kept in memory for this change."""
        held: list[DataFrame] = list(self.change.cached)
        if self.checked is not None and self.checked.held is not None:
            held.append(self.checked.held)
        for frame in held:
            with suppress(Exception):  # a session that has ended has released them already
                frame.unpersist()


def plan_change(
    batch_data: DeltaBatch,
    session: SparkSession,
    target: Callable[[], DataFrame] | None,
    *,
    guarded: bool,
) -> DeltaChange:
    """The change of a batch; `target` reads the target table. `guarded`: with a guard, if it can have one."""
    if guarded and batch_data.guarded is not None:
        try:
            return batch_data.guarded(session, target)
        except Exception as error:
            if not is_guard_error(error):
                raise
    return batch_data.change(session, target)


def is_guard_error(error: BaseException) -> bool:
    """Whether a row was not as expected, so that the batch has to be done without a guard.

    Nothing else depends on it: if another error is mistaken for this one, the batch is just done once more.
    """
    return GUARD in with_causes(error)


def last_batch_passed(look: Snapshot | None, flow: DeltaFlow) -> bool:
    """Whether every row of the flow's last batch was as expected, as far as the log's newest commits tell.

    If a row was not, the next batch most likely has such a row too.
    """
    prefix, by_row = prefix_of(flow.pipeline, flow.name), {one.name for one in flow.expect if one.by_row}
    for commit in look.since_checkpoint() if look else ():
        if any(name.startswith(prefix) for name in commit.transactions):
            try:
                checks = Checks.from_json((commit.note or {})["expectations"])
            except (KeyError, TypeError, ValueError):
                return True  # it opened an epoch, or the flow had no expectations yet
            return not any(one.failed and one.name in by_row for one in checks.counts)
    return True
