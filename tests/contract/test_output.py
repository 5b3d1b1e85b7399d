"""What every Parquet output promises, on a local folder and on S3."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from tests.support.output_parts import LAYOUT, batch, committed_files, local_lake, s3_lake, staged, tag
from tidegauge.errors import OutputDisagrees, OutputUnreachable
from tidegauge.model.plan import Receipt
from tidegauge.model.protocols.output import Output
from tidegauge.model.spec import Lake
from tidegauge.model.staged import DataFile
from tidegauge.outputs.lake.files import clean, survey
from tidegauge.outputs.lake.output import LakeOutput
from tidegauge.outputs.lake.table import load_committed
from tidegauge.storage.store import Entry, Store, open_store

WINDOW = batch("2025-08-14 15:30:22.123456", after="2025-08-14 15:00:00.000000")
FOLDER = "shop.or!20ders-é"


@pytest.fixture(params=["local", "s3"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    if request.param == "local":
        return local_lake(tmp_path / "lake [1] 50%25é")
    return s3_lake(request.getfixturevalue("s3"))


@pytest.fixture
def output(lake: Lake) -> LakeOutput:
    return LakeOutput(lake, FOLDER)


def data(lake: Lake, path: str, body: bytes = b"rows", rows: int = 2) -> DataFile:
    """A file as an attempt leaves it before it is published."""
    assert open_store(lake).put_if_absent(f"{FOLDER}/{path}", body)
    return DataFile(path, rows, len(body))


def publish(output: Output, seq: int, *files: DataFile, epoch: int = 0, run_id: str = "run") -> Receipt:
    return output.commit(tag(seq, epoch=epoch), WINDOW, staged(files), layout=LAYOUT, run_id=run_id)


class Fault:
    """A store whose puts fail at a chosen moment, as a network does."""

    def __init__(self, store: Store, *, landed: bool) -> None:
        self.store = store
        self.landed = landed

    def put_if_absent(self, path: str, body: bytes) -> bool:
        if self.landed:
            self.store.put_if_absent(path, body)
        raise OutputUnreachable("the connection was reset")

    def __getattr__(self, name: str) -> object:
        return getattr(self.store, name)


class Busy(Fault):
    """A store that refuses the first puts because somebody else is at it, as S3 does with 409."""

    def __init__(self, store: Store, times: int) -> None:
        super().__init__(store, landed=False)
        self.times = times

    def put_if_absent(self, path: str, body: bytes) -> bool:
        self.times -= 1
        return False if self.times >= 0 else self.store.put_if_absent(path, body)


def test_a_new_place_is_prepared_and_left_clean(output: LakeOutput, lake: Lake) -> None:
    output.prepare()
    output.prepare()
    assert output.is_empty()
    if not lake.on_s3:
        assert list(Path(lake.path).iterdir()) == []


def test_b2_a_second_publish_changes_nothing_and_tells_of_the_first(output: LakeOutput, lake: Lake) -> None:
    assert output.receipt(tag(1)) is None
    first = publish(output, 1, data(lake, "data/a/part-0.parquet"), run_id="first")
    again = publish(output, 1, data(lake, "data/b/part-0.parquet"), run_id="second")
    assert first == again == output.receipt(tag(1))
    assert first == Receipt(tag(1), WINDOW.windows, 2, 1, 4, "first", deleted=0)
    assert [one.file.path for one in committed_files(lake, FOLDER)] == ["data/a/part-0.parquet"]
    assert not output.is_empty()


def test_b3_an_error_after_the_put_landed_is_settled_by_asking(lake: Lake) -> None:
    output = LakeOutput(lake, FOLDER, store=Fault(open_store(lake), landed=True))  # type: ignore[arg-type]
    with pytest.raises(OutputUnreachable):
        publish(output, 1)
    receipt = output.receipt(tag(1))
    assert receipt is not None
    assert receipt.windows == WINDOW.windows


def test_b3_an_error_before_the_put_landed_is_settled_by_asking(lake: Lake) -> None:
    output = LakeOutput(lake, FOLDER, store=Fault(open_store(lake), landed=False))  # type: ignore[arg-type]
    with pytest.raises(OutputUnreachable):
        publish(output, 1)
    assert output.receipt(tag(1)) is None
    assert output.is_empty()


def test_b7_a_put_refused_while_nothing_is_there_yet_is_tried_again(lake: Lake) -> None:
    output = LakeOutput(lake, FOLDER, store=Busy(open_store(lake), 3))  # type: ignore[arg-type]
    assert publish(output, 1) == output.receipt(tag(1))
    output = LakeOutput(lake, FOLDER, store=Busy(open_store(lake), 1000))  # type: ignore[arg-type]
    with pytest.raises(OutputUnreachable):
        publish(output, 2)


def test_b5_a_tag_has_only_one_meaning(output: LakeOutput) -> None:
    publish(output, 1)
    other = batch("2025-08-14 16:00:00.000000", after="2025-08-14 15:00:00.000000")
    with pytest.raises(OutputDisagrees, match=r"_tidegauge/0/1\.json"):
        output.commit(tag(1), other, staged(), layout=LAYOUT, run_id="r")
    nulls = batch("2025-08-14 15:30:22.123456", after="2025-08-14 15:00:00.000000", nulls=True)
    with pytest.raises(OutputDisagrees):
        output.commit(tag(1), nulls, staged(), layout=LAYOUT, run_id="r")


def test_two_flows_cannot_write_one_table(output: LakeOutput) -> None:
    publish(output, 1)
    with pytest.raises(OutputDisagrees, match=r"belongs to the flow shop\.orders"):
        output.receipt(tag(1, flow="other"))
    with pytest.raises(OutputDisagrees, match="of the pipeline shop"):
        output.commit(tag(1, pipeline="other"), WINDOW, staged(), layout=LAYOUT, run_id="r")


def test_a_torn_manifest_is_named_and_never_taken_for_missing(output: LakeOutput, lake: Lake) -> None:
    open_store(lake).put_if_absent(f"{FOLDER}/_tidegauge/0/1.json", b'{"files": [')
    for ask in (lambda: output.receipt(tag(1)), lambda: publish(output, 1), lambda: clean(lake, FOLDER)):
        with pytest.raises(OutputDisagrees, match=r"_tidegauge/0/1\.json"):
            ask()


def test_b17_readers_follow_only_the_newest_epoch(output: LakeOutput, lake: Lake) -> None:
    publish(output, 1, data(lake, "data/a/part-0.parquet"))
    output.open_epoch("shop", "shop.orders", 1, None, "a fresh start")
    publish(output, 1, data(lake, "data/b/part-0.parquet"), epoch=1)
    assert [one.file.path for one in committed_files(lake, FOLDER)] == ["data/b/part-0.parquet"]
    assert [one.tag.seq for one in load_committed(lake, FOLDER, epoch=0)] == [1]


def test_batches_are_read_in_the_order_of_their_numbers(output: LakeOutput, lake: Lake) -> None:
    for seq in (10, 2, 1, 11, 9):
        publish(output, seq)
    assert [one.tag.seq for one in load_committed(lake, FOLDER)] == [1, 2, 9, 10, 11]


def test_d4_leftovers_are_listed_and_are_no_part_of_the_table(output: LakeOutput, lake: Lake) -> None:
    kept = data(lake, "data/a/part-0.parquet")
    data(lake, "data/dead/part-0.parquet", b"half")
    data(lake, "data/dead/_temporary/0/x.parquet", b"less")
    publish(output, 1, kept)
    assert [one.file for one in committed_files(lake, FOLDER)] == [kept]
    found = survey(lake, FOLDER)
    assert [one.file for one in found.committed] == [kept]
    assert found.missing == ()
    assert [(one.path, one.bytes, one.temporary) for one in found.leftovers] == [
        ("data/dead/_temporary/0/x.parquet", 4, False),
        ("data/dead/part-0.parquet", 4, False),
    ]


def test_cleaning_takes_only_what_no_manifest_of_any_epoch_names(output: LakeOutput, lake: Lake) -> None:
    old = data(lake, "data/a/part-0.parquet")
    new = data(lake, "data/b/part-0.parquet")
    data(lake, "data/dead/part-0.parquet")
    data(lake, "data/a/part-1.parquet")
    data(lake, "_tidegauge/copy/0123.manifest")  # of a COPY that was killed
    publish(output, 1, old)
    output.open_epoch("shop", "shop.orders", 1, None, "a fresh start")
    publish(output, 1, new, epoch=1)
    assert clean(lake, FOLDER) == ()  # a running attempt looks just like this
    ahead = timedelta(seconds=-5)
    would = clean(lake, FOLDER, older_than=ahead, preview=True)
    assert clean(lake, FOLDER, older_than=ahead) == would
    assert [one.path for one in would] == [
        "_tidegauge/copy/0123.manifest",
        "data/a/part-1.parquet",
        "data/dead/part-0.parquet",
    ]
    left = {entry.path.removeprefix(f"{FOLDER}/") for entry in open_store(lake).list(FOLDER)}
    manifests = {f"_tidegauge/{name}.json" for name in ("0/1", "1/1", "1/open")}
    assert left == {old.path, new.path, *manifests}
    assert survey(lake, FOLDER).leftovers == ()
    if not lake.on_s3:
        assert not (Path(lake.path) / FOLDER / "data" / "dead").exists()


def test_a_file_published_between_the_two_listings_is_not_cleaned(output: LakeOutput, lake: Lake) -> None:
    file = data(lake, "data/a/part-0.parquet")
    real = open_store(lake)

    class Interrupted(Fault):
        def list(self, prefix: str) -> list[Entry]:
            entries = list(self.store.list(prefix))
            if prefix.endswith("/data"):
                publish(output, 1, file)
            return entries

        def put_if_absent(self, path: str, body: bytes) -> bool:
            return self.store.put_if_absent(path, body)

    store: Store = Interrupted(real, landed=True)  # type: ignore[assignment]
    assert clean(lake, FOLDER, older_than=timedelta(seconds=-5), store=store) == ()
    assert real.get(f"{FOLDER}/{file.path}") == b"rows"


def test_a_committed_file_that_is_gone_is_reported(output: LakeOutput, lake: Lake) -> None:
    file = data(lake, "data/a/part-0.parquet")
    publish(output, 1, file)
    assert survey(lake, FOLDER).missing == ()
    open_store(lake).delete([f"{FOLDER}/{file.path}"], below=f"{FOLDER}/data")
    assert [one.file for one in survey(lake, FOLDER).missing] == [file]


def test_a_store_reads_back_what_was_put_and_only_once(lake: Lake) -> None:
    store = open_store(lake)
    assert store.get("t/a.json") is None
    assert store.put_if_absent("t/a.json", b"one")
    assert not store.put_if_absent("t/a.json", b"two")
    assert store.get("t/a.json", durable=True) == b"one"
    assert store.tail("t/a.json", 2) == b"ne"
    assert store.tail("t/a.json", 100) == b"one"
    assert [(entry.path, entry.bytes) for entry in store.list("t")] == [("t/a.json", 3)]
    assert list(store.list("tt")) == []
    store.delete(["t/a.json", "t/a.json"], below="t")
    assert store.get("t/a.json") is None
