"""Which flows read a lake table, by ledger and project, and which of its batches no flow needs any more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tidegauge.model.delta_flow import DataFlow
from tidegauge.model.position import FilesPosition, Position
from tidegauge.model.protocols.ledger import LedgerReader
from tidegauge.model.run import FlowStatus
from tidegauge.model.spec import LakeTable, TableFlow
from tidegauge.model.watermark import Watermark
from tidegauge.outputs.lake.epochs import contents, follow
from tidegauge.outputs.lake.manifest import EARLIER, LOADED, BatchNumber
from tidegauge.outputs.lake.table import chain, load_all
from tidegauge.plan import lake_batches as files
from tidegauge.plan.draft import is_whole
from tidegauge.storage.store import open_store


@dataclass(frozen=True)
class FreeBatches:
    batches: dict[BatchNumber, str]
    """Batches that no reader needs any more, each with the reason: LOADED or EARLIER."""
    notes: tuple[str, ...]
    """Why other batches have to stay."""


def find_lake_flows(flows: Iterable[DataFlow]) -> list[tuple[TableFlow, LakeTable]]:
    """The flows that write a lake table, each with that table."""
    tables = [flow for flow in flows if isinstance(flow, TableFlow)]
    return [(flow, flow.output) for flow in tables if isinstance(flow.output, LakeTable)]


def find_readers(flows: Iterable[DataFlow], place: LakeTable) -> list[TableFlow]:
    """The flows that read a lake table. Compared by the table's path: two connections may name one lake."""
    tables = [flow for flow in flows if isinstance(flow, TableFlow)]
    return [flow for flow in tables if flow.reads is not None and str(flow.reads) == str(place)]


class LakeConsumers:
    """The readers of the lake table that `flow` writes: of the project, and of any pipeline in the ledger."""

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
            BatchNumber(*files.find_tag_numbers(self._row, at))
            for at in range(1, files.count_batches(self._row) + 1)
        ]

    def find_free(self, *, loaded: bool, earlier: bool) -> FreeBatches:
        """Find batches that may be removed; never one that the plan of a flow reads.

        `loaded`: batches that every reader has loaded. `earlier`: batches of epochs that no reader follows.
        """
        if unended := self._find_unended():
            return FreeBatches({}, (unended,))
        free: dict[BatchNumber, str] = {}
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

    def find_passed(self) -> tuple[list[BatchNumber], list[str]]:
        """Find the batches that every reader has loaded, and notes on who still needs the rest.

        All batches if nobody reads the table. Of a table that is read whole in each run, only batches of the
        last copy: the earlier ones are left to `find_free`.
        """
        passed, notes = len(self._current), list[str]()
        if self._marks or self._readers:
            passed, notes = self._count_passed(whole=False)
        begins = self._find_last_reading() if any(map(is_whole, (self._flow, *self._readers))) else 0
        return self._current[begins:passed], notes

    def _find_unended(self) -> str | None:
        """A note on an override of the flow or a reader that was begun and not ended; None: there is none."""
        names = {(one.pipeline, one.name) for one in (self._flow, *self._readers)}
        names |= {(one.pipeline, one.flow) for one in self._marks}
        for status in self._statuses:
            if status.override is not None and (status.pipeline, status.flow) in names:
                kind = status.override.kind
                return f"{status.flow}: a change by hand ({kind}) has not ended; run it first"
        return None

    def _find_earlier(self) -> set[BatchNumber]:
        """Find the batches that are not part of the table, neither by the lake nor by the ledger."""
        seen = contents(self._store, self._place.folder)
        return set(seen.batches) - {*self._current, *follow(self._store, self._place.folder, seen)}

    def _count_passed(self, *, whole: bool = True) -> tuple[int, list[str]]:
        """Count the batches from the beginning that every reader has loaded, and note who needs the rest.

        `whole`: of a table that is read whole in each run, do not count the batches of the last copy.
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
        """For a table that is read whole in each run: count the batches before the last copy. A load that
        begins again needs that copy."""
        manifests = load_all(self._store, self._place.folder, self._current)
        begins = {None, *(one.windows[0].after for one in manifests[:1])}
        return max((at for at, one in enumerate(manifests) if one.windows[0].after in begins), default=0)


def _reads(mark: Watermark, place: LakeTable) -> bool:
    """Whether the watermark counts batches of this lake table."""
    return mark.cursor == "files" and (mark.source_id or "").rpartition("#")[0] == str(place)


def _find_frozen(statuses: Iterable[FlowStatus], place: LakeTable) -> Iterator[BatchNumber]:
    """Yield the batches of the lake table that active plans read."""
    for status in statuses:
        for part in status.plan.draft.inputs if status.plan else ():
            if (
                part.cursor != "files"
                or part.window is None
                or part.source_id.rpartition("#")[0] != str(place)
            ):
                continue
            row = files.parse_chain(part.source_id)
            for at in range(_number(part.window.after) + 1, _number(part.window.upto) + 1):
                yield BatchNumber(*files.find_tag_numbers(row, at))


def _number(position: Position | None) -> int:
    return position.sequence if isinstance(position, FilesPosition) else 0
