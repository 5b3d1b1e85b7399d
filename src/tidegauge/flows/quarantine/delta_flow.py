"""Show, discard and replay the rows that a flow between Delta tables has in quarantine.

Usually a replay sets the flow back, so that its rows are evaluated again with today's expectations. Only a
target that only grows gets the quarantined rows themselves, in three commits: they are marked, appended
under the mark's name, and deleted from the quarantine. If the process dies in between, the next replay goes
on with its mark.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tidegauge.delta_log.location import lake_of
from tidegauge.delta_log.snapshot import Log
from tidegauge.errors import OutputDisagrees
from tidegauge.flows.delta_locator import DeltaTableLocator
from tidegauge.flows.override.preview import OverrideRequest, Reset, SetTo
from tidegauge.flows.quarantine.summary import QuarantineSummary
from tidegauge.model.delta_flow import DeltaFlow
from tidegauge.model.position import VersionPosition
from tidegauge.model.watermark import Watermark
from tidegauge.outputs.delta import session as delta_session
from tidegauge.outputs.delta.batches import CommittedBatch, committed_batches
from tidegauge.outputs.delta.place import TargetPlace
from tidegauge.outputs.delta.quarantine import Quarantine
from tidegauge.storage.store import open_store
from tidegauge.transform.checks import RowChecks, any_of
from tidegauge.transform.judge import EXACT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def name_besides(column: str) -> str:
    """Rename a column of the quarantine, so that it can stand beside the target's own columns."""
    return f"__tidegauge{'' if column[0] == '_' else '_'}{column}"


class FlowQuarantine:
    """The quarantine of a flow between Delta tables. Implements `ReplayableQuarantine`."""

    def __init__(self, flow: DeltaFlow, places: DeltaTableLocator) -> None:
        self.flow = flow
        self._places = places
        self._table = Quarantine(flow, lambda: places.find(flow.output.table.quarantine))

    @property
    def exists(self) -> bool:
        """Whether the quarantine table exists. Raises OutputDisagrees if somebody has altered it."""
        return self._table.look() is not None

    def show(self, examples: int) -> QuarantineSummary:
        """Count the quarantined rows; none if there is no table. `examples`: how many rows to show."""
        if not self.exists:
            return QuarantineSummary(self.flow.name, self._table.place, 0, {})
        with self._session() as session:
            rows = self._table.rows(session)
            counted = rows.selectExpr("explode(_reasons) AS why").groupBy("why").count().collect()
            facts = rows.selectExpr(
                "count(1)", "string(min(_quarantined_at))", "string(max(_quarantined_at))"
            ).collect()[0]
            shown = rows.orderBy("_quarantined_at", "row").limit(examples).collect() if examples else []
        reasons = {str(one[0]): int(one[1]) for one in sorted(counted)}
        texts = tuple(str(one["row"]) for one in shown)
        return QuarantineSummary(
            self.flow.name, self._table.place, int(facts[0]), reasons, facts[1], facts[2], texts
        )

    def discard(self, reason: str, *, before_epoch: int | None = None) -> None:
        """Delete all quarantined rows, or only those of earlier epochs."""
        with self._session() as session:
            self._table.delete(session, reason, before_epoch=before_epoch)

    def set_back(self, marks: dict[str, Watermark]) -> OverrideRequest | None:
        """The override after which the flow evaluates each quarantined row again; None if its target only
        grows, so that `append` is the way."""
        flow = self.flow
        if flow.output.mode.facts.only_adds:
            return None
        after = {part.name: self._version(marks.get(part.name)) for part in flow.incremental}
        first = flow.incremental[0].name
        if flow.output.mode.facts.keeps_every_change:
            after = self._find_first_versions()
        else:
            # One version back is enough: a flow that was set back is evaluated whole.
            after[first] -= 1
        if any(version < 0 for version in after.values()):
            return Reset()
        return SetTo(position=json.dumps(after))

    def append(self, reason: str) -> int:
        """Move the rows that meet today's expectations from the quarantine to the target; return how many."""
        moved = 0
        with self._session() as session:
            delta_session.configure(session)
            for mark in self._table.marks(session):
                moved += self._finish(session, mark, reason)
            mark = uuid.uuid4().hex
            passed = self._find_passing_rows(session)
            if self._table.mark(session, passed, mark):
                moved += self._finish(session, mark, reason)
        return moved

    def _finish(self, session: SparkSession, mark: str, reason: str) -> int:
        """Append the rows with a mark and delete them from the quarantine; return how many."""
        marked = self._table.rows(session).where(f"_replay = '{mark}'")
        many = marked.count()
        if many:
            self._table.append(session, self._parse_rows(session, marked), mark, reason)
        self._table.delete(session, reason, mark=mark)
        return many

    def _find_passing_rows(self, session: SparkSession) -> DataFrame:
        """The rows that meet today's expectations: `row`, `_epoch` and `_seq`."""
        from pyspark.sql import functions as F  # noqa: N812

        tables = {part.name: part.table for part in self.flow.inputs}
        checks = RowChecks(
            self.flow,
            lambda name: session.read.format("delta").load(self._places.location(tables[name])),
        )
        rows = self._table.rows(session).where(f"_replay IS NULL AND ({self._make_batch_condition()})")
        marked = checks.mark(self._parse_rows(session, rows, "row", "_epoch", "_seq"))
        refused = any_of(checks.bits_of("fail", "quarantine", "drop"))
        names = ("row", "_epoch", "_seq")
        return marked.where(~refused).select(*(F.col(name_besides(name)).alias(name) for name in names))

    def _make_batch_condition(self) -> str:
        """SQL that is true for rows whose batch is still part of the target. Others were read again since."""
        table = self.flow.output.table
        now = TargetPlace(self.flow, lambda: self._places.find(table)).opened().epochs.standing()
        last = {now.epoch: now.logged or 0}
        if now.marker is not None and now.marker.epoch == now.epoch:
            last |= {one: seq for one, seq in now.marker.closed.items() if one >= now.marker.emptied}
        return " OR ".join(f"(_epoch = {epoch} AND _seq <= {seq})" for epoch, seq in last.items())

    def _parse_rows(self, session: SparkSession, rows: DataFrame, *besides: str) -> DataFrame:
        """Parse the rows into the target's columns. `besides`: which of the quarantine's columns to keep."""
        from pyspark.sql import functions as F  # noqa: N812

        schema = session.read.table(delta_session.name_of(self.flow.output.table)).schema
        as_ = {name: name_besides(name) for name in besides}
        kept = (F.col(name).alias(given) for name, given in as_.items())
        parsed = rows.select(F.from_json("row", schema, {**EXACT, "mode": "FAILFAST"}).alias("it"), *kept)
        return parsed.select("it.*", *as_.values())

    def _find_first_versions(self) -> dict[str, int]:
        """By input, after which version the earliest batch with a quarantined row began.

        -1: it began at the beginning, or the log does not tell any more.
        """
        with self._session() as session:
            found = self._table.rows(session).select("_epoch", "_seq").distinct().collect()
        wanted = {(int(one[0]), int(one[1])) for one in found}
        where = self._places.location(self.flow.output.table)
        look = Log(open_store(lake_of(where, self.flow.output.table.storage))).look()
        if look is None:
            raise OutputDisagrees(f"there is no table {self.flow.output.table}", hint="run the flow first")
        after: dict[str, int] = {}
        for batch in committed_batches(look, self.flow.pipeline, self.flow.name):
            if isinstance(batch, CommittedBatch) and (batch.epoch, batch.seq) in wanted:
                wanted.discard((batch.epoch, batch.seq))
                for part in self.flow.incremental:
                    begin = batch.windows[part.name].after
                    version = begin.version if isinstance(begin, VersionPosition) else -1
                    after[part.name] = min(version, after.get(part.name, version))
        return dict.fromkeys((part.name for part in self.flow.incremental), -1) if wanted else after

    @staticmethod
    def _version(mark: Watermark | None) -> int:
        return mark.position.version if mark and isinstance(mark.position, VersionPosition) else -1

    @contextmanager
    def _session(self) -> Iterator[SparkSession]:
        with self._places.session(self.flow) as session:
            session.conf.set("spark.sql.session.timeZone", "UTC")
            yield session
