"""What a change by hand would do to each flow: rows skipped or read again, and who is in its way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

from tidegauge.engine import asked
from tidegauge.engine.downstream import downstream
from tidegauge.engine.known import KnownSources
from tidegauge.engine.loading import rows_between
from tidegauge.engine.override import KINDS, CopyOf, Import, Move, Refresh, Reset, SetTo, Undo, Wish
from tidegauge.engine.select import Sources, choose
from tidegauge.errors import ConfigError, OutputError, SourceError
from tidegauge.ledger.open import open_ledger
from tidegauge.model.position import FilesPosition, Position, RowPosition, Value
from tidegauge.model.protocols import FlowStatus, LedgerReader, Watermark
from tidegauge.model.spec import Flow, Landing, Mode, Project, Stage
from tidegauge.model.state import State
from tidegauge.model.table import Shape
from tidegauge.plan.draft import identity, start


def preview(
    project: Project, selection: Sequence[str], wish: Wish, *, stage: Stage | None = None
) -> list[Move]:
    """What would happen, flow by flow; changes nothing.

    Of a table with two stages a reset, a refresh and an undo mean both, the others only the first, unless
    `stage` says which.
    A source that cannot be reached is no reason to refuse, except where only it can say what was meant:
    what it would have counted is unknown then.
    """
    with open_ledger(project.ledger, create=False) as ledger:
        statuses = {status.flow: status for status in ledger.status(project.pipeline)}
        marks = {mark.flow: mark for mark in ledger.watermarks(project.pipeline)}
        with KnownSources(project, tuple(statuses)) as sources:
            chosen = _chosen(project, selection, sources, stage)
            every = _chosen(project, (), sources)
            if isinstance(wish, SetTo | CopyOf) and stage is None:
                chosen = _nearest(chosen)
            if isinstance(wish, Undo):
                chosen = _undoable(chosen, statuses)
            match wish:
                case Import():
                    chosen = _imported(wish, chosen)
                case CopyOf() if len(chosen) > 1:
                    raise ConfigError(
                        f"{', '.join(selection)} means {len(chosen)} flows, and a copy goes to one",
                        hint="name one flow in full",
                    )
            moves = [_look(ledger, sources, flow, statuses, marks).move(wish, every) for flow in chosen]
    # A document is about all its flows; those that stand there already need no new life.
    return [move for move in moves if not isinstance(wish, Import) or move.before != move.after]


def _look(
    ledger: LedgerReader,
    sources: Sources,
    flow: Flow,
    statuses: Mapping[str, FlowStatus],
    marks: Mapping[str, Watermark],
) -> Look:
    status, mark = statuses.get(flow.name), marks.get(flow.name)
    if flow.reads is not None:
        return LoadLook(flow, status, mark, marks.get(flow.upstream or ""))
    return TableLook(ledger, sources, flow, status, mark)


def _nearest(flows: Sequence[Flow]) -> tuple[Flow, ...]:
    """Of each table the flow nearest to its source; a flow that is asked for by itself is meant."""
    names = {flow.name for flow in flows}
    return tuple(flow for flow in flows if flow.upstream not in names)


def _undoable(flows: Sequence[Flow], statuses: Mapping[str, FlowStatus]) -> tuple[Flow, ...]:
    """Those with something to undo; all of them where there is none, so that each says so itself."""

    def has(flow: Flow) -> bool:
        status = statuses.get(flow.name)
        return status is not None and (status.undo is not None or status.override is not None)

    return tuple(flow for flow in flows if has(flow)) or tuple(flows)


def _chosen(
    project: Project, selection: Sequence[str], sources: Sources, stage: Stage | None = None
) -> tuple[Flow, ...]:
    choice = choose(project, selection, sources, stage=stage)
    for _, error in choice.faults:
        if not choice.flows:
            raise error
    return choice.flows


def _imported(wish: Import, flows: Sequence[Flow]) -> tuple[Flow, ...]:
    there = {flow.name for flow in flows}
    for name in wish.marks:
        if name not in there:
            raise ConfigError(
                f"{wish.shown} has a watermark of '{name}', which is no flow of this project",
                hint="export with --select just the flows that both have, or take it out of the file",
            )
    return tuple(flow for flow in flows if flow.name in wish.marks)


class Look:
    """One flow as the ledger shows it, and what a change by hand would do to it."""

    def __init__(self, flow: Flow, status: FlowStatus | None, mark: Watermark | None) -> None:
        self._flow = flow
        self._status = status
        self._unended = status.override if status else None
        self._mark = mark

    def move(self, wish: Wish, every: Sequence[Flow]) -> Move:
        flow, status = self._flow, self._status
        readers = downstream(flow, every)
        if isinstance(wish, Reset) and isinstance(flow.output, Landing) and flow.options.mode is Mode.APPEND:
            raise ConfigError(
                f"{flow.name} appends: after a reset its rows would come a second time",
                hint=f"`tidegauge sync -t {flow.table} --full-refresh` empties the target first",
            )
        before = self.before()
        after, dangers = self.after(wish, before)
        plan = status.plan if status else None
        made = Move(
            flow=flow,
            kind=KINDS[type(wish)],
            before=before,
            after=after,
            supersedes=f"plan {plan.plan_id}, {plan.done} of {len(plan.draft.batches)} batches done"
            if plan
            else None,
            holder=_holder(status),
            unended=self._unended,
            downstream=tuple(other.name for other in readers),
            dangers=tuple(dangers),
            notes=tuple(self.notes(wish)),
        )
        counted = self.counted(made)
        if not isinstance(wish, Reset | Refresh | Undo):
            counted = replace(counted, dangers=(*dangers, *self.dangers(counted)))
            if counted.again != 0:
                doubled = [
                    f"{reader.name} appends what is read again to {reader.output} a second time"
                    for reader in readers
                    if reader.options.mode is Mode.APPEND
                ]
                counted = replace(counted, dangers=(*counted.dangers, *doubled))
        return counted

    def before(self) -> Position | None:
        """Where the flow stands, or will once an override that was begun has ended."""
        found = self._mark.position if self._mark else None
        if self._unended is not None:
            found = self._unended.positions.get(self._flow.input, found)
        return found

    def after(self, wish: Wish, before: Position | None) -> tuple[Position | None, list[str]]:
        match wish:
            case Reset() | Refresh():
                return None, []
            case Undo():
                undo = self._status.undo if self._status else None
                if undo is None and self._unended is None:
                    raise ConfigError(
                        f"{self._flow.name}: there is no override to undo",
                        hint="only the last one can be undone; `tidegauge history` shows what was done",
                    )
                if undo is None or self._unended is not None:
                    # From before the one begun.
                    return self._mark.position if self._mark else None, []
                return undo.positions.get(self._flow.input), []
            case _:
                return self.named(wish, before)

    def named(self, wish: Wish, before: Position | None) -> tuple[Position | None, list[str]]:
        """Where a wish that names a position goes."""
        raise NotImplementedError

    def counted(self, move: Move) -> Move:
        """With the rows between the two positions, as far as they can be known."""
        raise NotImplementedError

    def dangers(self, move: Move) -> list[str]:
        """What a position that a person names may do that he did not mean."""
        raise NotImplementedError

    def notes(self, wish: Wish) -> list[str]:
        notes = []
        if self._unended is not None:
            notes.append(
                f"an override ({self._unended.kind}) that {self._unended.actor} began is ended first"
            )
        if isinstance(wish, Refresh) and isinstance(self._flow.output, Landing):
            notes.append(f"every row of {self._flow.output} is deleted")
        return notes


class LoadLook(Look):
    """A flow that reads a lake: its positions are counts of committed batches."""

    def __init__(
        self, flow: Flow, status: FlowStatus | None, mark: Watermark | None, upstream: Watermark | None
    ) -> None:
        super().__init__(flow, status, mark)
        self._upstream = upstream

    def named(self, wish: Wish, before: Position | None) -> tuple[Position | None, list[str]]:  # noqa: ARG002
        match wish:
            case SetTo(None, str(text)):
                if text.strip() in ("null", "0"):
                    return None, []
                if text.strip().isascii() and text.strip().isdigit():
                    return FilesPosition(int(text)), []
                raise ConfigError(
                    f"{self._flow.name}: '{text}' is not a number of batches",
                    hint="how many batches of the lake count as loaded: --position 7",
                )
            case SetTo():
                raise ConfigError(
                    f"{self._flow.name} counts batches of the lake, and no timestamps",
                    hint="set the stage `extract` by --timestamp, and this one by --position",
                )
            case Import(marks, shown):
                there = marks[self._flow.name].position
                if there is None or isinstance(there, FilesPosition):
                    return there, []
                raise ConfigError(f"{self._flow.name}: {shown} holds no count of batches for it")
            case _:
                raise ConfigError(
                    f"{self._flow.name}: a count of batches means something only in its own lake",
                    hint="set it with `watermark set --position`",
                )

    def counted(self, move: Move) -> Move:
        low, high = sorted((_batches(move.before), _batches(move.after)))
        try:
            rows = rows_between(self._flow, self._upstream, low, high)
        except OutputError as error:
            return replace(move, skipped=None, again=None, unknown=f"the lake could not be asked: {error}")
        back = _batches(move.after) < _batches(move.before)
        return replace(move, skipped=0 if back else rows, again=rows if back else 0)

    def dangers(self, move: Move) -> list[str]:
        there = self._upstream.seq if self._upstream else 0
        if move.again and self._flow.options.mode is Mode.APPEND:
            return [f"{_rows(move.again)} are appended a second time"]
        if move.skipped:
            return [f"{_rows(move.skipped)} never reach {self._flow.output}"]
        if move.skipped is not None and _batches(move.after) > _batches(move.before) and not there:
            return ["the lake does not have so many batches yet: those that come are skipped"]
        return []

    def notes(self, wish: Wish) -> list[str]:
        notes = super().notes(wish)
        if isinstance(wish, Reset):
            notes.append("the next run loads all that is in the lake again, over what is in the target")
        return notes


class TableLook(Look):
    """A flow that reads a database table, as ledger and source show it."""

    def __init__(
        self,
        ledger: LedgerReader,
        sources: Sources,
        flow: Flow,
        status: FlowStatus | None,
        mark: Watermark | None,
    ) -> None:
        super().__init__(flow, status, mark)
        self._ledger = ledger
        self._sources = sources
        self._shape: Shape | None = None
        self._latest: Value | None = None
        self._fault: SourceError | None = None
        try:
            source = sources.of(flow.source)
            self._shape = source.shape(flow.table, flow.options)
            self._latest = source.latest(self._shape)
        except SourceError as error:
            self._fault = error

    def named(self, wish: Wish, before: Position | None) -> tuple[Position | None, list[str]]:
        match wish:
            case SetTo(timestamp, position):
                shape = self._known_shape()
                like = self._latest or (before.cursor if isinstance(before, RowPosition) else None)
                if timestamp is not None:
                    return asked.from_timestamp(shape, timestamp, like), []
                assert position is not None
                return asked.from_text(shape, position, like), []
            case CopyOf(name, pipeline):
                return self._copied(name, pipeline or self._flow.pipeline), []
            case Import(marks, shown):
                there = marks[self._flow.name]
                after = asked.check_fits(self._known_shape(), there.position, shown)
                known = identity(self._known_shape())
                other = there.source_id is not None and there.source_id != known
                return after, ["it was exported from another table, or one with another order"] * other
            case _:
                raise AssertionError(wish)

    def _copied(self, name: str, pipeline: str) -> RowPosition | None:
        marks = self._ledger.watermarks(pipeline)
        names = (name, f"{name}/{Stage.EXTRACT}")
        found = next((mark for mark in marks if mark.flow in names), None)
        ends = tuple(f".{one}" for one in names)
        found = found or next((mark for mark in marks if mark.flow.endswith(ends)), None)
        if found is None:
            there = ", ".join(mark.flow for mark in marks[:10])
            raise ConfigError(
                f"there is no watermark of '{name}' in the pipeline '{pipeline}'",
                hint=f"there are: {there}" if there else "it has none yet; look at --from-pipeline",
            )
        shown = f"the watermark of {found.flow} in the pipeline {pipeline}"
        return asked.check_fits(self._known_shape(), found.position, shown)

    def _known_shape(self) -> Shape:
        if self._shape is None:
            assert self._fault is not None
            raise self._fault
        return self._shape

    def counted(self, move: Move) -> Move:
        shape = self._shape
        moments = shape is not None and shape.cursor_kind == "timestamp"
        before, after = move.before, move.after
        assert before is None or isinstance(before, RowPosition)
        assert after is None or isinstance(after, RowPosition)
        way = asked.compare(before, after, moments=moments)
        if way == 0:
            return move
        if shape is None:
            unknown = str(self._fault)
            return replace(
                move,
                skipped=0 if way == 1 else None,
                again=0 if way == -1 else None,
                unknown=f"the source could not be asked: {unknown}",
            )
        try:
            source = self._sources.of(self._flow.source)
            low = start(_at_first(self._flow), shape, before)
            base = start(_at_first(self._flow), shape, after)
            skipped = source.count(shape, low, after) if after is not None and way != 1 else 0
            again = source.count(shape, base, before) if before is not None and way != -1 else 0
        except (SourceError, ConfigError) as error:
            return replace(move, skipped=None, again=None, unknown=f"the source could not be asked: {error}")
        return replace(move, skipped=skipped, again=again)

    def dangers(self, move: Move) -> list[str]:
        shape, dangers = self._shape, []
        moments = shape is not None and shape.cursor_kind == "timestamp"
        before, after = move.before, move.after
        assert before is None or isinstance(before, RowPosition)
        assert after is None or isinstance(after, RowPosition)
        way = asked.compare(after, before, moments=moments)
        if way == -1 or (way is None and move.again != 0):
            dangers.append(
                f"it lies behind the watermark: {_rows(move.again)} will be read again, and the lake will"
                " hold them as further row versions"
            )
        if after is None:
            return dangers
        latest = RowPosition(self._latest) if self._latest else None
        if latest is None:
            if way != -1:
                dangers.append(
                    "whether it lies in the future could not be asked: rows that come below it are skipped"
                )
        elif asked.compare(RowPosition(after.cursor), latest, moments=moments) == 1:
            what = "the source's clock" if moments else "the highest value in the table"
            dangers.append(
                f"it lies in the future, past {what} ({latest.cursor.text}): every row that comes until then"
                f" is skipped, besides {_rows(move.skipped)} that are there now"
            )
        return dangers

    def notes(self, wish: Wish) -> list[str]:
        notes = super().notes(wish)
        if isinstance(wish, Reset):
            where = "at the beginning"
            if self._flow.options.initial is not None:
                where = f"at its initial '{self._flow.options.initial}'"
            rest = "readers no longer follow what is in the lake now"
            if isinstance(self._flow.output, Landing):
                rest = f"what is in {self._flow.output} stays, and comes again over it"
            notes.append(f"the next run begins {where}; {rest}")
        if isinstance(wish, Undo) and self._status and self._status.undo and not self._unended:
            undo = self._status.undo
            notes.append(
                f"readers follow again what was there before the {undo.kind} of {undo.at:%Y-%m-%d %H:%M:%S}"
                " UTC, and no longer what was committed since"
            )
        return notes


def _at_first(flow: Flow) -> Flow:
    """The flow as its first run sees it: a lookback re-reads whatever the watermark is."""
    return replace(flow, options=replace(flow.options, lookback=timedelta(0)))


def _holder(status: FlowStatus | None) -> str | None:
    if status is None or status.state is not State.RUNNING or status.owner is None:
        return None
    until = f" until {status.lease_until:%Y-%m-%d %H:%M:%S} UTC" if status.lease_until else ""
    return f"{status.owner.actor} (process {status.owner.pid}){until}"


def _batches(position: Position | None) -> int:
    return position.sequence if isinstance(position, FilesPosition) else 0


def _rows(count: int | None) -> str:
    if count is None:
        return "an unknown number of rows"
    return f"{count:,} row{'' if count == 1 else 's'}"
