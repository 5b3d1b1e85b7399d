"""Judges the rows of a batch by the flow's checks: ExpectationFailed for a batch that must not be written.

Either a guard stops the write at the first row that fails a check; or all rows are computed, held and counted
before the commit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import TYPE_CHECKING

from tidegauge.model.batch_data import GUARD, Verdict
from tidegauge.model.delta_flow import CHANGE_TYPE, DELETE, DeltaFlow
from tidegauge.model.expectation import Action, CheckCount, Checks, Expectation, Fresh, RowCount, Unique
from tidegauge.model.marks import FAILED, count_rows, count_stale, refuse
from tidegauge.model.mode import Mode
from tidegauge.model.types import quote
from tidegauge.transform.checks import RowChecks, any_of, fails, value_of
from tidegauge.transform.difference import HERE, filter_by_keys

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

ROW, REASONS = "row", "_reasons"
_SHOWN = 300
EXACT = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
"""Options that keep a row's exact values in its JSON; the JSON has to be read with them too."""


class ExpectationFilter:
    """Keeps rows that are set aside out of the target, and remembers the batch's rows for the verdict."""

    def __init__(
        self,
        flow: DeltaFlow,
        look_up: Callable[[str], DataFrame],
        cache: Callable[[DataFrame], DataFrame],
        *,
        guarded: bool = False,
    ) -> None:
        self._flow = flow
        self._checks = RowChecks(flow, look_up)
        self._cache = cache
        self._seen: list[DataFrame] = []
        self.guarded = guarded and bool(flow.expect)

    def filter_and_count(self, rows: DataFrame) -> DataFrame:
        """Of rows that a batch is about to write, those that are not set aside; all count for the verdict.

        Where rows have the column `HERE`, only those where it is true count; the others are from before.
        """
        if not self._flow.expect:
            return rows
        if self.guarded:
            return self._checks.guard(rows, GUARD)
        marked = self._cache(self._checks.mark(rows))
        here = marked.where(HERE).drop(HERE) if HERE in rows.columns else marked
        self._seen.append(here.where(f"{FAILED} IS NOT NULL"))
        return marked.where(self._checks.is_written()).drop(FAILED)

    def filter(self, rows: DataFrame) -> DataFrame:
        """Of any rows that the transform gives, those that are not set aside; none count for the verdict."""
        if not self._checks.bits_of("quarantine", "drop"):
            return rows
        return self._checks.mark(rows).where(self._checks.is_written()).drop(FAILED)

    def judge(self, *, whole: bool) -> Verdict | None:
        """The verdict over the batch's rows; None where none were checked. `whole`: they are all rows that
        the transform gives, and not only those of a change. Raises ExpectationFailed."""
        if self.guarded:
            counts = tuple(CheckCount(one.name, one.action, 0) for one in self._checks.expectations)
            return Verdict(Checks(None, counts), None, whole=whole)
        if not self._seen:
            return None
        rows = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), self._seen)
        rows = rows.drop(
            *(name for name in rows.columns if name.startswith("_commit_") or name == CHANGE_TYPE)
        )
        return judge(self._flow, self._checks, rows, whole=whole)


def can_guard(flow: DeltaFlow) -> bool:
    """Whether a guard can do all checks of the flow, and the commit tells how many rows it saw.

    `row_count` and `fresh` need all rows together, before the commit. So does `unique`, which reads the rows
    once more unless they are held, as those of a merge are. The commit of a history does not tell how many
    events it was made from.
    """
    mode = flow.output.mode
    return (
        bool(flow.expect)
        and not mode.facts.keeps_history
        and all(one.by_row or (isinstance(one.rule, Unique) and mode is Mode.MERGE) for one in flow.expect)
    )


def judge(flow: DeltaFlow, checks: RowChecks, rows: DataFrame, *, whole: bool) -> Verdict:
    """The verdict over marked rows. Raises ExpectationFailed for a batch that must not be written."""
    from pyspark.sql import functions as F  # noqa: N812

    aside, dropped = any_of(checks.bits_of("quarantine")), any_of(checks.bits_of("drop"))
    shown = F.substring(_to_json_text(rows), 1, _SHOWN)
    asked = [
        F.count(F.lit(1)).alias("rows"),
        F.count_if(checks.is_written()).alias("kept"),
        F.count_if(aside).alias("aside"),
        F.count_if(dropped & ~aside).alias("dropped"),
    ]
    for at, one in enumerate(checks.expectations):
        asked.append(F.count_if(fails(at)).alias(f"n{at}"))
        if one.action is Action.FAIL or one.max_fraction is not None:
            asked.append(F.first(F.when(fails(at), shown), ignorenulls=True).alias(f"row{at}"))
    whole_batch = [one for one in flow.expect if isinstance(one.rule, Fresh)]
    for at, one in enumerate(whole_batch):
        asked.append(_is_stale(rows, checks, one).alias(f"stale{at}"))
    facts = rows.agg(*asked).collect()[0].asDict()
    counts = [
        CheckCount(one.name, one.action, int(facts[f"n{at}"])) for at, one in enumerate(checks.expectations)
    ]
    for at, one in enumerate(checks.expectations):
        refuse(flow.name, one, counts[at].failed, int(facts["rows"]), partial(facts.get, f"row{at}"))
    counts += [
        count_rows(flow.name, one, int(facts["kept"]))
        for one in flow.expect
        if isinstance(one.rule, RowCount)
    ]
    counts += [
        count_stale(flow.name, one, stale=bool(facts[f"stale{at}"])) for at, one in enumerate(whole_batch)
    ]
    found = Checks(int(facts["rows"]), tuple(counts), int(facts["aside"]), int(facts["dropped"]))
    put_aside = None
    if found.quarantined:
        put_aside = rows.where(aside).select(_to_json_text(rows).alias(ROW), checks.reasons().alias(REASONS))
    return Verdict(found, put_aside, whole=whole)


def count_repeated(
    flow: DeltaFlow, rows: DataFrame, target: DataFrame | None, touched: DataFrame | None
) -> tuple[CheckCount, ...]:
    """Count what fails the `unique` checks in rows that are about to be written. Raises ExpectationFailed.

    `target` has the rows that are there already; those with the same keys, or in the partitions `touched`,
    are about to be replaced and do not count.
    """
    return tuple(
        _count_repeated(flow, one, one.rule, rows, target, touched)
        for one in flow.expect
        if isinstance(one.rule, Unique)
    )


def _count_repeated(
    flow: DeltaFlow,
    one: Expectation,
    rule: Unique,
    rows: DataFrame,
    target: DataFrame | None,
    touched: DataFrame | None,
) -> CheckCount:
    from pyspark.sql import functions as F  # noqa: N812

    stays = rows.where(~F.col(CHANGE_TYPE).eqNullSafe(DELETE)) if CHANGE_TYPE in rows.columns else rows
    names = [f"__tidegauge_u{at}" for at in range(len(rule.columns))]

    def values(frame: DataFrame) -> DataFrame:
        picked = frame.select(
            *(value_of(frame, one, name).alias(as_) for name, as_ in zip(rule.columns, names, strict=True))
        )
        return picked.dropna(how="any")

    mine = values(stays).groupBy(*names).agg(F.count(F.lit(1)).alias("n"))
    facts, key = flow.output.mode.facts, flow.output.key
    if target is not None and not facts.replaces_all:
        if facts.replaces_partitions and touched is not None:
            target = filter_by_keys(target, touched, flow.output.partition_by, how="left_anti")
        elif key:
            target = filter_by_keys(target, rows, key, how="left_anti")
        there = values(target).distinct().withColumn("there", F.lit(True))
        mine = mine.join(there, names, "left")
    else:
        mine = mine.withColumn("there", F.lit(None).cast("boolean"))
    found = (
        mine.where("n > 1 OR there")
        .agg(
            F.coalesce(F.sum("n"), F.lit(0)).alias("n"),
            F.first(
                F.to_json(
                    F.struct(*(F.col(name).alias(of) for name, of in zip(names, rule.columns, strict=True)))
                )
            ).alias("row"),
        )
        .collect()[0]
    )
    count = CheckCount(one.name, one.action, int(found["n"]))
    refuse(flow.name, one, count.failed, None, lambda: found["row"])
    return count


def _is_stale(rows: DataFrame, checks: RowChecks, one: Expectation) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    assert isinstance(one.rule, Fresh)
    seconds = one.rule.within.total_seconds()
    newest = F.max(F.when(checks.is_written(), value_of(rows, one, one.rule.column).cast("timestamp")))
    return newest < F.current_timestamp() - F.make_dt_interval(secs=F.lit(seconds))


def _to_json_text(rows: DataFrame) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    columns: Sequence[str] = [name for name in rows.columns if name != FAILED]
    return F.to_json(F.struct(*(F.col(quote(name)) for name in columns)), EXACT)
