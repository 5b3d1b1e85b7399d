"""The epochs of a table: an override opens the next, and no writer of an older one is seen or confirmed."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from tests.contract.test_output import FOLDER, Fault, data, lake, output, publish
from tests.support.output_parts import committed_files, tag
from tidegauge.errors import OutputDisagrees, OutputUnreachable
from tidegauge.model.spec import Lake
from tidegauge.outputs.lake.epochs import EpochOpening, parse, render
from tidegauge.outputs.lake.files import clean, survey
from tidegauge.outputs.lake.output import LakeOutput
from tidegauge.outputs.lake.table import load_committed
from tidegauge.storage.store import Store, open_store

__all__ = ["lake", "output"]  # fixtures


def open_next(
    output: LakeOutput, epoch: int, continues: tuple[int, int] | None = None, reason: str = "why"
) -> None:
    output.open_epoch("shop", "shop.orders", epoch, continues, reason)


def seen(lake: Lake, *, epoch: int | None = None) -> list[tuple[int, int]]:
    return [(one.tag.epoch, one.tag.seq) for one in load_committed(lake, FOLDER, epoch=epoch)]


def test_an_epoch_is_opened_by_the_file_that_the_docs_name(output: LakeOutput, lake: Lake) -> None:
    publish(output, 1)
    assert output.is_open(0)
    assert not output.is_open(1)
    open_next(output, 1, (0, 1), 'a "reason" – é')
    assert output.is_open(1)
    body = open_store(lake).get(f"{FOLDER}/_tidegauge/1/open.json")
    assert body is not None
    assert json.loads(body) == {
        "tidegauge": 1,
        "epoch": 1,
        "continues": {"epoch": 0, "upto": 1},
        "pipeline": "shop",
        "flow": "shop.orders",
        "reason": 'a "reason" – é',
    }


def test_opening_again_is_fine_and_with_another_meaning_is_refused(output: LakeOutput, lake: Lake) -> None:
    publish(output, 1)
    publish(output, 2)
    open_next(output, 1, (0, 1))
    before = open_store(lake).get(f"{FOLDER}/_tidegauge/1/open.json")
    open_next(output, 1, (0, 1))
    others: list[tuple[tuple[int, int] | None, str]] = [(None, "why"), ((0, 2), "why"), ((0, 1), "other")]
    for continues, reason in others:
        with pytest.raises(OutputDisagrees) as refused:
            open_next(output, 1, continues, reason)
        assert "continuing epoch 0 up to batch 1 (why)" in refused.value.message
        assert str(EpochOpening("shop", "shop.orders", 1, continues, reason)) in refused.value.message
        assert refused.value.hint
    assert open_store(lake).get(f"{FOLDER}/_tidegauge/1/open.json") == before
    open_next(output, 2)
    open_next(output, 1, (0, 1))  # whoever comes late with the same changes nothing either
    assert seen(lake) == []


def test_d11_a_refresh_shows_the_old_life_until_its_first_batch_is_there(
    output: LakeOutput, lake: Lake
) -> None:
    def refresh(epoch: int) -> None:
        output.open_epoch("shop", "shop.orders", epoch, None, "why", empty=True)

    publish(output, 1)
    publish(output, 2)
    open_next(output, 1, (0, 1))
    publish(output, 1, epoch=1)
    old = [(0, 1), (1, 1)]
    refresh(2)
    refresh(2)
    assert seen(lake) == old
    assert (seen(lake, epoch=2), output.layout()) == ([], None), "the new epoch itself has nothing yet"
    assert output.shows_earlier_rows(2)
    refresh(3)
    open_next(output, 4)
    open_next(output, 5, (4, 0))
    assert seen(lake) == old, "whatever was done before its first batch"
    with pytest.raises(OutputDisagrees, match="a later epoch"):
        publish(output, 2, epoch=1)
    assert seen(lake) == old
    assert output.shows_earlier_rows(5)
    publish(output, 1, epoch=5)
    assert seen(lake) == [(5, 1)]
    assert not output.shows_earlier_rows(5)


def test_b17_a_reset_shows_nothing_of_the_old_life(output: LakeOutput, lake: Lake) -> None:
    publish(output, 1)
    open_next(output, 1)
    assert seen(lake) == []
    assert not output.is_empty()
    publish(output, 1, epoch=1)
    assert seen(lake) == [(1, 1)]
    assert seen(lake, epoch=0) == [(0, 1)]


def test_b17_lives_that_continue_others_are_followed_to_their_beginning(
    output: LakeOutput, lake: Lake
) -> None:
    for seq in (1, 2, 3):
        publish(output, seq)
    open_next(output, 1, (0, 2))  # set: batch 3 was never counted by the ledger
    publish(output, 1, epoch=1)
    publish(output, 2, epoch=1)
    open_next(output, 2, (1, 1))  # set again
    publish(output, 1, epoch=2)
    assert seen(lake) == [(0, 1), (0, 2), (1, 1), (2, 1)]
    open_next(output, 3)  # reset
    publish(output, 1, epoch=3)
    assert seen(lake) == [(3, 1)]
    open_next(output, 4, (2, 1))  # undo of the reset
    assert seen(lake) == [(0, 1), (0, 2), (1, 1), (2, 1)]
    publish(output, 1, epoch=4)
    assert seen(lake)[-2:] == [(2, 1), (4, 1)]
    open_next(output, 5, (4, 0))  # before its first batch was counted: what 4 continues, and none of its own
    assert seen(lake) == [(0, 1), (0, 2), (1, 1), (2, 1)]


def test_b17_a_tag_of_an_older_life_is_neither_confirmed_nor_published(
    output: LakeOutput, lake: Lake
) -> None:
    publish(output, 1)
    open_next(output, 1, (0, 1), "moved back")
    asks: list[Callable[[], object]] = [
        lambda: output.receipt(tag(1)),
        lambda: output.receipt(tag(2)),
        lambda: publish(output, 1),
        lambda: publish(output, 2),
    ]
    for ask in asks:
        with pytest.raises(OutputDisagrees, match="a later epoch of this table was opened") as refused:
            ask()
        assert "moved back" in refused.value.message
        assert refused.value.hint
    assert open_store(lake).get(f"{FOLDER}/_tidegauge/0/2.json") is None
    open_next(output, 2)
    with pytest.raises(OutputDisagrees, match="a later epoch"):  # also when more than one came after
        output.receipt(tag(1))


def test_batches_of_a_life_that_was_never_opened_are_refused(output: LakeOutput, lake: Lake) -> None:
    publish(output, 1, epoch=1)
    for ask in (lambda: seen(lake), lambda: survey(lake, FOLDER), lambda: clean(lake, FOLDER)):
        with pytest.raises(OutputDisagrees, match="epoch 1, which was never opened"):
            ask()
    LakeOutput(lake, "other").open_epoch("shop", "shop.orders", 1, None, "x")
    with pytest.raises(OutputDisagrees, match=r"_tidegauge/3/open\.json is not there"):
        load_committed(lake, "other", epoch=3)


def test_what_is_continued_has_to_be_there(output: LakeOutput, lake: Lake) -> None:
    publish(output, 1)
    with pytest.raises(OutputDisagrees, match="batch 2 of epoch 0 is not there"):
        open_next(output, 1, (0, 2))
    with pytest.raises(OutputDisagrees, match="epoch 1 is not there"):
        open_next(output, 2, (1, 0))
    assert seen(lake) == [(0, 1)]
    open_next(output, 1, (0, 1))
    open_store(lake).delete([f"{FOLDER}/_tidegauge/0/1.json"], below=f"{FOLDER}/_tidegauge")
    with pytest.raises(OutputDisagrees, match=r"_tidegauge/0/1\.json is a part of the table"):
        seen(lake)


def test_a_place_that_is_new_to_an_old_ledger_is_opened_without_a_gap(output: LakeOutput, lake: Lake) -> None:
    open_next(output, 3)
    assert output.is_empty()
    for epoch in (0, 1, 2):
        with pytest.raises(OutputDisagrees, match="a later epoch"):
            output.receipt(tag(1, epoch=epoch))
    open_next(output, 3)
    publish(output, 1, epoch=3)
    assert seen(lake) == [(3, 1)]


def test_a_life_of_another_flows_table_cannot_be_opened(output: LakeOutput, lake: Lake) -> None:
    publish(output, 1)
    with pytest.raises(OutputDisagrees, match=r"belongs to the flow shop\.orders of the pipeline shop"):
        output.open_epoch("shop", "other", 1, None, "x")
    assert seen(lake) == [(0, 1)]


def test_b3_an_error_while_opening_proves_nothing_and_the_same_again_settles_it(lake: Lake) -> None:
    for epoch, landed in ((1, True), (2, False)):
        broken = LakeOutput(lake, FOLDER, store=Fault(open_store(lake), landed=landed))  # type: ignore[arg-type]
        with pytest.raises(OutputUnreachable):
            open_next(broken, epoch)
        whole = LakeOutput(lake, FOLDER)
        assert whole.is_open(epoch) is landed
        open_next(whole, epoch)
        assert whole.is_open(epoch)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b'{"tidegauge": 1}',
        render(EpochOpening("p", "f", 1, (0, 5), "r")).replace(b'"epoch": 0', b'"epoch": 1'),
        render(EpochOpening("p", "f", 1, None, "r")).replace(b'"tidegauge": 1', b'"tidegauge": 2'),
        render(EpochOpening("p", "f", 2, None, "r")),
        render(EpochOpening("p", "f", 1, (0, 5), "r")).replace(b"5", b"-5"),
    ],
)
def test_b6_a_torn_or_edited_opening_is_named_and_never_taken_for_missing(
    output: LakeOutput, lake: Lake, body: bytes
) -> None:
    publish(output, 1)
    open_store(lake).put_if_absent(f"{FOLDER}/_tidegauge/1/open.json", body)
    asks: list[Callable[[], object]] = [
        lambda: seen(lake),
        lambda: output.receipt(tag(1)),
        lambda: publish(output, 2),
        lambda: open_next(output, 1),
    ]
    for ask in asks:
        with pytest.raises(OutputDisagrees, match=r"_tidegauge/1/open\.json is not a file that Tidegauge"):
            ask()


def test_an_opening_comes_back_exactly() -> None:
    for there in (EpochOpening("p", "\ud800 é", 7, (3, 0), ""), EpochOpening("p", "f", 1, None, "x\ny")):
        assert parse(render(there), "x") == there


def test_files_of_earlier_lives_are_told_apart_and_never_cleaned(output: LakeOutput, lake: Lake) -> None:
    files = [data(lake, f"data/{name}/part-0.parquet") for name in "abcd"]
    publish(output, 1, files[0])
    publish(output, 2, files[1])
    open_next(output, 1, (0, 1))
    publish(output, 1, files[2], epoch=1)
    found = survey(lake, FOLDER)
    assert [one.file for one in found.committed] == [files[0], files[2]]
    assert [(one.epoch, one.seq, one.file) for one in found.earlier] == [(0, 2, files[1])]
    assert [one.path for one in clean(lake, FOLDER, older_than=timedelta(seconds=-5))] == [files[3].path]
    open_next(output, 2, (0, 2))  # what an undo does
    assert [one.file for one in committed_files(lake, FOLDER)] == files[:2]
    for one in committed_files(lake, FOLDER):
        assert open_store(lake).get(f"{FOLDER}/{one.file.path}") == b"rows"


def test_a_listing_that_shows_a_batch_and_not_yet_its_opening_is_no_reason_to_refuse(
    output: LakeOutput, lake: Lake
) -> None:
    open_next(output, 1)
    publish(output, 1, epoch=1)

    class Early(Fault):
        """Lists as a folder does that was read while files came into it."""

        def list(self, prefix: str) -> list[object]:
            return [entry for entry in self.store.list(prefix) if not entry.path.endswith("open.json")]

    early: Store = Early(open_store(lake), landed=True)  # type: ignore[assignment]
    assert [one.tag for one in load_committed(lake, FOLDER, store=early)] == [tag(1, epoch=1)]


def test_a_batch_costs_one_small_question_more_for_each_of_its_two_steps(
    output: LakeOutput, lake: Lake
) -> None:
    asked: list[str] = []

    class Counting(Fault):
        def put_if_absent(self, path: str, body: bytes) -> bool:
            asked.append("put")
            return self.store.put_if_absent(path, body)

        def get(self, path: str, *, durable: bool = False) -> bytes | None:
            asked.append(Path(path).name)
            return self.store.get(path, durable=durable)

        def list(self, prefix: str) -> None:
            raise AssertionError(prefix)

    counting = LakeOutput(lake, FOLDER, store=Counting(open_store(lake), landed=True))  # type: ignore[arg-type]
    publish(counting, 1)
    assert asked == ["open.json", "put"]
    counting.receipt(tag(1))
    assert asked[2:] == ["1.json", "open.json"]
