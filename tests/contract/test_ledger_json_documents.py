"""The documents of a JSON ledger as people and disks meet them: fields, names, damage, lost replies."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.contract.test_objects_probe import liar
from tests.support.drafts import ME, OTHER, draft, nothing_new, position, receipt
from tests.support.json_ledgers import MINUTE, RUN, events, opened, over, ran
from tests.support.servers import S3
from tidegauge.errors import LedgerError, LedgerUnreachable, LedgerVersion, OutputUnreachable
from tidegauge.ledger.document_ledger import DocumentLedger
from tidegauge.ledger.json_document import parse, render
from tidegauge.ledger.open import open_ledger
from tidegauge.model.state import State
from tidegauge.storage.local import LocalFiles

FIELDS = [
    *("table_name", "last_mysql_extraction_time", "last_mysql_data_timestamp", "mysql_rows_extracted"),
    *("mysql_status", "last_redshift_load_time", "redshift_rows_loaded", "redshift_status"),
    *("backup_strategy", "s3_file_count", "processed_s3_files", "processed_s3_file_count"),
    *("last_error", "created_at", "updated_at", "metadata"),
]
"""The fields of a table's summary, in their order, and the count of all the files whose newest are listed."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "ledger"


@pytest.fixture
def ledger(folder: Path) -> Iterator[DocumentLedger]:
    with opened(folder) as found:
        yield found


# --- what people find


def test_a_table_has_one_file_with_document_002s_fields(ledger: DocumentLedger, folder: Path) -> None:
    ran(ledger, "settlement.orders/extract")
    ran(ledger, "settlement.orders/load")
    [file] = (folder / "watermarks").iterdir()
    assert file.name == "settlement.orders.json"
    found = json.loads(file.read_text())
    assert list(found) == [*FIELDS, "tidegauge"]
    assert found["table_name"] == "settlement.orders"
    assert found["last_mysql_data_timestamp"] == "2025-08-14T00:00:02.123456"
    assert (found["mysql_rows_extracted"], found["mysql_status"]) == (1000, "success")
    assert (found["redshift_rows_loaded"], found["redshift_status"]) == (1000, "success")
    assert found["s3_file_count"] == 2
    for name in ("last_mysql_extraction_time", "last_redshift_load_time", "created_at", "updated_at"):
        assert datetime.fromisoformat(found[name]).tzinfo is not None
    assert found["last_error"] is None
    assert found["metadata"]["manual_watermark"] is False
    assert found["metadata"]["average_batch_size"] == 500
    assert found["metadata"]["total_processing_time_seconds"] > 0


def test_each_stage_has_its_own_fields_and_the_files_that_were_loaded(
    ledger: DocumentLedger, folder: Path
) -> None:
    def stage(name: str, *paths: str, strategy: str | None = None) -> None:
        one = replace(draft(f"orders/{name}", batches=1), strategy=strategy)
        plan = ledger.plan([one], owner=ME, run_id="run")[one.flow]
        claim = ledger.claim(plan, owner=ME, run_id="run", lease=MINUTE)
        ledger.begin(claim, 0)
        ledger.advance(claim, 0, receipt(plan, 0, rows=len(paths) or 7, paths=paths))
        ledger.finish(claim, State.SUCCESS)

    def fields() -> dict[str, Any]:
        found: dict[str, Any] = json.loads((folder / "watermarks" / "orders.json").read_text())
        return found

    stage("extract", strategy="inter-table")
    assert (fields()["processed_s3_files"], fields()["processed_s3_file_count"]) == (None, None)
    stage("load", "s3a://lake/raw/a.parquet", "/lake/b.parquet")
    found = fields()
    assert (found["backup_strategy"], found["mysql_rows_extracted"]) == ("inter-table", 7)
    assert (found["redshift_rows_loaded"], found["redshift_status"]) == (2, "success")
    assert found["processed_s3_files"] == ["s3://lake/raw/a.parquet", "/lake/b.parquet"]
    assert found["processed_s3_file_count"] == 2
    begun = ledger.begin_override("shop", "orders/load", "reset", {}, owner=ME, reason="why")
    ledger.end_override("shop", "orders/load", epoch=begun.epoch)
    found = fields()
    assert (found["mysql_rows_extracted"], found["mysql_status"]) == (7, "success")
    assert (found["redshift_rows_loaded"], found["redshift_status"]) == (0, None)
    assert (found["last_redshift_load_time"], found["processed_s3_files"]) == (None, [])


def test_looking_writes_nothing(ledger: DocumentLedger, folder: Path) -> None:
    ran(ledger)
    before = (folder / "watermarks" / "orders.json").read_bytes()
    ledger.status("shop")
    ledger.tallies("shop", ["orders"])
    ledger.history("shop")
    assert (folder / "watermarks" / "orders.json").read_bytes() == before


def test_a_file_of_an_earlier_version_is_read(ledger: DocumentLedger, folder: Path) -> None:
    ran(ledger)
    file = folder / "watermarks" / "orders.json"
    document = parse(file.read_bytes(), "x")
    [stored_flow] = document.stored_flows
    old = {name: value for name, value in stored_flow.body.items() if name not in NEW}
    file.write_bytes(render(replace(document, stored_flows=(replace(stored_flow, body=old),))))
    tally = ledger.tallies("shop", ["orders"])["orders"]
    assert (tally.rows, tally.batches, tally.files, tally.loaded, tally.strategy) == (1000, 2, 2, (), None)
    ran(ledger, start=2)


NEW = ("strategy", "loaded", "loaded_files", "tally_before")
"""What leaves of versions before 0.3 do not have."""


def test_what_is_not_known_is_null(ledger: DocumentLedger, folder: Path) -> None:
    ledger.plan([nothing_new("orders/extract")], owner=ME, run_id="run")
    found = json.loads((folder / "watermarks" / "orders.json").read_text())
    assert (found["mysql_status"], found["metadata"]["mysql_nothing_new"]) == ("success", True)
    assert found["metadata"]["redshift_nothing_new"] is False
    for name in ("last_mysql_data_timestamp", "redshift_status", "redshift_rows_loaded", "backup_strategy"):
        assert found[name] is None


def test_a_failed_run_shows_its_error_and_a_position_set_by_hand_shows_as_such(
    ledger: DocumentLedger, folder: Path
) -> None:
    plan = ledger.plan([draft()], owner=ME, run_id="run")["orders"]
    claim = ledger.claim(plan, owner=ME, run_id="run", lease=MINUTE)
    ledger.finish(claim, State.FAILED, {"type": "SparkFailed", "message": "no room"})
    begun = ledger.begin_override("shop", "orders", "set", {"orders": position(9)}, owner=ME, reason="why")
    ledger.end_override("shop", "orders", epoch=begun.epoch)
    found = json.loads((folder / "watermarks" / "orders.json").read_text())
    assert found["last_error"] == "SparkFailed: no room"
    assert found["metadata"]["manual_watermark"] is True
    assert found["last_mysql_data_timestamp"] == "2025-08-14T00:00:09.123456"


def test_pipelines_that_share_a_table_share_its_file(ledger: DocumentLedger, folder: Path) -> None:
    ran(ledger, pipeline="shop")
    ran(ledger, pipeline="other")
    [file] = (folder / "watermarks").iterdir()
    assert [flow["pipeline"] for flow in json.loads(file.read_text())["tidegauge"]["flows"]] == [
        "shop",
        "other",
    ]
    assert ledger.pipelines() == ["other", "shop"]
    for pipeline in ("shop", "other"):
        [status] = ledger.status(pipeline)
        assert (status.state, status.fence) == (State.SUCCESS, 1)


def test_the_version_in_a_file_grows_with_every_save(ledger: DocumentLedger, folder: Path) -> None:
    file = folder / "watermarks" / "orders.json"
    seen = []
    for number in range(5):
        ledger.note("shop", "orders", "noted", owner=ME, reason=str(number))
        seen.append(json.loads(file.read_text())["tidegauge"]["version"])
    assert seen == sorted(set(seen))


def test_a_note_about_a_flow_that_never_ran_makes_no_flow(ledger: DocumentLedger) -> None:
    ledger.note("shop", "orders", "files_cleaned", owner=ME, reason="small disk")
    assert not ledger.status("shop")
    assert not ledger.watermarks("shop")
    assert events(ledger) == ["files_cleaned"]


# --- names

AWKWARD = [
    "../../etc/passwd",
    "/etc/passwd",
    "a/b/extract",
    ".hidden",
    "x" * 500,
    "q\"uo'te",
    "🌊 表",
    "a\nb",
    "",
]


@pytest.mark.parametrize("name", AWKWARD, ids=repr)
def test_e4_no_name_leads_out_of_the_folder(ledger: DocumentLedger, folder: Path, name: str) -> None:
    ledger.plan([draft(name or "/load")], owner=ME, run_id="run")
    [file] = (folder / "watermarks").iterdir()
    assert file.name.endswith(".json")
    assert not file.name.startswith(".")
    assert sorted(one.name for one in folder.iterdir()) == ["tidegauge.json", "watermarks"]
    assert len(ledger.status("shop")) == 1


class CaseFolding:
    """A file system that does not tell capitals apart, as on Windows and macOS."""

    def __init__(self, store: LocalFiles) -> None:
        self.store = store

    def __getattr__(self, name: str) -> Any:
        asked = getattr(self.store, name)
        if name not in ("get", "read", "replace", "put_if_absent"):
            return asked
        return lambda path, *more, **options: asked(path.lower(), *more, **options)


def test_names_that_differ_by_case_stay_apart_where_files_do_not(folder: Path) -> None:
    opened(folder).close()
    ledger = over(CaseFolding(LocalFiles(str(folder))))
    answer = ledger.plan([draft("Orders"), draft("orders"), draft("ORDERS")], owner=ME, run_id="run")
    assert len({plan.plan_id for plan in answer.values()}) == 3
    assert len(list((folder / "watermarks").iterdir())) == 1
    for name in ("Orders", "orders"):
        claim = ledger.claim(answer[name], owner=ME, run_id="run", lease=MINUTE)
        ledger.begin(claim, 0)
        ledger.advance(claim, 0, receipt(claim.plan, 0))
    assert [(mark.flow, mark.seq) for mark in ledger.watermarks("shop")] == [
        ("ORDERS", 0),
        ("Orders", 1),
        ("orders", 1),
    ]
    assert [mark.seq for mark in ledger.watermarks("shop", ["ORDERS", "orders"])] == [0, 1]


def test_a_copy_that_somebody_left_beside_a_file_is_not_taken_for_it(
    ledger: DocumentLedger, folder: Path
) -> None:
    ran(ledger)
    shutil.copy(folder / "watermarks" / "orders.json", folder / "watermarks" / "orders (old).json")
    ran(ledger, start=2)
    [mark] = ledger.watermarks("shop")
    assert mark.seq == 4


# --- damage


def cut(body: bytes) -> bytes:
    return body[: len(body) // 2]


def edited(body: bytes) -> bytes:
    assert body.count(b'"fence": 1') > 0
    return body.replace(b'"fence": 1', b'"fence": 2')


def edited_for_people(body: bytes) -> bytes:
    return body.replace(b'"mysql_rows_extracted": 1000', b'"mysql_rows_extracted": 999')


def flow_removed(body: bytes) -> bytes:
    found = json.loads(body)
    found["tidegauge"]["flows"] = []
    return json.dumps(found).encode()


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "cut off": cut,
    "empty": lambda _: b"",
    "zeros": lambda body: bytes(len(body)),
    "edited": edited,
    "edited for people": edited_for_people,
    "another document": lambda _: b'{"hello": 1}',
    "a list": lambda _: b"[]",
    "flow removed": flow_removed,
    "UTF-16": lambda body: body.decode().replace("orders", "order", 1).encode("utf-16"),
    "a line more": lambda body: body.replace(b"    ]\n  }\n}", b'    ],\n    "flows": []\n  }\n}'),
    "not UTF-8": lambda body: body.replace(b"orders", b"\xff\xfe"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_b6_a_file_torn_or_edited_by_hand_is_named_and_left_alone(
    ledger: DocumentLedger, folder: Path, damage: str
) -> None:
    ran(ledger)
    ran(ledger, "customers")
    file = folder / "watermarks" / "orders.json"
    broken = DAMAGE[damage](file.read_bytes())
    assert broken != file.read_bytes()
    file.write_bytes(broken)
    asks: list[Callable[[], object]] = [
        lambda: ledger.status("shop"),
        lambda: ledger.watermarks("shop", ["orders"]),
        lambda: ledger.plan([draft(start=2)], owner=ME, run_id="run"),
        lambda: ledger.note("shop", "orders", "noted", owner=ME, reason="why"),
        lambda: opened(folder).status("shop"),
    ]
    for ask in asks:
        with pytest.raises(LedgerError) as caught:
            ask()
        assert str(file) in caught.value.message
        assert "\n" not in caught.value.message
        assert caught.value.hint is not None
        assert "bring back a copy" in caught.value.hint
        assert not caught.value.retryable
    assert file.read_bytes() == broken
    # Other tables are not held up.
    ran(ledger, "customers", start=2)
    assert [mark.seq for mark in ledger.watermarks("shop", ["customers"])] == [4]


def test_a_file_that_is_only_laid_out_anew_is_still_good(ledger: DocumentLedger, folder: Path) -> None:
    ran(ledger)
    file = folder / "watermarks" / "orders.json"
    file.write_text(json.dumps(json.loads(file.read_text()), indent=8))
    ran(ledger, start=2)
    assert ledger.watermarks("shop")[0].seq == 4


def test_a_damaged_file_that_is_moved_aside_lets_the_table_begin_anew(
    ledger: DocumentLedger, folder: Path
) -> None:
    ran(ledger)
    file = folder / "watermarks" / "orders.json"
    file.write_bytes(cut(file.read_bytes()))
    aside = file.rename(file.with_suffix(".json.torn"))
    assert ledger.status("shop") == []
    # What had been moved to the logs is still told, and what happens now comes after it.
    ran(ledger)
    assert events(ledger) == RUN * 2
    assert aside.exists()


def test_a_ledger_of_newer_code_is_refused(ledger: DocumentLedger, folder: Path) -> None:
    ran(ledger)
    file = folder / "watermarks" / "orders.json"
    file.write_bytes(file.read_bytes().replace(b'"format": 1', b'"format": 2'))
    with pytest.raises(LedgerVersion, match="format 2") as caught:
        ledger.status("shop")
    assert caught.value.hint
    mark = folder / "tidegauge.json"
    mark.write_bytes(mark.read_bytes().replace(b'"format": 1', b'"format": 9'))
    for create in (True, False):
        with pytest.raises(LedgerVersion, match="format 9"):
            open_ledger(f"json:{folder}", create=create)


def test_a_ledger_that_lost_its_mark_is_still_found(ledger: DocumentLedger, folder: Path) -> None:
    ran(ledger)
    (folder / "tidegauge.json").unlink()
    for create in (False, True):
        with open_ledger(f"json:{folder}", create=create) as found:
            assert [status.state for status in found.status("shop")] == [State.SUCCESS]


# --- stores that fail


class Losing:
    """A store whose answers are lost: what is asked is done, and then the line is dead, for a while."""

    def __init__(self, store: LocalFiles) -> None:
        self.store = store
        self.lost = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def replace(self, path: str, body: bytes, token: str | None) -> str | None:
        answer = self.store.replace(path, body, token)
        if self.lost:
            self.lost -= 1
            raise OutputUnreachable("the connection was reset")
        return answer


def test_b3_a_save_whose_answer_was_lost_is_looked_for(folder: Path) -> None:
    opened(folder).close()
    store = Losing(LocalFiles(str(folder)))
    ledger = over(store)
    plan = ledger.plan([draft(batches=1)], owner=ME, run_id="run")["orders"]
    store.lost = 1
    claim = ledger.claim(plan, owner=ME, run_id="run", lease=MINUTE)
    store.lost = 1
    ledger.begin(claim, 0)
    store.lost = 1
    ledger.advance(claim, 0, receipt(plan, 0))
    store.lost = 1
    ledger.finish(claim, State.SUCCESS)
    assert events(ledger) == ["planned", "claimed", "advanced", "finished"]
    assert ledger.status("shop")[0].fence == 1


class Full(Losing):
    def replace(self, path: str, body: bytes, token: str | None) -> str | None:
        raise OutputUnreachable("no space is left to write it", hint="free some space")


def test_a_full_disk_is_one_clear_sentence_and_changes_nothing(ledger: DocumentLedger, folder: Path) -> None:
    ran(ledger)
    full = over(Full(LocalFiles(str(folder))))
    with pytest.raises(LedgerUnreachable, match="no space is left") as caught:
        full.plan([draft(start=2)], owner=ME, run_id="run")
    assert caught.value.retryable
    assert ledger.status("shop")[0].state is State.SUCCESS


def test_c7_a_store_that_does_not_honour_conditional_puts_is_refused(
    s3: S3, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3.secret_key)
    with liar("races") as endpoint:
        address = f"json:s3a://bucket/ledger?endpoint={endpoint}&region=eu-central-1"
        with pytest.raises(LedgerError, match="If-Match") as caught:
            open_ledger(address, create=True)
        assert caught.value.hint


# --- plans and clocks


def test_a_plan_is_found_by_its_name_while_it_runs_and_after(ledger: DocumentLedger) -> None:
    plan = ledger.plan([draft(batches=1), draft("b")], owner=ME, run_id="run")["orders"]
    assert ledger.find_plan(plan.plan_id) == ("shop", "orders", True)
    claim = ledger.claim(plan, owner=ME, run_id="run", lease=MINUTE)
    ledger.begin(claim, 0)
    ledger.advance(claim, 0, receipt(plan, 0))
    ledger.finish(claim, State.SUCCESS)
    assert ledger.find_plan(plan.plan_id) == ("shop", "orders", False)
    assert ledger.find_plan("nobody's") is None


@pytest.mark.parametrize("behind", [timedelta(seconds=2), timedelta(seconds=-2)])
def test_b9_two_who_know_the_stores_clock_only_roughly_tell_one_story(
    ledger: DocumentLedger, folder: Path, monkeypatch: pytest.MonkeyPatch, behind: timedelta
) -> None:
    other = opened(folder)
    now = other._documents.now
    monkeypatch.setattr(other._documents, "now", lambda: now() - behind)
    plan = ledger.plan([draft(batches=4)], owner=ME, run_id="run")["orders"]
    for index, one in enumerate((ledger, other, ledger, other)):
        claim = one.claim(plan, owner=ME, run_id="run", lease=timedelta(0), dead=ME)
        one.begin(claim, index)
        one.advance(claim, index, receipt(plan, index))
    moved = [event for event in reversed(ledger.history("shop", limit=100)) if event.event == "advanced"]
    assert [event.after for event in moved] == [position(number) for number in range(1, 5)]


def test_a_clock_that_was_far_ahead_does_not_hold_a_flow_once_it_is_right_again(
    ledger: DocumentLedger, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = opened(folder)
    now = wrong._documents.now
    monkeypatch.setattr(wrong._documents, "now", lambda: now() + timedelta(days=1))
    plan = wrong.plan([draft()], owner=ME, run_id="run")["orders"]
    claim = ledger.claim(plan, owner=OTHER, run_id="run 2", lease=MINUTE)
    assert abs(claim.lease_until - ledger.now()) < 2 * MINUTE
