"""The epochs of a Delta table, opened and closed without Spark."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.delta_log_table import LogTable
from tests.support.delta_output import delta_flow_of, tag_of
from tests.support.servers import S3
from tidegauge.delta_log.application import CLOSED, prefix_of
from tidegauge.delta_log.commit import Action, commit_path
from tidegauge.delta_log.snapshot import Log
from tidegauge.errors import OutputDisagrees, OutputUnreachable
from tidegauge.model.delta_flow import TableRef
from tidegauge.model.mode import Mode
from tidegauge.model.secret import Secret
from tidegauge.model.spec import Lake
from tidegauge.outputs.delta.epochs import DeltaEpochOpening, DeltaEpochs
from tidegauge.outputs.delta.output import DeltaOutput
from tidegauge.outputs.delta.recall import recall_delta

PREFIX = prefix_of("shop", "silver/orders")


@pytest.fixture
def table(tmp_path: Path) -> LogTable:
    return LogTable(Lake("", str(tmp_path / "made later" / "o'rders ä")))


@pytest.mark.parametrize(
    "feature",
    ["catalogManaged", "catalogManaged-preview", "catalogOwned-preview", "coordinatedCommits-preview"],
)
def test_b18_an_output_whose_commits_go_through_a_catalogue_is_refused(table: LogTable, feature: str) -> None:
    table.commit(1)
    protocol: Action = {"minReaderVersion": 3, "minWriterVersion": 7}
    protocol |= {"readerFeatures": [feature], "writerFeatures": [feature]}
    store = table.output._table.opened().log.store
    assert store.put_if_absent(commit_path(1), json.dumps({"protocol": protocol}).encode())
    for act in (table.fresh().prepare, lambda: table.open(1, (0, 1))):
        with pytest.raises(OutputDisagrees, match="through a catalogue") as caught:
            act()
        assert feature in caught.value.message


def test_c8_a_reset_closes_every_older_life_in_one_commit(table: LogTable) -> None:
    table.commit(1)
    table.commit(2)
    table.open(1, (0, 2))
    look = Log(table.output._table.opened().log.store).look()
    assert look is not None
    assert look.version == 2
    assert look.transactions(PREFIX) == {f"{PREFIX}0": CLOSED, f"{PREFIX}1": 0}
    table.open(1, (0, 2))  # the same again changes nothing
    assert len(table.logged()) == 3
    assert [table.fresh().is_open(epoch) for epoch in (0, 1, 2)] == [False, True, False]
    for tag in (tag_of(1), tag_of(2), tag_of(3)):
        with pytest.raises(OutputDisagrees, match="later epoch"):
            table.output.receipt(tag)
    assert table.output.receipt(tag_of(1, epoch=1)) is None
    table.commit(1, epoch=1)
    found = table.output.receipt(tag_of(1, epoch=1))
    assert found is not None
    table.open(3)
    assert table.output.lacks((1, 1)) is None
    assert table.output.lacks((0, 2)) is None
    assert table.output.lacks((0, 3)) == "batch 3 of epoch 0"
    assert table.output.lacks((4, 0)) == "epoch 4"
    with pytest.raises(OutputDisagrees, match="later than epoch 2"):
        table.open(2)
    with pytest.raises(OutputDisagrees, match="holds epoch 3"):
        table.output.open_epoch("shop", "silver/orders", 3, (1, 1), "another reason")
    with pytest.raises(OutputDisagrees, match="batch 2 of epoch 1 is not in"):
        table.open(4, (1, 2))
    assert table.output.is_open(3)


def test_a_full_refresh_removes_every_row_in_the_commit_that_opens_the_life(table: LogTable) -> None:
    from deltalake import DeltaTable

    table.commit(1, rows=5)
    DeltaTable(table.lake.path).create_checkpoint()
    table.commit(2, rows=3)
    assert table.ids() == 8
    table.open(1, empty=True)
    assert table.ids() == 0
    assert DeltaTable(table.lake.path).version() == 2
    lacks = table.output.lacks((0, 2))
    assert lacks is not None
    assert "full refresh" in lacks
    assert not table.fresh().is_empty()  # an epoch was opened: a ledger that knows nothing of it is refused
    table.commit(1, epoch=1, rows=4)
    table.open(1, empty=True)
    assert table.ids() == 4


def test_a_full_refresh_forgets_the_events_that_a_history_keeps_beside_it(table: LogTable) -> None:
    table.delta_flow = delta_flow_of(TableRef(path=table.lake.path), Mode.SCD2, key=("id",), sequence_by="id")
    table.output = table.fresh()
    table.commit(1)
    beside = LogTable(Lake("", f"{table.lake.path}/_tidegauge_events"))
    beside.commit(rows=4)
    table.open(1)
    assert beside.ids() == 4
    table.open(2, empty=True)
    assert beside.ids() == 0
    beside.commit(rows=2)
    table.open(2, empty=True)
    assert beside.ids() == 2  # of the new epoch by now


def test_b17_a_life_can_be_opened_before_the_table_is_there(table: LogTable) -> None:
    table.open(1)
    table.open(2, empty=True)
    output = table.fresh()
    assert output.is_empty()
    assert [output.is_open(epoch) for epoch in (0, 1, 2)] == [False, False, True]
    with pytest.raises(OutputDisagrees, match="later epoch"):
        output.receipt(tag_of(1))
    table.commit()  # whoever makes the table now
    epochs = DeltaEpochs(Log(output._table.opened().log.store), "shop", "silver/orders")
    with pytest.raises(OutputDisagrees, match="epoch 0 is no part"):
        epochs.ensure(0, unmarked=False)
    assert epochs.ensure(2, unmarked=False).logged == 0
    assert table.ids() == 0  # what came between belongs to no epoch
    assert epochs.ensure(2, unmarked=False).logged == 0
    assert len(table.logged()) == 2


def test_b17_of_a_late_writer_and_a_new_life_one_always_sees_the_other(table: LogTable) -> None:
    """The writer makes the table, then looks; who opens the epoch says so, then looks for the table."""
    for round_ in range(20):
        one = LogTable(Lake("", f"{table.lake.path}{round_}"))
        start = threading.Barrier(2)

        def write(one: LogTable = one, start: threading.Barrier = start) -> bool:
            start.wait()
            one.commit()
            try:
                one.fresh()._table.opened().epochs.ensure(0, unmarked=False)
            except OutputDisagrees:
                return False
            return True

        def reset(one: LogTable = one, start: threading.Barrier = start) -> None:
            start.wait()
            one.fresh().open_epoch("shop", "silver/orders", 1, None, "again")

        with ThreadPoolExecutor(2) as pool:
            wrote, opened = pool.submit(write), pool.submit(reset)
            opened.result()
            # Where the writer went on, its application is closed in the log: Delta will refuse the batch.
            look = Log(one.output._table.opened().log.store).look()
            closed = look.transactions(PREFIX).get(f"{PREFIX}0") if look else None
            assert not wrote.result() or closed == CLOSED


def test_b7_of_many_that_open_a_life_one_commits(table: LogTable) -> None:
    table.commit(1)
    barrier = threading.Barrier(8)

    def one(_: int) -> None:
        output = table.fresh()
        barrier.wait()
        output.open_epoch("shop", "silver/orders", 1, (0, 1), "again")

    def foreign(_: int) -> None:
        barrier.wait()
        table.commit()

    with ThreadPoolExecutor(8) as pool:
        jobs = [pool.submit(one, n) for n in range(6)] + [pool.submit(foreign, n) for n in range(2)]
        for job in jobs:
            job.result()
    said = [
        json.loads(file.read_text().splitlines()[0])["commitInfo"].get("operation") for file in table.logged()
    ]
    assert said.count("TIDEGAUGE EPOCH") == 1
    assert len(said) == 4
    assert table.ids() == 3


@pytest.mark.parametrize("killed", [False, True])
def test_a_batch_that_comes_between_an_opening_and_its_commit_is_counted_to_its_life(
    table: LogTable, monkeypatch: pytest.MonkeyPatch, killed: bool
) -> None:
    table.commit(1)
    late = [2] if killed else [2, 3]
    last, put = late[-1], Log.put

    def slow_put(log: Log, version: int, actions: list[Action]) -> bool:
        if late:
            table.commit(late.pop(0))
            if killed:
                raise KeyboardInterrupt  # the marker is there, its commit is not
        return put(log, version, actions)

    monkeypatch.setattr(Log, "put", slow_put)
    epochs = table.fresh()._table.opened().epochs
    if killed:
        with pytest.raises(KeyboardInterrupt):
            table.open(1)
        epochs.ensure(1, unmarked=False)
    else:
        table.open(1)
    now = epochs.standing()
    assert now.look is not None
    assert now.look.transactions(PREFIX) == {f"{PREFIX}0": CLOSED, f"{PREFIX}1": 0}
    assert now.marker is not None
    said = next(iter(now.look.commits())).note
    assert said is not None
    assert now.marker.closed == {0: last}
    assert said["closed"] == {"0": last}
    assert epochs.lacks((0, last)) is None


def test_a_table_of_the_catalogue_that_is_not_there_yet_is_opened_by_its_first_batch(tmp_path: Path) -> None:
    made: list[str] = []
    delta_flow = delta_flow_of(TableRef(name="silver.orders"), Mode.APPEND)
    output = DeltaOutput(delta_flow, locate=lambda: made[0] if made else None)
    output.prepare()
    assert (output.is_empty(), output.is_open(0), output.is_open(1)) == (True, True, True)
    output.open_epoch("shop", "silver/orders", 1, None, "again")
    assert output.lacks((0, 1)) == "epoch 0"
    with pytest.raises(OutputDisagrees, match=r"there is no table silver\.orders"):
        output.open_epoch("shop", "silver/orders", 1, (0, 1), "again")
    table = LogTable(Lake("", str(tmp_path / "found")))
    table.commit()
    made.append(f"file:{table.lake.path}")
    assert output.is_open(1)
    assert output._table.opened().epochs.ensure(1, unmarked=True).logged == 0
    assert output.receipt(tag_of(1, epoch=1)) is None
    # Where a batch of an older epoch came first, nobody can tell what it has written.
    other = LogTable(Lake("", str(tmp_path / "late")))
    other.commit(1)
    made[0] = other.lake.path
    assert not output.is_open(1)
    with pytest.raises(OutputDisagrees, match="epoch 1 was never opened"):
        output._table.opened().epochs.ensure(1, unmarked=True)


def test_the_words_of_an_opening_can_be_read_back(table: LogTable) -> None:
    table.commit(4)
    table.open(1, (0, 4))
    table.commit()
    epochs = table.fresh()._table.opened().epochs
    for file in (Path(table.lake.path) / "_tidegauge").iterdir():
        file.unlink()  # a copy of the table may not have it: the log says the same
    opening = epochs.find_opening(epochs.standing(), 1)
    assert opening == DeltaEpochOpening("shop", "silver/orders", 1, (0, 4), "again", closed={0: 4})
    assert table.output.lacks((0, 4)) is None


def test_words_of_an_opening_that_cannot_be_read_stop_the_flow_with_a_hint(table: LogTable) -> None:
    table.commit(1)
    table.open(1, (0, 1))
    for file in (Path(table.lake.path) / "_tidegauge").iterdir():
        file.unlink()
    commit = table.logged()[-1]
    commit.write_text(commit.read_text().replace('\\"emptied\\"', '\\"other\\"'))
    with pytest.raises(OutputDisagrees, match="says of its epochs cannot be read: KeyError") as caught:
        table.fresh().lacks((0, 1))
    assert caught.value.hint
    with pytest.raises(OutputDisagrees, match="says of its epochs cannot be read: KeyError"):
        recall_delta(table.lake, "shop", "silver/orders")


def in_a_bucket(s3: S3, bucket: str) -> Lake:
    return Lake(
        "lake",
        f"s3a://{bucket}/silver/orders",
        endpoint=s3.endpoint,
        region=s3.region,
        access_key=Secret(s3.access_key),
        secret_key=Secret(s3.secret_key),
    )


def test_c7_an_opening_that_a_driver_of_the_old_life_wrote_over_is_put_again_before_a_batch(s3: S3) -> None:
    bucket, client = s3.create_bucket(), s3.client()
    table = LogTable(in_a_bucket(s3, bucket))
    table.commit(1, rows=3)
    table.commit(2, rows=5)
    theirs = {"Bucket": bucket, "Key": f"silver/orders/{commit_path(1)}"}
    body = client.get_object(**theirs)["Body"].read()
    client.delete_object(**theirs)  # it has seen that version 1 is free, and not written it yet
    table.open(1, empty=True)
    assert table.ids() == 0
    client.put_object(**theirs, Body=body)  # Delta's own log store puts without a condition
    assert table.ids() == 8
    with pytest.raises(OutputDisagrees, match="later epoch"):
        table.output.receipt(tag_of(2))
    now = table.fresh()._table.opened().epochs.ensure(1, unmarked=False)
    assert now.look is not None
    assert now.look.transactions(PREFIX) == {f"{PREFIX}0": CLOSED, f"{PREFIX}1": 0}
    assert table.ids() == 0


def test_c7_tags_and_lives_on_s3(s3: S3) -> None:
    bucket = s3.create_bucket()
    lake = in_a_bucket(s3, bucket)
    table = LogTable(lake)
    table.output.prepare()
    assert table.output.is_empty()
    table.commit(1, rows=3)
    assert table.output.receipt(tag_of(1)) is not None
    table.open(1, empty=True)
    assert table.ids() == 0
    table.commit(1, epoch=1)
    assert table.fresh().receipt(tag_of(1, epoch=1)) is not None
    with pytest.raises(OutputUnreachable, match="there is no bucket"):
        LogTable(
            Lake("", f"s3a://{bucket}-not/x", s3.endpoint, s3.region, lake.access_key, lake.secret_key)
        ).output.prepare()
