"""The table beside a target that holds the rows set aside by its flow's expectations.

Its commit comes before the target's, under the same tag. If the process dies between the two, the batch is
tried again and its rows there are replaced, so that no row is lost or there twice. A row is kept as JSON in
one column, so that this table stays as it is when the target's columns change.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tidegauge.delta_log.location import lake_of
from tidegauge.delta_log.snapshot import Log, Snapshot
from tidegauge.errors import OutputDisagrees
from tidegauge.model.batch_data import Verdict
from tidegauge.model.delta_flow import QUARANTINE_COLUMNS, DeltaFlow, TableRef
from tidegauge.model.plan import Batch, Tag
from tidegauge.model.position import to_text
from tidegauge.model.types import quote
from tidegauge.outputs.delta.commit import APPLICATION, METADATA, VERSION, find, tag_commits
from tidegauge.outputs.delta.session import name_of
from tidegauge.outputs.delta.target import TargetColumn, target_of
from tidegauge.outputs.delta.types import literal
from tidegauge.storage.store import open_store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameWriter, SparkSession

KIND = "quarantine"
_NO_TEXTS = {
    "_reasons": "array<string>",
    "_epoch": "bigint",
    "_seq": "bigint",
    "_quarantined_at": "timestamp",
}
COLUMNS = {name: _NO_TEXTS.get(name, "string") for name in (*QUARANTINE_COLUMNS, "_replay")}
"""`_replay`: the mark of a row that is just being appended to its target; afterwards the row is deleted."""
_IN_LOG: dict[str, object] = {"bigint": "long", "array<string>": {"array": "string"}}


def _find_altered(columns: Sequence[TargetColumn]) -> str | None:
    """What keeps the table from taking rows, for an error message; None where nothing does. An additional
    column is accepted unless it is NOT NULL."""
    held = {one.name: one for one in columns}
    for name, wanted in COLUMNS.items():
        if name not in held:
            return f"has no column {name}"
        if held[name].type != _IN_LOG.get(wanted, wanted):
            return f"has a column {name} that is no {wanted}"
    extra = next((one.name for one in columns if one.name not in COLUMNS and one.required), None)
    return None if extra is None else f"wants a value for {extra}, which is NOT NULL"


class Quarantine:
    def __init__(self, flow: DeltaFlow, locate: Callable[[], str | None]) -> None:
        self._flow = flow
        self._ref = flow.output.table.quarantine
        self._locate = locate

    @property
    def place(self) -> str:
        return str(self._ref)

    def look(self) -> Snapshot | None:
        """The table as it is now; None while there is none. Raises OutputDisagrees where it cannot take the
        rows."""
        where = self._locate()
        look = None if where is None else Log(open_store(lake_of(where, self._ref.storage))).look()
        if look is None:
            return None
        wrong = _find_altered(target_of(look).columns)
        if wrong is not None:
            raise OutputDisagrees(
                f"{self.place} {wrong}, so no row of {self._flow.name} can be set aside",
                hint="somebody altered it, or it is another table: make it as it was, or move it away, and"
                " one is made anew; nothing was written",
            )
        return look

    def has_to_replace(self, tag: Tag, *, whole: bool) -> bool:
        """Whether the batch removes rows here, even if it adds none: the rows of an earlier try of it, or all
        rows of the flow where it is evaluated as a `whole`."""
        look = self.look()
        return look is not None and (find(look, tag) is not None or (whole and not look.is_empty()))

    def put(self, session: SparkSession, verdict: Verdict, tag: Tag, batch: Batch, run_id: str) -> None:
        """Set the batch's rows aside, and remove those that an earlier try of it has put here."""
        look = self.look()
        if look is None and verdict.aside is None:
            return
        known = look is not None and find(look, tag) is not None
        replaced = known or (verdict.whole and look is not None and not look.is_empty())
        if verdict.aside is None and not replaced:
            return
        if look is None:
            self._create(session)
        rows = self._rows(session, verdict.aside, tag, batch, run_id)
        writer = rows.write.format("delta")
        if replaced:
            writer = writer.mode("overwrite").option(
                "replaceWhere", self._filter(None if verdict.whole else tag)
            )
        else:
            writer = writer.mode("append")
        said = self._render(tag, run_id, verdict.checks.quarantined)
        # Delta would skip a commit whose tag is there already.
        with _note_commits(session, said) if known else tag_commits(session, tag, said):
            _save(writer, self._ref)

    def forget_others(self, session: SparkSession, again: DataFrame, tag: Tag) -> None:
        """Delete the rows of earlier batches that this batch has set aside again."""
        view = f"tidegauge_{uuid.uuid4().hex}"
        again.select("row").distinct().createOrReplaceTempView(view)
        try:
            with _note_commits(
                session, self._describe_action("again", f"batch {tag.seq} of epoch {tag.epoch}")
            ):
                session.sql(
                    f"MERGE INTO {name_of(self._ref)} AS t USING {view} AS s ON t.row = s.row"
                    f" AND {self._filter(None, 't.')} AND NOT (t._epoch = {tag.epoch} AND t._seq = {tag.seq})"
                    " WHEN MATCHED THEN DELETE"
                )
        finally:
            session.catalog.dropTempView(view)

    def rows(self, session: SparkSession) -> DataFrame:
        """All rows of the flow."""
        return session.read.table(name_of(self._ref)).where(self._filter(None))

    def delete(
        self,
        session: SparkSession,
        reason: str,
        *,
        before_epoch: int | None = None,
        mark: str | None = None,
    ) -> None:
        """Delete all rows of the flow, or only those of epochs before `before_epoch`, or with this mark."""
        which = [self._filter(None)]
        which += [f"_epoch < {before_epoch}"] if before_epoch is not None else []
        which += [f"_replay = {literal(mark, 'string')}"] if mark is not None else []
        with _note_commits(session, self._describe_action("discard" if mark is None else "replayed", reason)):
            session.sql(f"DELETE FROM {name_of(self._ref)} WHERE {' AND '.join(which)}")

    def marks(self, session: SparkSession) -> list[str]:
        """The marks of rows that somebody began to append to the target."""
        found = self.rows(session).where("_replay IS NOT NULL").select("_replay").distinct().collect()
        return [str(one[0]) for one in found]

    def mark(self, session: SparkSession, passed: DataFrame, mark: str) -> bool:
        """Give a mark to the rows with these `row`, `_epoch` and `_seq`. False where `passed` is empty."""
        held = passed.distinct().localCheckpoint()
        try:
            if held.isEmpty():
                return False
            view = f"tidegauge_{mark}"
            held.createOrReplaceTempView(view)
            with _note_commits(session, self._describe_action("mark", mark)):
                session.sql(
                    f"MERGE INTO {name_of(self._ref)} AS t USING {view} AS s ON t.row = s.row"
                    f" AND t._epoch = s._epoch AND t._seq = s._seq AND t._replay IS NULL"
                    f" AND t._pipeline = {literal(self._flow.pipeline, 'string')}"
                    f" AND t._flow = {literal(self._flow.name, 'string')}"
                    f" WHEN MATCHED THEN UPDATE SET t._replay = {literal(mark, 'string')}"
                )
            session.catalog.dropTempView(view)
        finally:
            held.unpersist()
        return True

    def append(self, session: SparkSession, rows: DataFrame, mark: str, reason: str) -> None:
        """Append rows to the target, once for each mark: Delta skips a mark that it has already."""
        said = {
            APPLICATION: f"tidegauge-replay/{mark}",
            VERSION: "1",
            METADATA: self._describe_action("replay", reason),
        }
        try:
            for name, value in said.items():
                session.conf.set(name, value)
            _save(rows.write.format("delta").mode("append"), self._flow.output.table)
        finally:
            for name in said:
                session.conf.unset(name)

    def _describe_action(self, what: str, reason: str) -> str:
        """The note of a commit that is no batch."""
        said = {"tidegauge": 1, "kind": what, "pipeline": self._flow.pipeline, "flow": self._flow.name}
        return json.dumps({**said, "reason": reason}, ensure_ascii=False)

    def _create(self, session: SparkSession) -> None:
        columns = ", ".join(f"{quote(name)} {type_}" for name, type_ in COLUMNS.items())
        session.sql(f"CREATE TABLE IF NOT EXISTS {name_of(self._ref)} ({columns}) USING DELTA")

    def _rows(
        self, session: SparkSession, aside: DataFrame | None, tag: Tag, batch: Batch, run_id: str
    ) -> DataFrame:
        """The rows as this table has them; none where nothing is set aside."""
        from pyspark.sql import functions as F  # noqa: N812

        if aside is None:
            nulls = ", ".join(f"CAST(NULL AS {type_}) AS {quote(name)}" for name, type_ in COLUMNS.items())
            return session.sql(f"SELECT {nulls} WHERE false")
        names = [part.name for part in self._flow.inputs] or [self._flow.name]
        window = ", ".join(
            f"{name} ({to_text(one.after)}, {to_text(one.upto)}]"
            for name, one in zip(names, batch.windows, strict=False)
        )
        return aside.select(
            "row",
            "_reasons",
            F.lit(tag.pipeline).alias("_pipeline"),
            F.lit(tag.flow).alias("_flow"),
            F.lit(tag.epoch).cast("bigint").alias("_epoch"),
            F.lit(tag.seq).cast("bigint").alias("_seq"),
            F.lit(run_id).alias("_run_id"),
            F.lit(window).alias("_window"),
            F.current_timestamp().alias("_quarantined_at"),
            F.lit(None).cast("string").alias("_replay"),
        )

    def _filter(self, tag: Tag | None, alias: str = "") -> str:
        """A SQL condition for the rows of the flow, or of one batch of it."""
        said = [
            f"{alias}_pipeline = {literal(self._flow.pipeline, 'string')}",
            f"{alias}_flow = {literal(self._flow.name, 'string')}",
        ]
        if tag is not None:
            said += [f"_epoch = {tag.epoch}", f"_seq = {tag.seq}"]
        return " AND ".join(said)

    @staticmethod
    def _render(tag: Tag, run_id: str, rows: int) -> str:
        """The note of a batch's commit."""
        return json.dumps(
            {
                "tidegauge": 1,
                "kind": KIND,
                "pipeline": tag.pipeline,
                "flow": tag.flow,
                "epoch": tag.epoch,
                "seq": tag.seq,
                "run_id": run_id,
                "rows": rows,
            },
            ensure_ascii=False,
        )


@contextmanager
def _note_commits(session: SparkSession, said: str) -> Iterator[None]:
    """Every commit of this session inside the block has this note, and no tag."""
    session.conf.set(METADATA, said)
    try:
        yield
    finally:
        session.conf.unset(METADATA)


def _save(writer: DataFrameWriter, table: TableRef) -> None:
    if table.path is None:
        writer.saveAsTable(name_of(table))
    else:
        writer.save(table.path)
