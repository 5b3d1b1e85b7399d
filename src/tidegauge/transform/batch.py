"""The inputs of one batch of a flow, before and after, and the transform over them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tidegauge.errors import TransformFailed
from tidegauge.model.delta_flow import DeltaFlow, DeltaInput, Evaluate, Function, Sql
from tidegauge.model.lazy import lazy
from tidegauge.model.protocols.source import ChangedInput
from tidegauge.spark.few_rows import hold_few
from tidegauge.transform.apply import Transform
from tidegauge.transform.faults import name_transform
from tidegauge.transform.input_column import find_input_column
from tidegauge.transform.judge import ExpectationFilter
from tidegauge.transform.nondeterminism import ALLOW, FOR_CLOCK, follows_clock
from tidegauge.transform.proof import prove
from tidegauge.transform.spark_plan import find_clock, find_origins, has_plan, is_same_plan, show_plan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CAME = "__tidegauge_came"


class BatchInputs:
    """The inputs of a batch, and the transform over them. Frames that are used several times are computed
    once if there is a list `cached` for them."""

    def __init__(
        self,
        flow: DeltaFlow,
        inputs: Mapping[str, ChangedInput],
        session: SparkSession,
        cached: list[DataFrame] | None,
        *,
        guarded: bool = False,
        small: bool = False,
    ) -> None:
        self.flow = flow
        self.inputs = inputs
        self.transform = Transform(flow, session)
        self.notes: list[str] = []
        self._cached = cached
        self._small, self._session = small, session
        self._made: dict[tuple[str, str], DataFrame] = {}
        self.expectation_filter = ExpectationFilter(flow, self.now, self.cache, guarded=guarded)
        self.compared_whole = False
        """Whether the change comes from all rows that the transform gives, and not only from changed ones."""

    @property
    def by(self) -> tuple[str, ...]:
        """The columns that changes are followed by: the output's key or its partition columns."""
        output = self.flow.output
        return output.partition_by if output.mode.facts.replaces_partitions else output.key

    @property
    def afresh(self) -> bool:
        """Whether an input is read as if it were new, so that no changes are known."""
        return any(self.inputs[part.name].afresh for part in self.flow.incremental)

    @property
    def raw(self) -> bool:
        """Whether the transform reads the change feed of an input itself."""
        return any(part.raw for part in self.flow.inputs)

    @property
    def pinned(self) -> bool:
        """Whether the flow reads a pinned table, whose changes start no batch: rows of the target may have
        been made with an earlier version of it."""
        return any(part.snapshot for part in self.flow.inputs)

    @lazy
    def proven(self) -> bool:
        """Whether it is proven that each key comes from only one row of the only incremental input."""
        name, transform = self.only.name, self.flow.transform
        unique = {column.casefold() for column in self.inputs[name].unique}
        if not unique:
            return False
        columns: dict[str, str] = {}
        match transform:
            case None:
                columns = {column: column for column in self.by}
            case Sql(text):
                known = {part.name: self.now(part.name).columns for part in self.flow.read}
                for column in self.by:
                    if (
                        found := find_input_column(text, column, incremental=name, columns=known)
                    ) is not None:
                        columns[column] = found
            case Function() if has_plan(self.whole()):
                columns = find_origins(self.whole(), inputs=self.transform.views.inputs, incremental=name)
                columns = {column: columns.get(column.casefold(), "") for column in self.by}
            case Function():
                pass
        return unique <= {column.casefold() for column in columns.values()}

    @property
    def only(self) -> DeltaInput:
        """The only incremental input. Raises TransformFailed where there are several."""
        if (several := len(self.flow.incremental)) != 1:
            raise TransformFailed(
                f"{self.flow.name} cannot be evaluated by rows: it has {several} incremental inputs",
                hint="evaluate: keys, or evaluate: whole",
                place=self.flow.place,
            )
        return self.flow.incremental[0]

    def now(self, name: str) -> DataFrame:
        return self._once(name, "now", kept=False)

    def came(self, name: str) -> DataFrame:
        return self._hold_changes(name, "came")

    def gone(self, name: str) -> DataFrame:
        return self._hold_changes(name, "gone")

    def events(self, name: str) -> DataFrame:
        return self._once(name, "events", kept=True)

    def every(self, name: str) -> DataFrame:
        """An input's rows as they are now, and its changed rows as they were before."""
        if not self.inputs[name].has_changes or self.inputs[name].grows:
            return self.now(name)
        made = self._made.get((name, "every"))
        if made is None:
            made = self._made[name, "every"] = self.now(name).unionByName(self.gone(name))
        return made

    def frames(self, instead: Mapping[str, DataFrame] | None = None) -> dict[str, DataFrame]:
        """Every input as it is now, or the frame in `instead`; for `raw` inputs their change feed."""
        given = instead or {}
        return {
            part.name: given[part.name]
            if part.name in given
            else self.came(part.name)
            if part.raw
            else self.now(part.name)
            for part in self.flow.read
        }

    def whole(self) -> DataFrame:
        """The transform over every input as it is now."""
        made = self._made.get(("", "whole"))
        if made is None:
            made = self._made["", "whole"] = self.transform.apply(self.frames())
        return made

    def without_set_aside(self) -> DataFrame:
        """The whole result without the rows that expectations set aside: what the target has to hold."""
        return self.expectation_filter.filter(self.whole())

    def apply(self, frame: DataFrame) -> DataFrame:
        """The transform with this frame in place of the only incremental input."""
        return self.transform.apply(self.frames({self.only.name: frame}))

    def cache(self, frame: DataFrame) -> DataFrame:
        """Cache a frame, so that it is computed once however often it is used."""
        if self._cached is not None and self._small and (held := hold_few(self._session, frame)) is not None:
            return held
        if self._cached is not None:
            # Not in Spark's cache, which all sessions share: Delta refuses a MERGE if another flow caches its
            # source meanwhile.
            frame = frame.localCheckpoint(eager=False)
            self._cached.append(frame)
        return frame

    def _hold_changes(self, name: str, what: str) -> DataFrame:
        """An input's `came` or `gone` rows. Both are held as one frame, so that the feed is read once. Where
        no row can be gone, the rows that came are not held: most transforms use them once."""
        from pyspark.sql import functions as F  # noqa: N812

        moved = self.inputs[name]
        raw = any(part.raw for part in self.flow.inputs if part.name == name)
        if self._cached is None or moved.afresh or moved.grows or not moved.has_changes or moved.held or raw:
            return self._once(name, what, kept=False)
        if (name, "both") not in self._made:
            came = moved.came().withColumn(_CAME, F.lit(True))
            both = self.cache(came.unionByName(moved.gone().withColumn(_CAME, F.lit(False))))
            self._made[name, "both"] = both
            self._made[name, "came"] = both.where(_CAME).drop(_CAME)
            self._made[name, "gone"] = both.where(f"NOT {_CAME}").drop(_CAME)
        return self._made[name, what]

    def _once(self, name: str, what: str, *, kept: bool) -> DataFrame:
        made = self._made.get((name, what))
        if made is None:
            frame: DataFrame = getattr(self.inputs[name], what)()
            made = self._made[name, what] = self.cache(frame) if kept else frame
        return made


def check_choice(batch: BatchInputs, choice: Evaluate) -> Evaluate:
    """The choice, or another one where Spark's plan of a Python function speaks against it.

    Under `auto` a function that cannot be evaluated by rows is evaluated by keys, or else as a whole. Raises
    TransformFailed where the user asked for `rows` or the mode is `append`, and for a function that gives
    something else the second time.
    """
    flow = batch.flow
    if not isinstance(flow.transform, Function):
        return choice
    whole = batch.whole()
    if not has_plan(whole):
        return choice
    stable = is_same_plan(whole, batch.transform.apply(batch.frames()))
    _refuse_nondeterminism(flow, whole, stable=stable)
    if choice is Evaluate.WHOLE or batch.raw or batch.afresh or flow.output.mode.facts.replaces_all:
        return choice
    against = _reasons_against(batch, whole, stable=stable)
    why = against[choice]
    if why is None:
        return choice
    return _choose_other(batch, choice, why, by_keys=against[Evaluate.KEYS] is None)


def _refuse_nondeterminism(flow: DeltaFlow, whole: DataFrame, *, stable: bool) -> None:
    if flow.allow_nondeterministic:
        return
    name = name_transform(flow)
    if not stable:
        raise TransformFailed(
            f"{name} is not deterministic: called again with the same inputs, it gave something else",
            hint="keep clocks, random numbers and what is counted of them out of the function;"
            f" {ALLOW} takes what comes",
            place=flow.place,
        )
    if (moment := find_clock(whole)) is not None and not follows_clock(flow):
        raise TransformFailed(
            f"{name} reads the clock: {moment} is another one with every run, and rows that do not change"
            " would keep the old one",
            hint=FOR_CLOCK,
            place=flow.place,
        )


def _reasons_against(batch: BatchInputs, whole: DataFrame, *, stable: bool) -> dict[Evaluate, str | None]:
    """Why the function cannot be evaluated by rows, or by keys; None where it can."""
    flow = batch.flow
    looks_at_inputs = stable and any(
        show_plan(batch.transform.apply(batch.frames({part.name: batch.came(part.name)}))) != show_plan(whole)
        for part in flow.incremental
        if batch.inputs[part.name].has_changes
    )
    if looks_at_inputs:
        return dict.fromkeys(
            (Evaluate.ROWS, Evaluate.KEYS), "its plan depends on the rows, as after collect() or count()"
        )
    proof = prove(
        whole,
        inputs=batch.transform.views.inputs,
        incremental=[part.name for part in flow.incremental],
        by=batch.by,
    )
    return {Evaluate.ROWS: proof.against_rows, Evaluate.KEYS: proof.against_keys}


def _choose_other(batch: BatchInputs, choice: Evaluate, why: str, *, by_keys: bool) -> Evaluate:
    """Another way than the unproven choice, which stays if the user asked for it. Raises TransformFailed
    where only rows would do."""
    flow, name = batch.flow, name_transform(batch.flow)
    must = flow.output.mode.facts.only_adds
    if must or (flow.evaluate is Evaluate.ROWS):
        raise TransformFailed(
            f"{name} cannot be evaluated by rows: {why}",
            hint="use mode: merge or replace_partitions" if must else "evaluate: keys, or evaluate: whole",
            place=flow.place,
        )
    if flow.evaluate is choice:
        return choice  # The user asked for it by name, and nothing is proven either way.
    other = Evaluate.KEYS if choice is Evaluate.ROWS and by_keys else Evaluate.WHOLE
    batch.notes.append(f"{name} is evaluated by {other}: {why}")
    return other
