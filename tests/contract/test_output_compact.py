"""A lake table whose small files are compacted: readers find the same rows before, during and after."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from hashlib import sha256
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.contract.test_output import FOLDER, WINDOW
from tests.contract.test_output import lake as lake
from tests.contract.test_output import output as output
from tests.support.every_type import LAYOUT as EVERY_TYPE
from tests.support.every_type import ROWS as EVERY_ROW
from tests.support.every_type import bits
from tests.support.output_parts import tag
from tests.support.warehouses import Heap, layout_of
from tidegauge.errors import OutputDisagrees
from tidegauge.model.batch_data import BatchRows
from tidegauge.model.spec import Lake
from tidegauge.model.table import Layout
from tidegauge.outputs.lake import compact as compacting
from tidegauge.outputs.lake.compact import CompactionGroup, choose_groups, compact
from tidegauge.outputs.lake.files import clean, survey
from tidegauge.outputs.lake.manifest import (
    COMPACTED,
    EARLIER,
    LOADED,
    BatchNumber,
    manifest_of,
    refuse_removed,
)
from tidegauge.outputs.lake.output import LakeOutput
from tidegauge.outputs.lake.table import lake_files, load_committed
from tidegauge.storage.parquet_split import ParquetSplit
from tidegauge.storage.store import Store, open_store

ORDERS = layout_of(("id", "bigint"), ("word", "string"))
AHEAD = timedelta(seconds=-5)
WHOLE = 2**30

Rows = Sequence[tuple[Any, ...]]


def no_spark() -> Any:
    raise AssertionError("no Spark is needed")


def publish(output: LakeOutput, seq: int, *parts: Rows, layout: Layout = ORDERS, epoch: int = 0) -> None:
    """A batch of one file for each of the parts."""
    splits = tuple(Heap(layout, tuple(part)) for part in parts)
    count = sum(map(len, parts))
    staged = output.stage(BatchRows(layout, count, splits=splits), no_spark)
    assert len(staged.files) == len(parts)
    output.commit(tag(seq, epoch=epoch), WINDOW, staged, layout=layout, run_id="run")


def fill(output: LakeOutput, count: int = 6) -> None:
    """Batches of which each but the first rewrites a key of the one before; the third has two files."""
    for seq in range(1, count + 1):
        parts = [[(seq, f"new in {seq}"), (seq - 1, f"again in {seq}")]]
        publish(output, seq, *parts, *([[(seq, "later in the same batch")]] if seq == 3 else []))


def numbers(lake: Lake) -> list[BatchNumber]:
    return [BatchNumber(one.tag.epoch, one.tag.seq) for one in load_committed(lake, FOLDER)]


def go(lake: Lake, **options: Any) -> tuple[CompactionGroup, ...]:
    return compact(lake, FOLDER, numbers(lake), **{"reason": "tidy", **options})


def paths(lake: Lake, part: str) -> list[str]:
    found = (entry.path.removeprefix(f"{FOLDER}/") for entry in open_store(lake).list(f"{FOLDER}/{part}"))
    return sorted(found)


def body(lake: Lake, path: str) -> bytes:
    found = open_store(lake).get(f"{FOLDER}/{path}")
    assert found is not None
    return found


def read(lake: Lake) -> list[list[list[tuple[Any, ...]]]]:
    """By the splits that loads read: batch by batch, file by file, in order."""
    return [
        [
            _rows(ParquetSplit(file, replace(ORDERS, fields=one.schema)))
            for file in lake_files(lake, FOLDER, [one])
        ]
        for one in load_committed(lake, FOLDER)
    ]


def _rows(split: ParquetSplit) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for part in split.batches() for row in part.to_pylist()]


def stranger(lake: Lake, *, knows: bool = True) -> list[list[tuple[Any, ...]]]:
    """By the documented layout alone, without a line of ours: batch by batch."""
    found = []
    manifests = [path for path in paths(lake, "_tidegauge/0") if path.rpartition("/")[2][:-5].isdigit()]
    for number in range(1, len(manifests) + 1):
        manifest = json.loads(body(lake, f"_tidegauge/0/{number}.json"))
        rows: list[tuple[Any, ...]] = []
        for at, file in enumerate(manifest["files"]):
            place = manifest["compacted"]["files"][at] if knows and "compacted" in manifest else file
            whole = body(lake, place["path"])
            assert len(whole) == place["bytes"]
            table = pq.read_table(io.BytesIO(whole))
            if "first" in place:
                table = table.slice(place["first"], file["rows"])
                assert set(table["_tidegauge_seq"].to_pylist()) == {number}
                table = table.drop_columns(["_tidegauge_seq"])
            assert table.num_rows == file["rows"]
            rows += [tuple(row.values()) for row in table.to_pylist()]
        found.append(rows)
    return found


def test_every_reader_finds_the_same_rows_before_and_after_and_when_the_small_files_are_gone(
    output: LakeOutput, lake: Lake
) -> None:
    fill(output)
    before, told = read(lake), stranger(lake)
    small = paths(lake, "data")
    receipts = [output.receipt(tag(seq)) for seq in range(1, 7)]
    [would] = go(lake, reason=None)
    assert (would.epoch, would.first, would.last, len(would.before), would.rows) == (0, 1, 6, 7, 13)
    assert would.files == ()
    assert paths(lake, "compacted") == []
    [done] = go(lake)
    assert done.before == would.before
    assert [file.path for file in done.files] == paths(lake, "compacted")
    assert len(done.files) == 1
    assert (read(lake), stranger(lake), stranger(lake, knows=False)) == (before, told, told)
    assert paths(lake, "data") == small, "a reader that began before still finds them"
    assert [output.receipt(tag(seq)) for seq in range(1, 7)] == receipts

    found = survey(lake, FOLDER)
    assert [(one.seq, one.last, one.file.rows) for one in found.committed] == [(1, 6, 13)]
    assert sorted(one.file.path for one in found.replaced) == small
    assert (found.leftovers, found.missing, found.removed) == ((), (), ())
    assert go(lake) == (), "one file is as few as can be"

    assert clean(lake, FOLDER, reason="spring") == (), "too young"
    would_go = clean(lake, FOLDER, older_than=AHEAD, preview=True)
    gone = clean(lake, FOLDER, older_than=AHEAD, reason="spring")
    assert sorted((one.path, one.why) for one in gone) == [(path, COMPACTED) for path in small]
    assert sorted(one.path for one in would_go) == small
    assert paths(lake, "data") == []
    assert (read(lake), stranger(lake)) == (before, told)
    said = json.loads(body(lake, "_tidegauge/0/2.json"))["removed"]
    assert (said["why"], said["reason"]) == (COMPACTED, "spring")
    refuse_removed("here", load_committed(lake, FOLDER), "so")
    assert output.lacks((0, 6)) is None
    found = survey(lake, FOLDER)
    assert (found.replaced, found.missing, found.removed, found.leftovers) == ((), (), (), ())
    assert clean(lake, FOLDER, older_than=AHEAD, reason="again") == ()
    publish(output, 7, [(7, "as ever")])
    assert stranger(lake) == [*told, [(7, "as ever")]]


def test_every_value_of_every_type_stays_as_it_is_and_so_do_the_types_in_the_file(
    output: LakeOutput, lake: Lake
) -> None:
    publish(output, 1, EVERY_ROW, layout=EVERY_TYPE)
    publish(output, 2, EVERY_ROW[:2], EVERY_ROW[2:], layout=EVERY_TYPE)
    kinds = pq.ParquetFile(pa.BufferReader(body(lake, paths(lake, "data")[0]))).schema
    [done] = go(lake)
    parquet = pq.ParquetFile(pa.BufferReader(body(lake, done.files[0].path)))
    count = len(EVERY_TYPE.fields)
    assert [str(parquet.schema.column(at)) for at in range(count)] == [
        str(kinds.column(at)) for at in range(count)
    ]
    assert parquet.schema.column(count).name == "_tidegauge_seq"
    assert parquet.schema_arrow.field(count).type == pa.int64()
    clean(lake, FOLDER, older_than=AHEAD)
    found = [[row for part in batch for row in part] for batch in read(lake)]
    assert [[bits(row) for row in batch] for batch in found] == [[bits(row) for row in EVERY_ROW]] * 2


def test_batches_with_other_columns_are_in_other_files(output: LakeOutput, lake: Lake) -> None:
    wider = layout_of(("id", "bigint"), ("word", "string"), ("more", "int"))
    widest = layout_of(("id", "bigint"), ("word", "string"), ("more", "bigint"))
    for seq in (1, 2):
        publish(output, seq, [(seq, "a")])
        publish(output, seq + 2, [(seq, "b", seq)], layout=wider) if seq == 2 else None
    publish(output, 3, [(3, "b", 2**31 - 1)], layout=wider)
    publish(output, 5, [(5, "c", 2**40)], layout=widest)
    publish(output, 6, [(6, "c", None)], layout=widest)
    told = stranger(lake)
    assert [(one.first, one.last) for one in go(lake)] == [(1, 2), (3, 4), (5, 6)]
    clean(lake, FOLDER, older_than=AHEAD)
    assert stranger(lake) == told
    assert [[row for part in one for row in part] for one in read(lake)] == told
    assert len(paths(lake, "compacted")) == 3


def test_what_comes_later_is_taken_up_and_a_large_file_is_left(output: LakeOutput, lake: Lake) -> None:
    fill(output, 8)
    told = stranger(lake)
    batches = numbers(lake)
    [first] = compact(lake, FOLDER, batches[:6], reason="a")
    assert go(lake, reason=None)[0].first == 7, "three times as many would be rewritten for two"
    for seq in range(9, 19):
        publish(output, seq, [(seq, "x")])
    told = stranger(lake)
    [second] = go(lake, reason="b")
    assert (second.first, second.last) == (1, 18)
    assert first.files[0] in [replace(one, first=None, rows=first.files[0].rows) for one in second.before]
    assert stranger(lake) == stranger(lake, knows=False) == told
    found = survey(lake, FOLDER)
    assert first.files[0].path in [one.file.path for one in found.replaced]
    assert found.leftovers == (), "a reader may be at the first of them still"
    clean(lake, FOLDER, older_than=AHEAD)
    assert paths(lake, "compacted") == [second.files[0].path]
    assert stranger(lake) == told


def test_a_batch_is_as_old_as_its_commit_however_often_it_was_rewritten(
    output: LakeOutput, lake: Lake
) -> None:
    fill(output, 3)
    go(lake)
    clean(lake, FOLDER, older_than=AHEAD)
    for seq in (1, 2, 3):
        path = f"{FOLDER}/_tidegauge/0/{seq}.json"
        said = json.loads(open_store(lake).get(path) or b"")
        said["compacted"]["committed"] = "2025-01-01T00:00:00+00:00"
        _replace(lake, path, said)
    wanted = dict.fromkeys(numbers(lake), LOADED)
    assert [one.why for one in clean(lake, FOLDER, batches=wanted, preview=True)] == [LOADED]


def test_batches_of_one_file_go_together_and_what_is_gone_is_said(output: LakeOutput, lake: Lake) -> None:
    fill(output)
    go(lake)
    clean(lake, FOLDER, older_than=AHEAD)
    some = dict.fromkeys([BatchNumber(0, 1), BatchNumber(0, 2)], LOADED)
    told = stranger(lake)
    assert clean(lake, FOLDER, older_than=AHEAD, batches=some, reason="spring") == ()
    assert stranger(lake) == told
    refuse_removed("here", load_committed(lake, FOLDER), "so")
    every = dict.fromkeys(numbers(lake), LOADED)
    [gone] = clean(lake, FOLDER, older_than=AHEAD, batches=every, reason="spring")
    assert gone.why == LOADED
    assert paths(lake, "compacted") == []
    with pytest.raises(OutputDisagrees, match=r"batch 1 of epoch 0, and 5 more, were cleaned away.*loaded"):
        refuse_removed("here", load_committed(lake, FOLDER), "so")
    found = survey(lake, FOLDER)
    assert {one.seq for one in found.removed} == {1, 2, 3, 4, 5, 6}
    assert (found.committed, found.missing, found.leftovers, found.replaced) == ((), (), (), ())


def test_small_files_and_compacted_ones_go_at_once_when_their_batches_do(
    output: LakeOutput, lake: Lake
) -> None:
    fill(output, 3)
    go(lake)
    every = dict.fromkeys(numbers(lake), LOADED)
    would = clean(lake, FOLDER, older_than=AHEAD, batches=every, preview=True)
    gone = clean(lake, FOLDER, older_than=AHEAD, batches=every, reason="spring")
    assert [(one.path, one.why) for one in would] == [(one.path, one.why) for one in gone]
    assert {one.why for one in gone} == {LOADED}
    assert paths(lake, "data") == paths(lake, "compacted") == []


def test_an_epoch_is_continued_out_of_the_middle_of_a_compacted_file(output: LakeOutput, lake: Lake) -> None:
    fill(output)
    told = stranger(lake)
    go(lake)
    clean(lake, FOLDER, older_than=AHEAD)
    output.open_epoch("shop", "shop.orders", 1, (0, 3), "set back")
    publish(output, 1, [(9, "epoch 1")], epoch=1)
    assert [[row for part in one for row in part] for one in read(lake)] == [*told[:3], [(9, "epoch 1")]]
    assert go(lake) == (), "one epoch never shares a file with another"
    earlier = dict.fromkeys([BatchNumber(0, 4), BatchNumber(0, 5), BatchNumber(0, 6)], EARLIER)
    assert clean(lake, FOLDER, older_than=AHEAD, batches=earlier) == (), "its file is read"
    assert output.lacks((0, 6)) is None
    output.open_epoch("shop", "shop.orders", 2, (0, 6), "undone")
    assert [[row for part in one for row in part] for one in read(lake)] == told


def test_small_files_stay_where_the_compacted_one_is_not_whole(output: LakeOutput, lake: Lake) -> None:
    fill(output, 3)
    told = stranger(lake)
    [done] = go(lake)
    store = open_store(lake)
    store.delete([f"{FOLDER}/{done.files[0].path}"], below=f"{FOLDER}/compacted")
    assert [one.file.path for one in survey(lake, FOLDER).missing] == [done.files[0].path]
    assert clean(lake, FOLDER, older_than=AHEAD) == ()
    with pytest.raises(OutputDisagrees, match="it is gone"):
        read(lake)
    assert store.put_if_absent(f"{FOLDER}/{done.files[0].path}", b"cut off")
    assert clean(lake, FOLDER, older_than=AHEAD) == ()
    with pytest.raises(OutputDisagrees, match="7 bytes"):
        read(lake)
    assert stranger(lake, knows=False) == told


class _Meanwhile:
    """A store in which something happens before the first manifest is changed."""

    def __init__(self, store: Store, act: Any) -> None:
        self._store, self._act = store, act

    def replace(self, path: str, body: bytes, token: str | None) -> str | None:
        act, self._act = self._act, None
        if act is not None:
            act()
        return self._store.replace(path, body, token)

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)


def test_of_two_at_once_each_batch_takes_one_and_no_row_comes_twice(
    output: LakeOutput, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(output)
    told = stranger(lake)
    monkeypatch.setattr(compacting, "ThreadPoolExecutor", lambda _: ThreadPoolExecutor(1))

    def other() -> None:
        compact(lake, FOLDER, numbers(lake)[2:], reason="other")

    [late] = go(lake, store=_Meanwhile(open_store(lake), other))
    assert late.kept == (3, 4, 5, 6)
    assert stranger(lake) == stranger(lake, knows=False) == told
    assert len(paths(lake, "compacted")) == 2
    clean(lake, FOLDER, older_than=AHEAD)
    assert stranger(lake) == told
    assert paths(lake, "data") == []
    [again] = go(lake, reason="once more")
    assert (again.first, again.last, len(again.before)) == (1, 6, 2)
    assert stranger(lake) == told


def test_a_batch_that_is_cleaned_away_meanwhile_stays_away(
    output: LakeOutput, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(output, 3)
    monkeypatch.setattr(compacting, "ThreadPoolExecutor", lambda _: ThreadPoolExecutor(1))

    def away() -> None:
        clean(lake, FOLDER, older_than=AHEAD, batches={BatchNumber(0, 2): LOADED}, reason="spring")

    [done] = go(lake, store=_Meanwhile(open_store(lake), away))
    assert 2 in done.kept
    with pytest.raises(OutputDisagrees, match=r"batch 2 of epoch 0 was cleaned away"):
        refuse_removed("here", load_committed(lake, FOLDER), "so")


def test_a_runner_commits_and_a_reader_reads_in_the_middle_of_it(output: LakeOutput, lake: Lake) -> None:
    fill(output, 4)
    told = stranger(lake)
    seen = []

    def meanwhile() -> None:
        publish(output, 5, [(5, "meanwhile")])
        seen.append(stranger(lake))

    [done] = go(lake, store=_Meanwhile(open_store(lake), meanwhile))
    assert done.last == 4
    assert seen == [[*told, [(5, "meanwhile")]]]
    assert stranger(lake) == seen[0]


def test_only_what_was_committed_so_long_ago(output: LakeOutput, lake: Lake) -> None:
    fill(output, 3)
    assert go(lake, older_than=timedelta(days=1)) == ()
    assert compact(lake, FOLDER, [], reason="none") == ()


def test_one_batch_of_many_files_becomes_several_of_the_wanted_size(output: LakeOutput, lake: Lake) -> None:
    publish(output, 1, *[[(part, "x")] for part in range(12)])
    [whole] = choose_groups(load_committed(lake, FOLDER), WHOLE)
    told = stranger(lake)
    [done] = go(lake, target=whole.bytes // 3)
    assert [file.rows for file in done.files] == [4, 4, 4]
    clean(lake, FOLDER, older_than=AHEAD)
    assert stranger(lake) == told
    assert read(lake) == [[[(part, "x")] for part in range(12)]]


def test_a_piece_of_a_large_file_costs_a_piece(
    output: LakeOutput, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compacting, "_LEAST_GROUP_ROWS", 1000)
    for seq in range(1, 9):
        publish(
            output, seq, [(number, sha256(f"{seq} {number}".encode()).hexdigest()) for number in range(1000)]
        )
    before = read(lake)
    [done] = go(lake)
    assert pq.ParquetFile(pa.BufferReader(body(lake, done.files[0].path))).num_row_groups == 8
    assert read(lake) == before
    if not lake.on_s3:
        return
    ranged = open_store(lake).open_ranged(f"{FOLDER}/{done.files[0].path}")  # type: ignore[attr-defined]
    assert ranged.size == done.files[0].bytes
    fetched = []
    store = type(open_store(lake))
    real = store._get_range  # type: ignore[attr-defined]

    def count(self: Any, path: str, start: int, length: int) -> bytes:
        fetched.append(length)
        return bytes(real(self, path, start, length))

    monkeypatch.setattr(store, "_get_range", count)
    [manifest] = load_committed(lake, FOLDER)[4:5]
    [file] = lake_files(lake, FOLDER, [manifest])
    assert sum(part.num_rows for part in ParquetSplit(file, ORDERS).batches()) == 1000
    assert 0 < sum(fetched) < done.files[0].bytes / 2


def _replace(lake: Lake, path: str, said: dict[str, Any]) -> None:
    store = open_store(lake)
    found = store.read(path)
    assert found is not None
    assert store.replace(path, json.dumps(said).encode(), found[1])


@pytest.mark.parametrize(
    "change",
    [
        lambda said: said["files"][0].update(path="data/x/part.parquet"),
        lambda said: said["files"][0].update(path="compacted/../../x"),
        lambda said: said["files"][0].update(first=-1),
        lambda said: said["files"].pop(),
        lambda said: said.pop("at"),
        lambda said: said.update(before=[3]),
    ],
)
def test_a_manifest_that_names_something_else_is_refused(output: LakeOutput, lake: Lake, change: Any) -> None:
    if lake.on_s3:
        return
    fill(output, 2)
    go(lake)
    path = f"{FOLDER}/_tidegauge/0/2.json"
    said = json.loads(open_store(lake).get(path) or b"")
    change(said["compacted"])
    _replace(lake, path, said)
    with pytest.raises(OutputDisagrees, match=r"2\.json is not a file that Tidegauge wrote whole"):
        load_committed(lake, FOLDER)


def test_a_column_that_has_the_name_of_ours_keeps_its_files() -> None:
    layout = layout_of(("id", "bigint"), ("_Tidegauge_SEQ", "string"))
    files = [replace(one, path=f"data/{at}/p") for at, one in enumerate([_file()] * 4)]
    plain = [manifest_of(tag(at), WINDOW, [file], layout=ORDERS, run_id="r") for at, file in enumerate(files)]
    assert len(choose_groups(plain, WHOLE)) == 1
    taken = [manifest_of(tag(at), WINDOW, [file], layout=layout, run_id="r") for at, file in enumerate(files)]
    assert choose_groups(taken, WHOLE) == []


def _file() -> Any:
    from tidegauge.model.staged import DataFile

    return DataFile("data/0/p", 3, 1000)
