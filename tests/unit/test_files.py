"""Planning a load: batches of the lake, counted along a chain that a person may have bent."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegauge.errors import OutputDisagrees
from tidegauge.model.mode import MODES, Mode, OutputKind
from tidegauge.model.position import FilesPosition
from tidegauge.model.spec import (
    Database,
    Engine,
    Lake,
    LakeTable,
    Stage,
    TableFlow,
    TableName,
    TableOptions,
    WarehouseTable,
)
from tidegauge.plan import lake_batches as files
from tidegauge.plan.lake_batches import Chain, LakeBatch

PLACE = "/lake/t"
FLOW = TableFlow(
    pipeline="p",
    name="t/load",
    source=Database("app", Engine.SQLITE, path=Path("/x.db")),
    table=TableName(None, "t"),
    output=WarehouseTable(Database("wh", Engine.DUCKDB, path=Path("/w.db")), TableName("main", "t")),
    options=TableOptions(cursor="at", batch_rows=10),
    stage=Stage.LOAD,
    reads=LakeTable(Lake("lake", "/lake"), "t"),
    upstream="t/extract",
)
APPENDING = replace(FLOW, options=replace(FLOW.options, mode=Mode.APPEND))


def begins(loaded: int, before: Chain | None, now: Chain, flow: TableFlow = FLOW) -> tuple[int, str | None]:
    return files.find_load_start(flow, loaded, files.identity(PLACE, before) if before else None, PLACE, now)


def test_what_came_since_is_loaded_and_no_more() -> None:
    assert begins(5, ((0, 5),), ((0, 8),)) == (5, None)
    assert begins(0, None, ((0, 3),)) == (0, None)
    assert begins(5, ((0, 5),), ((0, 5), (1, 2))) == (5, None)


def test_b15_after_a_reset_of_the_other_stage_all_of_its_new_life_is_loaded() -> None:
    after, note = begins(5, ((0, 5),), ((1, 4),))
    assert after == 0
    assert note is not None
    assert "t/extract was set back" in note


def test_b15_after_an_undo_the_batches_that_it_put_in_the_place_of_others_are_loaded() -> None:
    after, _ = begins(7, ((0, 5), (1, 2)), ((0, 5), (2, 3)))
    assert after == 5


def test_b15_appending_stops_where_rows_would_come_twice() -> None:
    with pytest.raises(OutputDisagrees, match="appending would double") as caught:
        begins(7, ((0, 5), (1, 2)), ((0, 5), (2, 3)), APPENDING)
    assert "--full-refresh" in str(caught.value.hint)


def test_a_position_set_by_hand_past_the_old_chain_is_meant_in_the_new_one() -> None:
    assert begins(6, ((0, 5),), ((0, 8),)) == (6, None)


def test_b5_more_loaded_than_there_is_stops_the_load() -> None:
    with pytest.raises(OutputDisagrees, match="says 9 batches were loaded, and the lake has 5"):
        begins(9, ((0, 5),), ((0, 5),))


def test_another_lake_stops_the_load() -> None:
    with pytest.raises(OutputDisagrees, match="not the lake its watermark was taken from"):
        files.find_load_start(FLOW, 2, files.identity("/other/t", ((0, 2),)), PLACE, ((0, 2),))


def test_an_identity_tells_its_chain_whatever_the_path_is() -> None:
    chain: Chain = ((0, 5), (3, 0), (12, 1000))
    assert files.parse_chain(files.identity("s3a://b/a#b,c:1/t", chain)) == chain


chains = st.lists(st.integers(0, 4), min_size=1, max_size=4).map(lambda sizes: tuple(enumerate(sizes)))


@given(chains, st.integers(1, 4), st.data())
def test_batches_of_a_bent_chain_are_never_skipped(chain: Chain, fork: int, data: st.DataObject) -> None:
    """Whatever was loaded along the old chain, all that the new one has and the old one had not is loaded."""
    kept = chain[: data.draw(st.integers(0, len(chain)))]
    if kept:
        epoch, upto = kept[-1]
        kept = (*kept[:-1], (epoch, data.draw(st.integers(0, upto))))
    bent: Chain = (*kept, (len(chain) + fork, data.draw(st.integers(0, 4))))
    loaded = data.draw(st.integers(0, files.count_batches(chain)))
    after, _ = begins(loaded, chain, bent)
    done = {files.find_tag_numbers(chain, place) for place in range(1, loaded + 1)}
    skipped = {files.find_tag_numbers(bent, place) for place in range(1, after + 1)}
    assert skipped <= done


@given(
    st.lists(st.tuples(st.integers(0, 12), st.sampled_from("ab")), max_size=12),
    st.integers(0, 5),
    st.sampled_from(MODES[OutputKind.WAREHOUSE]),
)
def test_load_batches_follow_each_other_without_gap_or_overlap(
    sizes: list[tuple[int, str]], after: int, mode: Mode
) -> None:
    pieces = [
        LakeBatch(after + number, rows, kind, f"stamp {number}")
        for number, (rows, kind) in enumerate(sizes, start=1)
    ]
    flow = replace(FLOW, options=replace(FLOW.options, mode=mode))
    draft = files.draft_files(flow, after, pieces, source_id="x", whole=mode.facts.replaces_all)
    place, kinds = after, {piece.number: piece.fingerprint for piece in pieces}
    for batch in draft.batches:
        (window,) = batch.windows
        start = window.after.sequence if isinstance(window.after, FilesPosition) else 0
        assert isinstance(window.upto, FilesPosition)
        assert start == place
        inside = range(start + 1, window.upto.sequence + 1)
        assert batch.rows == sum(rows for piece in pieces for rows in [piece.rows] if piece.number in inside)
        if mode is not Mode.OVERWRITE:
            assert len({kinds[one] for one in inside}) == 1
            assert len(inside) == 1 or (batch.rows or 0) <= FLOW.options.batch_rows
        place = window.upto.sequence
        # F3: the time of the newest row goes with it
        assert batch.stamps == (f"stamp {place - after}",)
    assert draft.inputs[0].stamp == (f"stamp {len(pieces)}" if pieces else None)
    assert place == after + len(pieces)
    assert mode is not Mode.OVERWRITE or len(draft.batches) <= 1 or not all(rows for rows, _ in sizes)
