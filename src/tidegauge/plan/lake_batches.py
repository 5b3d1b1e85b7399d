"""Plan a load: which committed batches of a lake table have not reached the warehouse yet. Pure.

The lake's batches form one sequence, numbered from 1: the *chain*. An override of the extract flow may
replace the end of the chain with other batches, and a reset replaces the whole chain. So a load remembers how
many batches it has loaded and the chain that it counted them in; it begins again where the old and the new
chain differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from tidegauge.errors import OutputDisagrees
from tidegauge.model.plan import Batch, Draft, InputPlan
from tidegauge.model.position import FilesPosition, Window
from tidegauge.model.spec import TableFlow

Chain = tuple[tuple[int, int], ...]
"""For each epoch in order: its number, and how many of its batches count."""


@dataclass(frozen=True)
class LakeBatch:
    """One committed batch of the lake, as a load sees it."""

    number: int
    """The batch's number in the chain, from 1."""
    rows: int
    fingerprint: str
    """Fingerprint of its columns and types: one load batch never mixes two of them."""
    stamp: str | None = None
    """The time of its newest row; None where it was extracted by a cursor that is no time."""


def count_batches(chain: Chain) -> int:
    return sum(upto for _, upto in chain)


def find_tag_numbers(chain: Chain, number: int) -> tuple[int, int]:
    """Epoch and sequence number of a batch by its number in the chain. Raises ValueError past its end."""
    for epoch, upto in chain:
        if number <= upto:
            return epoch, number
        number -= upto
    raise ValueError(f"{number} lies behind the chain")


def identity(location: str, chain: Chain) -> str:
    """The lake table and its chain as one text, which plan and watermark remember."""
    return f"{location}#{','.join(f'{epoch}:{upto}' for epoch, upto in chain)}"


def parse_chain(identity: str) -> Chain:
    parts = (part.partition(":") for part in identity.rpartition("#")[2].split(","))
    return tuple((int(epoch), int(upto)) for epoch, _, upto in parts)


def count_shared(one: Chain, other: Chain) -> int:
    """How many batches two chains have in common, from the beginning."""
    count = 0
    for (epoch, upto), (its_epoch, its_upto) in zip(one, other, strict=False):
        if epoch != its_epoch:
            break
        count += min(upto, its_upto)
        if upto != its_upto:
            break
    return count


def count_passed(loaded: int, known: str | None, chain: Chain) -> int:
    """How many batches of `chain` are already loaded, by a load that counted `loaded` batches in the chain of
    the identity `known`."""
    common = loaded
    if known is not None and loaded:
        before = parse_chain(known)
        # A count past the old chain's end was set by hand, and means the new chain.
        if count_shared(before, chain) < min(loaded, count_batches(before)):
            common = count_shared(before, chain)
    return common


def find_load_start(
    flow: TableFlow, loaded: int, known: str | None, location: str, chain: Chain
) -> tuple[int, str | None]:
    """The batch after which the next load begins, and a note where batches are loaded again.

    `known` is the identity that the watermark remembers. Raises OutputDisagrees where rows would come twice,
    where this is another lake, or where more batches were loaded than the lake has.
    """
    if known is not None and loaded and known.rpartition("#")[0] != location:
        raise OutputDisagrees(
            f"{flow.name}: this is not the lake its watermark was taken from"
            f" (then {known.rpartition('#')[0]}, now {location})",
            hint="point `via` back at the old lake; to load everything from the new one use"
            f" `tidegauge watermark reset -t {flow.table} --stage load`",
        )
    common = count_passed(loaded, known, chain)
    if common > count_batches(chain):
        raise OutputDisagrees(
            f"{flow.name}: the ledger says {loaded} batches were loaded, and the lake has"
            f" {count_batches(chain)}",
            hint="bring the files back, or load afresh with"
            f" `tidegauge watermark reset -t {flow.table} --stage load`",
        )
    if common == loaded:
        return loaded, None
    if flow.options.mode.facts.only_adds:
        raise OutputDisagrees(
            f"{flow.name}: {flow.upstream} was set back behind batch {common}, and {loaded - common} batches"
            " after it are in the target: appending would double their rows",
            hint=f"`tidegauge sync -t {flow.table} --full-refresh` empties the target and begins again",
        )
    return common, f"{flow.upstream} was set back: its batches after number {common} are loaded again"


def draft_files(
    flow: TableFlow, after: int, pieces: Sequence[LakeBatch], *, source_id: str, whole: bool
) -> Draft:
    """Make the plan of one load; `pieces` are the lake's batches past `after`, in order. Without pieces there
    is nothing new.

    `whole`: each lake batch is a copy of the whole table, and only the last one counts.
    """
    batches = _batches(flow, after, pieces, whole=whole)
    end = pieces[-1].number if pieces else after
    part = InputPlan(
        input=flow.input,
        cursor="files",
        window=Window(_make_position(after), _make_position(end)),
        source_id=source_id,
        fingerprint=pieces[-1].fingerprint if pieces else "",
        stamp=pieces[-1].stamp if pieces else None,
    )
    return Draft(flow.pipeline, flow.name, (part,), tuple(batches))


def _batches(flow: TableFlow, after: int, pieces: Sequence[LakeBatch], *, whole: bool) -> list[Batch]:
    """Join neighbouring lake batches with the same columns into one load batch, up to `batch_rows` rows."""
    made: list[Batch] = []
    for _, group in groupby(pieces, key=lambda piece: "" if whole else piece.fingerprint):
        rows = 0
        for piece in group:
            start = after
            if rows and (whole or rows + piece.rows <= flow.options.batch_rows):
                last = made.pop()
                assert isinstance(last.windows[0].after, FilesPosition | None)
                start = last.windows[0].after.sequence if last.windows[0].after else 0
            else:
                rows = 0
            rows += piece.rows
            stamps = (piece.stamp,) if piece.stamp else ()
            made.append(
                Batch(
                    (Window(_make_position(start), _make_position(piece.number)),), rows=rows, stamps=stamps
                )
            )
            after = piece.number
    return made


def _make_position(number: int) -> FilesPosition | None:
    return FilesPosition(number) if number else None
