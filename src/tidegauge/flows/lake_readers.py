"""Who reads a lake table, as ledger and project say, and which of its batches nobody has to read any more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tidegauge.model.delta_flow import AnyFlow
from tidegauge.model.position import FilesPosition, Position
from tidegauge.model.protocols.ledger import LedgerReader
from tidegauge.model.run import FlowStatus
from tidegauge.model.spec import LakeTable, TableFlow
from tidegauge.model.watermark import Watermark
from tidegauge.outputs.lake.epochs import contents, follow
from tidegauge.outputs.lake.manifest import EARLIER, LOADED, Numbered
from tidegauge.outputs.lake.table import chain, load_all
from tidegauge.plan import files
from tidegauge.plan.draft import is_whole
from tidegauge.storage.store import open_store


@dataclass(frozen=True)
class FreeBatches:
    batches: dict[Numbered, str]
    """That nobody has to read any more, each with why: LOADED or EARLIER."""
    notes: tuple[str, ...]
    """What keeps others."""


def find_lake_flows(flows: Iterable[AnyFlow]) -> list[tuple[TableFlow, LakeTable]]:
    """Those that fill a table of a lake, with that table."""
    tables = [flow for flow in flows if isinstance(flow, TableFlow)]
    return [(flow, flow.output) for flow in tables if isinstance(flow.output, LakeTable)]


def find_readers(flows: Iterable[AnyFlow], place: LakeTable) -> list[TableFlow]:
    """Those that read it, by the place itself, which two connections may name."""
    tables = [flow for flow in flows if isinstance(flow, TableFlow)]
    return [flow for flow in tables if flow.reads is not None and str(flow.reads) == str(place)]


class LakeReaders:
    """Who reads the table that a flow fills: flows of the project, and whoever the same ledger knows."""

    def __init__(
        self, ledger: LedgerReader, flow: TableFlow, place: LakeTable, readers: Sequence[TableFlow]
    ) -> None:
        pipelines = ledger.pipelines()
        self._statuses = [one for pipeline in pipelines for one in ledger.status(pipeline)]
        marks = [one for pipeline in pipelines for one in ledger.watermarks(pipeline)]
        mine = next((one for one in marks if (one.pipeline, one.flow) == (flow.pipeline, flow.name)), None)
        self._flow, self._place, self._readers = flow, place, readers
        self._marks = [one for one in marks if _reads(one, place)]
        self._store = open_store(place.lake)
        self._row = chain(self._store, place.folder, mine.epoch, mine.seq) if mine else ()
        self._current = [
            Numbered(*files.number(self._row, at)) for at in range(1, files.length(self._row) + 1)
        ]

    def find_free(self, *, loaded: bool, earlier: bool) -> FreeBatches:
        """`loaded`: what every reader has passed. `earlier`: epochs that no reader follows. Never what a plan
        that was begun refers to."""
        if unended := self._find_unended():
            return FreeBatches({}, (unended,))
        free: dict[Numbered, str] = {}
        notes: list[str] = []
        if earlier:
            free |= dict.fromkeys(self._find_earlier(), EARLIER)
        if loaded:
            passed, notes = self._count_passed()
            free |= dict.fromkeys(self._current[:passed], LOADED)
        frozen = set(_find_frozen(self._statuses, self._place))
        if held := frozen & set(free):
            notes.append(f"{len(held)} batches stay: a plan that was begun reads them")
        return FreeBatches({one: why for one, why in free.items() if one not in frozen}, tuple(notes))

    def find_passed(self) -> tuple[list[Numbered], list[str]]:
        """What every reader has passed, and who keeps the rest; all, where none reads. Of a table that is
        read whole each time, only what was read last: the rest is for `find_free`."""
        passed, notes = len(self._current), list[str]()
        if self._marks or self._readers:
            passed, notes = self._count_passed(whole=False)
        begins = self._find_last_reading() if any(map(is_whole, (self._flow, *self._readers))) else 0
        return self._current[begins:passed], notes

    def _find_unended(self) -> str | None:
        names = {(one.pipeline, one.name) for one in (self._flow, *self._readers)}
        names |= {(one.pipeline, one.flow) for one in self._marks}
        for status in self._statuses:
            if status.override is not None and (status.pipeline, status.flow) in names:
                kind = status.override.kind
                return f"{status.flow}: a change by hand ({kind}) has not ended; run it first"
        return None

    def _find_earlier(self) -> set[Numbered]:
        """What is no part of the table, neither as the lake shows it nor as the ledger counts it."""
        seen = contents(self._store, self._place.folder)
        return set(seen.batches) - {*self._current, *follow(self._store, self._place.folder, seen)}

    def _count_passed(self, *, whole: bool = True) -> tuple[int, list[str]]:
        """How many batches from the beginning every reader has passed, and who keeps the rest.

        `whole`: not what was read last of a table that is read whole each time.
        """
        counted = {
            (one.pipeline, one.flow): files.count_passed(_number(one.position), one.source_id, self._row)
            for one in self._marks
        }
        counted = {(one.pipeline, one.name): 0 for one in self._readers} | counted
        if not counted:
            return 0, ["no load of this ledger reads it, so none has passed anything"]
        least = min(counted.values())
        notes = []
        if least < len(self._current):
            behind = ", ".join(sorted(name for (_, name), count in counted.items() if count == least))
            notes.append(f"batches after number {least} stay: {behind} has yet to read them")
        if whole and any(map(is_whole, self._readers)):
            least = min(least, self._find_last_reading())
        return least, notes

    def _find_last_reading(self) -> int:
        """Of a table that is read whole each time: how many batches come before what was read last, which a
        load that begins anew takes."""
        manifests = load_all(self._store, self._place.folder, self._current)
        begins = {None, *(one.windows[0].after for one in manifests[:1])}
        return max((at for at, one in enumerate(manifests) if one.windows[0].after in begins), default=0)


def _reads(mark: Watermark, place: LakeTable) -> bool:
    return mark.cursor == "files" and (mark.source_id or "").rpartition("#")[0] == str(place)


def _find_frozen(statuses: Iterable[FlowStatus], place: LakeTable) -> Iterator[Numbered]:
    for status in statuses:
        for part in status.plan.draft.inputs if status.plan else ():
            if (
                part.cursor != "files"
                or part.window is None
                or part.source_id.rpartition("#")[0] != str(place)
            ):
                continue
            row = files.chain_of(part.source_id)
            for at in range(_number(part.window.after) + 1, _number(part.window.upto) + 1):
                yield Numbered(*files.number(row, at))


def _number(position: Position | None) -> int:
    return position.sequence if isinstance(position, FilesPosition) else 0
