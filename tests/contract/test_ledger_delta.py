"""The Delta shelf by itself: compare-and-set, logs, files, on a local folder and on S3."""

from __future__ import annotations

import json
import multiprocessing
import os
import statistics
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.support import processes
from tests.support.ledgers import timed
from tests.support.servers import S3
from tidegauge.delta_log.delta_rs import address, options
from tidegauge.errors import ConfigError, LedgerError, LedgerUnreachable, LedgerVersion
from tidegauge.ledger.delta_store import DeltaDocumentStore
from tidegauge.ledger.document_store import StoredFlow, WriterCameBetween
from tidegauge.model.secret import Secret
from tidegauge.model.spec import Lake
from tidegauge.storage.clock import steady

ODD = ["a/b/../c", 'it\'s "quoted"', "x%20y", "ünïcode😀", "a.b", "  ", "pipeline_name=a", "n" * 500]


@pytest.fixture(params=["local", "s3"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    if request.param == "local":
        return Lake("ledger", str(tmp_path / "made" / "later"))
    return on_s3(request.getfixturevalue("s3"))


def on_s3(s3: S3) -> Lake:
    keys = Secret(s3.access_key), Secret(s3.secret_key)
    return Lake("ledger", f"s3a://{s3.create_bucket()}/ops/ledger", s3.endpoint, s3.region, *keys)


@pytest.fixture
def documents(lake: Lake) -> Iterator[DeltaDocumentStore]:
    found = opened(lake)
    yield found
    found.close()


def opened(lake: Lake) -> DeltaDocumentStore:
    found = DeltaDocumentStore.open(lake, shown=lake.path, create=True)
    assert found is not None
    return found


def stored_flow(pipeline: str, flow: str, number: int = 0, **row: Any) -> StoredFlow:
    shown = {"state": "RUNNING", "created_at": "2026-01-01T00:00:00.000000"}
    shown |= {"updated_at": "2026-01-01T00:00:01.000000"}
    return StoredFlow(pipeline, flow, {"number": number}, shown | timed(row))


def entry(number: int, flow: str = "f", pipeline: str = "p", **more: Any) -> dict[str, Any]:
    at = (datetime(2026, 1, 1) + timedelta(seconds=number)).isoformat(timespec="microseconds")
    body = {"id": f"{flow}-{number}", "pipeline": pipeline, "flow": flow, "n": number, "at": at}
    return body | {"kind": "planned"} | more


def table(lake: Lake, name: str) -> DeltaTable:
    path = Lake("", f"{lake.path}/{name}", lake.endpoint, lake.region, lake.access_key, lake.secret_key)
    return DeltaTable(address(path), storage_options=options(path))


def rows(lake: Lake) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table(lake, "watermarks").to_pyarrow_table().to_pylist()
    return sorted(found, key=lambda row: row["watermark_id"])


def test_nothing_is_made_unless_asked_for(lake: Lake) -> None:
    assert DeltaDocumentStore.open(lake, shown="x", create=False) is None
    opened(lake)
    assert DeltaDocumentStore.open(lake, shown="x", create=False) is not None


def test_a_leaf_comes_back_as_it_was_saved(documents: DeltaDocumentStore, lake: Lake) -> None:
    documents.save(documents.load("p", ["f"]), [stored_flow("p", "f", 1)])
    for found in (documents, opened(lake)):
        assert found.load("p").stored_flows["f"].body == {"number": 1}
        assert found.load("p", ["other"]).stored_flows == {}
        assert found.load("q").stored_flows == {}
        assert found.pipelines() == ["p"]


def test_a_save_is_refused_once_anybody_has_committed(documents: DeltaDocumentStore, lake: Lake) -> None:
    first = documents.load("p", ["f"])
    opened(lake).save(opened(lake).load("q"), [stored_flow("q", "another")])
    with pytest.raises(WriterCameBetween):
        documents.save(first, [stored_flow("p", "f", 1)])
    assert documents.load("p").stored_flows == {}
    documents.save(documents.load("p", ["f"]), [stored_flow("p", "f", 2)])
    with pytest.raises(WriterCameBetween):
        documents.save(first, [stored_flow("p", "f", 3)])
    assert documents.load("p").stored_flows["f"].body == {"number": 2}


def test_a_load_by_another_thread_does_not_let_a_stale_save_through(
    documents: DeltaDocumentStore, lake: Lake
) -> None:
    stale = documents.load("p", ["f"])
    other = opened(lake)
    other.save(other.load("p", ["f"]), [stored_flow("p", "f", 1)])
    documents.load("p")  # the shelf itself now knows the newest version; the save must not be built on that
    with pytest.raises(WriterCameBetween):
        documents.save(stale, [stored_flow("p", "f", 2)])


def test_a_save_of_many_leaves_is_one_commit(documents: DeltaDocumentStore, lake: Lake) -> None:
    before = table(lake, "watermarks").version()
    documents.save(documents.load("p"), [stored_flow("p", f"f{number}", number) for number in range(300)])
    assert table(lake, "watermarks").version() == before + 1
    assert len(table(lake, "watermarks").file_uris()) == 1
    for number in range(0, 300, 7):
        documents.save(documents.load("p", [f"f{number}"]), [stored_flow("p", f"f{number}", -number)])
    found = opened(lake).load("p").stored_flows
    assert {flow: one.body["number"] for flow, one in found.items()} == {
        f"f{number}": -number if number % 7 == 0 else number for number in range(300)
    }


def test_flows_that_come_one_by_one_do_not_leave_a_file_each(
    documents: DeltaDocumentStore, lake: Lake
) -> None:
    for number in range(60):
        documents.save(documents.load("p", [f"f{number}"]), [stored_flow("p", f"f{number}", number)])
    assert len(opened(lake).load("p").stored_flows) == 60
    assert len(table(lake, "watermarks").file_uris()) < 30


@pytest.mark.parametrize("name", ODD)
def test_any_name_is_a_pipeline_and_a_flow(documents: DeltaDocumentStore, lake: Lake, name: str) -> None:
    documents.save(documents.load(name), [stored_flow(name, name, 1)])
    documents.save(documents.load(name, [name]), [stored_flow(name, name, 2)])
    again = opened(lake)
    assert again.pipelines() == [name]
    assert again.load(name, [name]).stored_flows[name].body == {"number": 2}
    assert [(row["pipeline_name"], row["flow"]) for row in rows(lake)] == [(name, name)]
    documents.append("history", [entry(1, name, name)])
    assert again.read("history", name, flow=name)[0]["flow"] == name


def test_the_table_has_the_trackers_columns_with_more_behind(
    documents: DeltaDocumentStore, lake: Lake
) -> None:
    schema = table(lake, "watermarks").schema()
    nine = [(one.name, one.type.type) for one in schema.fields[:9]]
    assert nine == [
        ("watermark_id", "integer"),
        ("pipeline_name", "string"),
        ("job_id", "string"),
        ("last_processed_ts", "timestamp"),
        ("current_run_ts", "timestamp"),
        ("last_processed_version", "long"),
        ("status", "string"),
        ("created_at", "timestamp"),
        ("updated_at", "timestamp"),
    ]
    assert table(lake, "watermarks").metadata().partition_columns == ["pipeline_name"]
    assert [one.name for one in schema.fields[9:]] == [
        "error_message",
        "run_duration",
        "records_processed",
        "flow",
        "run_id",
        "ledger",
    ]


def test_a_record_ends_and_the_next_one_is_ready_in_the_same_commit(
    documents: DeltaDocumentStore, lake: Lake
) -> None:
    def save(**row: Any) -> None:
        documents.save(documents.load("p", ["f"]), [stored_flow("p", "f", 0, cursor="timestamp", **row)])

    end = "2026-01-01 10:00:00.000000"
    begun = {"run_id": "r1", "started_at": "2026-01-01T10:00:01.000000"}
    save(state="PLANNED", upto=end)
    save(state="RUNNING", run_state="RUNNING", upto=end, **begun)
    save(state="FAILED", run_state="FAILED", upto=end, error="no luck", **begun)
    (failed,) = rows(lake)
    assert (failed["status"], failed["error_message"], failed["watermark_id"]) == ("FAILED", "no luck", 1)
    save(state="RUNNING", run_state="RUNNING", upto=end, **begun)
    version = table(lake, "watermarks").version()
    done = {"run_state": "SUCCESS", "position": end, "ended_at": "2026-01-01T10:00:03.500000", "rows": 7}
    save(state="SUCCESS", **begun, **done)
    assert table(lake, "watermarks").version() == version + 1
    save(state="SUCCESS", **begun, **done)  # as when the outbox is emptied
    ended, ready = rows(lake)
    assert (ended["watermark_id"], ended["status"], ended["job_id"]) == (1, "SUCCESS", "r1")
    assert (ended["run_duration"], ended["records_processed"]) == (2.5, 7)
    assert (ended["last_processed_ts"], f"{ended['current_run_ts']:%H:%M}") == (None, "10:00")
    assert (ready["watermark_id"], ready["status"], ready["current_run_ts"]) == (2, "READY", None)
    assert ready["last_processed_ts"] == ended["current_run_ts"]
    assert (ended["ledger"], json.loads(ready["ledger"])) == (None, {"number": 0})


def test_many_ended_records_share_few_files(documents: DeltaDocumentStore, lake: Lake) -> None:
    for number in range(40):
        run = {"run_id": f"r{number}", "run_state": "SUCCESS"}
        documents.save(documents.load("p", ["f"]), [stored_flow("p", "f", number, state="SUCCESS", **run)])
    assert [row["watermark_id"] for row in rows(lake)] == list(range(1, 42))
    assert len(table(lake, "watermarks").file_uris()) < 20


def test_an_entry_that_is_appended_again_is_there_once(documents: DeltaDocumentStore, lake: Lake) -> None:
    documents.append("history", [entry(1), entry(2)])
    documents.append("history", [entry(1), entry(2), entry(3), entry(1, "g")])
    again = opened(lake)
    again.append("history", [entry(2), entry(3)])
    assert [one["n"] for one in again.read("history", "p")] == [3, 2, 1, 1]
    assert [one["n"] for one in again.read("history", "p", flow="f")] == [3, 2, 1]
    assert again.read("runs", "p") == []


def test_a_log_is_read_newest_first_by_flow_kind_and_limit(documents: DeltaDocumentStore) -> None:
    for number in range(1, 41):
        kind = "failed" if number % 10 == 0 else "planned"
        documents.append("history", [entry(number, f"f{number % 2}", kind=kind, note={"ü": number})])
    assert [one["n"] for one in documents.read("history", "p", limit=3)] == [40, 39, 38]
    assert [one["n"] for one in documents.read("history", "p", flow="f1", limit=2)] == [39, 37]
    assert [one["n"] for one in documents.read("history", "p", kinds=["failed"])] == [40, 30, 20, 10]
    assert documents.read("history", "p", limit=1) == [entry(40, "f0", kind="failed", note={"ü": 40})]
    assert len(documents.read("history", "p")) == 40
    assert documents.read("history", "q") == []


def test_what_is_pruned_is_gone_and_does_not_come_back(documents: DeltaDocumentStore) -> None:
    documents.append("history", [entry(number) for number in range(1, 11)])
    limit = datetime(2026, 1, 1) + timedelta(seconds=6)
    assert documents.prune("history", "p", limit, keep={"f-2"}) == 4
    assert [one["n"] for one in documents.read("history", "p")] == [10, 9, 8, 7, 6, 2]
    documents.append("history", [entry(3), entry(11)])
    assert [one["n"] for one in documents.read("history", "p")] == [11, 10, 9, 8, 7, 6, 2]


def test_tidy_removes_what_no_row_is_in_and_nothing_else(documents: DeltaDocumentStore, lake: Lake) -> None:
    for number in range(5):
        documents.save(documents.load("p", ["f"]), [stored_flow("p", "f", number)])
    assert documents.tidy() == 0
    assert documents.tidy(older_than=timedelta(seconds=-60)) == 4
    assert opened(lake).load("p").stored_flows["f"].body == {"number": 4}


def test_a_file_that_was_just_removed_stays_however_old_it_is(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process may have looked before it was removed, and be about to read it."""
    writer, reader = opened(lake), opened(lake)
    writer.save(writer.load("p", ["f"]), [stored_flow("p", "f", 1)])
    [looked] = [one for one in reader._tables if one.name == "watermarks"]
    snapshot = looked.newest()
    eight_days_later(monkeypatch, writer)
    writer.save(writer.load("p", ["f"]), [stored_flow("p", "f", 2)])
    assert writer.tidy() == 0
    for file in snapshot.files.values():
        assert looked.get(file)
    for number in range(60):  # by now the log has a checkpoint
        writer.save(writer.load("p", ["f"]), [stored_flow("p", "f", number)])
    assert writer.tidy() == 0
    eight_days_later(monkeypatch, writer)
    assert writer.tidy() == 61
    assert opened(lake).load("p").stored_flows["f"].body == {"number": 59}


def eight_days_later(monkeypatch: pytest.MonkeyPatch, documents: DeltaDocumentStore) -> None:
    now = documents._clock.now
    monkeypatch.setattr(documents._clock, "now", lambda: now() + timedelta(days=8))


def test_b8_a_save_that_slept_too_long_is_refused_without_a_look(documents: DeltaDocumentStore) -> None:
    """After days the log may have forgotten the commit that another made in its place."""
    loaded = documents.load("p", ["f"])
    long_ago = replace(loaded.token.snapshot, seen=steady() - 7200)
    with pytest.raises(WriterCameBetween):
        documents.save(
            replace(loaded, token=replace(loaded.token, snapshot=long_ago)), [stored_flow("p", "f", 1)]
        )
    documents.save(loaded, [stored_flow("p", "f", 1)])


def test_old_commits_are_cleaned_away_and_nobody_misses_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake("ledger", str(tmp_path / "ledger"))
    documents = opened(lake)
    for number in range(60):
        documents.save(documents.load("p", ["f"]), [stored_flow("p", "f", number)])
    for path in tmp_path.rglob("*"):
        if path.is_file():
            os.utime(path, (time.time() - 10 * 86400,) * 2)
    eight_days_later(monkeypatch, documents)
    assert documents.tidy() == 59
    assert not (tmp_path / "ledger" / "watermarks" / "_delta_log" / f"{20:020}.json").exists()
    for found in (documents, opened(lake)):
        found.save(found.load("p", ["g"]), [stored_flow("p", "g", 1)])
        assert found.load("p").stored_flows["f"].body == {"number": 59}


def test_a_forked_process_is_told_so(tmp_path: Path) -> None:
    lake = Lake("ledger", str(tmp_path / "ledger"))
    opened(lake)

    def forked() -> str:
        with pytest.raises(LedgerError) as caught:
            opened(lake)
        return str(caught.value.hint)

    assert "spawn" in processes.run(forked)


def test_a_checkpoint_is_made_now_and_then(documents: DeltaDocumentStore, lake: Lake) -> None:
    for number in range(55):
        documents.save(documents.load("p", ["f"]), [stored_flow("p", "f", number)])
        documents.append("runs", [entry(number + 1)])
    found = [one.path for one in documents._store.list("watermarks/_delta_log")]
    assert any(path.endswith("50.checkpoint.parquet") for path in found)
    again = opened(lake)
    again.append("runs", [entry(50), entry(56)])
    assert len(again.read("runs", "p")) == 56
    assert again.load("p").stored_flows["f"].body == {"number": 54}


def test_a_table_with_a_newer_protocol_is_refused(documents: DeltaDocumentStore, lake: Lake) -> None:
    for protocol in (
        {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["x"], "writerFeatures": ["x"]},
        {"minReaderVersion": 9, "minWriterVersion": 9},
    ):
        version = documents._watermarks.newest().version + 1 if protocol["minReaderVersion"] == 3 else 2
        path = f"watermarks/_delta_log/{version:020}.json"
        assert documents._store.put_if_absent(path, json.dumps({"protocol": protocol}).encode())
        for act in (lambda: opened(lake), lambda: documents.load("p")):
            with pytest.raises(LedgerVersion) as caught:
                act()
            assert lake.path in caught.value.message
            assert caught.value.hint


@pytest.mark.parametrize(
    "feature",
    ["catalogManaged", "catalogManaged-preview", "catalogOwned-preview", "coordinatedCommits-preview"],
)
def test_b18_a_ledger_whose_commits_go_through_a_catalogue_is_refused(
    documents: DeltaDocumentStore, lake: Lake, feature: str
) -> None:
    protocol: dict[str, Any] = {"minReaderVersion": 3, "minWriterVersion": 7}
    protocol |= {"readerFeatures": [feature], "writerFeatures": [feature]}
    path = f"watermarks/_delta_log/{documents._watermarks.newest().version + 1:020}.json"
    assert documents._store.put_if_absent(path, json.dumps({"protocol": protocol}).encode())
    for act in (lambda: opened(lake), lambda: documents.load("p")):
        with pytest.raises(LedgerError, match="through a catalogue") as caught:
            act()
        assert feature in caught.value.message
        assert lake.path in caught.value.message


def test_a_delta_table_of_somebody_else_is_not_taken_for_a_ledger(lake: Lake) -> None:
    path = Lake("", f"{lake.path}/watermarks", lake.endpoint, lake.region, lake.access_key, lake.secret_key)
    if not lake.on_s3:
        Path(path.path).mkdir(parents=True)
    write_deltalake(address(path), pa.table({"x": [1]}), storage_options=options(path))
    with pytest.raises(LedgerError) as caught:
        opened(lake)
    assert "none that Tidegauge made" in caught.value.message


@pytest.mark.parametrize("name", ["a%20b", "back\\slash"])
def test_a_path_that_delta_rs_would_take_for_another_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        opened(Lake("ledger", str(tmp_path / name)))
    assert name in caught.value.message
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_commit_is_named(documents: DeltaDocumentStore, lake: Lake) -> None:
    documents._store.put_if_absent(f"watermarks/_delta_log/{1:020}.json", b'{"add": {"pa')
    with pytest.raises(LedgerError) as caught:
        documents.load("p")
    assert "commit 1" in caught.value.message
    with pytest.raises(LedgerError):
        opened(lake)


def test_a_bucket_that_is_not_there_and_a_server_that_is_not(s3: S3) -> None:
    keys = Secret(s3.access_key), Secret(s3.secret_key)
    for lake in (
        Lake("ledger", "s3a://no-such-bucket-here/x", s3.endpoint, s3.region, *keys),
        Lake("ledger", "s3a://bucket/x", "http://127.0.0.1:9", s3.region, *keys),
    ):
        with pytest.raises(LedgerUnreachable) as caught:
            opened(lake)
        assert caught.value.hint
        assert s3.secret_key not in str(caught.value.detail)


Where = tuple[str, str | None, str | None, str | None, str | None]


def _plain(lake: Lake) -> Where:
    """As plain values: a secret does not travel between processes."""
    keys = [key.reveal() if key else None for key in (lake.access_key, lake.secret_key)]
    return lake.path, lake.endpoint, lake.region, keys[0], keys[1]


def _count_up(where: Where, flow: str, times: int) -> None:
    path, endpoint, region, access, secret = where
    keys = Secret(access) if access else None, Secret(secret) if secret else None
    documents = opened(Lake("ledger", path, endpoint, region, *keys))
    for _ in range(times):
        mine = uuid.uuid4().hex
        while True:
            try:
                loaded = documents.load("p", [flow])
                body = loaded.stored_flows[flow].body if flow in loaded.stored_flows else {"number": 0}
                if body.get("by") == mine:
                    break  # the answer to our save was lost, but not the save
                new = stored_flow("p", flow)
                documents.save(loaded, [replace(new, body={"number": body["number"] + 1, "by": mine})])
                break
            except (WriterCameBetween, LedgerUnreachable):
                time.sleep(0.001)


@pytest.mark.shown_on("local")
def test_b6_processes_that_count_together_lose_no_step(lake: Lake) -> None:
    """Eight writers of one table, six of them of the same flow: each save is seen by the next."""
    opened(lake)
    each = 8 if lake.on_s3 else 12
    spawn = multiprocessing.get_context("spawn")
    runners = [
        spawn.Process(target=_count_up, args=(_plain(lake), flow, each)) for flow in ["f"] * 6 + ["g", "h"]
    ]
    for runner in runners:
        runner.start()
    for runner in runners:
        runner.join(120)
        assert runner.exitcode == 0
    found = opened(lake).load("p").stored_flows
    assert {flow: one.body["number"] for flow, one in found.items()} == {"f": 6 * each, "g": each, "h": each}
    assert table(lake, "watermarks").version() == 8 * each
    assert len(rows(lake)) == 3
    if not lake.on_s3:
        # Whoever lost a race has cleared away what it had written for it.
        written = Path(lake.path, "watermarks").glob("*/current-*.parquet")
        assert len(list(written)) == 8 * each


def test_a_save_costs_no_more_than_three_bare_commits(tmp_path: Path) -> None:
    """A bare commit is delta-rs's own, made as durable as ours, which it does not do by itself."""
    documents = opened(Lake("ledger", str(tmp_path / "ledger")))
    frame = pa.table({"pipeline_name": ["p"], "body": ["x" * 2000]})
    bare = DeltaTable.create(tmp_path / "bare", frame.schema, partition_by=["pipeline_name"])
    log, data = tmp_path / "bare" / "_delta_log", tmp_path / "bare" / "pipeline_name=p"
    synced: set[Path] = set()

    def sync(path: Path) -> None:
        handle = os.open(path, os.O_RDONLY)
        os.fsync(handle)
        os.close(handle)

    def commit(_: int) -> None:
        write_deltalake(bare, frame, mode="append")
        for path in {*log.glob("*.json"), *data.iterdir()} - synced:
            sync(path)
            synced.add(path)
        sync(log)
        sync(data)

    def median(act: Callable[[int], None]) -> float:
        taken = []
        for number in range(40):
            started = time.perf_counter()
            act(number)
            taken.append(time.perf_counter() - started)
        return statistics.median(taken)

    ours = median(lambda number: documents.save(documents.load("p", ["f"]), [stored_flow("p", "f", number)]))
    theirs = median(commit)
    print(f"save {ours * 1000:.1f} ms, bare commit {theirs * 1000:.1f} ms")
    assert ours < 3 * theirs
