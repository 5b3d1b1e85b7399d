"""Tags in the log of a Delta table, found without Spark."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.support.delta_log_table import LogTable
from tests.support.delta_output import batch_of, tag_of
from tidegauge.delta_log.application import application, epoch_of, prefix_of
from tidegauge.delta_log.log import ListedLog
from tidegauge.delta_log.snapshot import Log
from tidegauge.delta_log.write import commit_info, put_commit
from tidegauge.errors import OutputDisagrees, OutputUnreachable
from tidegauge.model.plan import Tag
from tidegauge.model.spec import Lake
from tidegauge.storage.store import open_store

PREFIX = prefix_of("shop", "silver/orders")


@pytest.fixture
def table(tmp_path: Path) -> LogTable:
    return LogTable(Lake("", str(tmp_path / "made later" / "o'rders ä")))


def test_names_of_applications_stay_apart_whatever_flows_are_called() -> None:
    names = [("a/b", "c"), ("a", "b/c"), ("a%2Fb", "c"), ("a", "c"), ("a", "c/1")]
    assert len({prefix_of(*name) for name in names}) == len(names)
    assert application(Tag("a/b", "50%", 3, 1)) == "tidegauge/a%2Fb/50%25/3"
    assert epoch_of(application(Tag("a", "1/2", 7, 1))) == 7


def test_b2_a_tag_is_found_among_the_commits_of_others(table: LogTable) -> None:
    assert (table.output.receipt(tag_of(1)), table.output.is_empty(), table.output.layout()) == (
        None,
        True,
        None,
    )
    table.commit(1, rows=2)
    table.commit()
    table.commit(2)
    for _ in range(3):
        table.commit()
    for output in (table.output, table.fresh()):
        found = [output.receipt(tag_of(seq)) for seq in (1, 2, 3)]
        assert [one.windows if one else None for one in found] == [
            batch_of(1).windows,
            batch_of(2).windows,
            None,
        ]
        assert found[1] is not None
        assert found[1].run_id == "run 2"
        assert not output.is_empty()
    fields = table.output.layout()
    assert fields is not None
    assert [(one.name, one.type) for one in fields] == [("id", "bigint")]


def test_a_table_of_somebody_else_is_not_empty_and_has_no_tag(table: LogTable) -> None:
    for _ in range(3):
        table.commit()
    assert not table.output.is_empty()
    assert table.output.receipt(tag_of(1)) is None
    assert table.output.is_open(0)


def test_b3_a_tag_outlives_the_commit_that_brought_it(table: LogTable) -> None:
    from deltalake import DeltaTable

    for seq in (1, 2, 3):
        table.commit(seq)
    table.commit()
    DeltaTable(table.lake.path).create_checkpoint()
    table.commit()
    for version, file in enumerate(table.logged()[:4]):
        assert int(file.stem) == version
        file.unlink()
    output = table.fresh()
    found = output.receipt(tag_of(3))
    assert found is not None
    assert found.windows == ()  # nobody knows any more; whoever compares them refuses
    assert output.receipt(tag_of(4)) is None
    assert output.lacks((0, 3)) is None
    assert output.lacks((0, 4)) == "batch 4 of epoch 0"
    assert not output.is_empty()
    fields = output.layout()
    assert fields is not None
    assert fields[0].name == "id"


@pytest.mark.parametrize("other", [{"deletes": True}, {"nulls": True}, {"empties_output": True}])
def test_a_batch_of_the_same_window_that_does_something_else_is_another_one(
    table: LogTable, other: dict[str, Any]
) -> None:
    table.commit(1)
    ours = batch_of(1)
    found = table.fresh().receipt(tag_of(1), like=ours)
    assert found is not None
    assert found.windows == ours.windows
    with pytest.raises(OutputDisagrees, match="another window") as refused:
        table.fresh().receipt(tag_of(1), like=replace(ours, **other))
    assert "older copy" in str(refused.value.hint)
    commit = table.logged()[0]
    body = commit.read_text()
    assert ', \\"what\\": \\"batch\\"' in body
    commit.write_text(body.replace(', \\"what\\": \\"batch\\"', ""))
    assert table.fresh().receipt(tag_of(1), like=replace(ours, **other)) == found, (
        "earlier commits do not say"
    )


@pytest.mark.parametrize("hint", [True, False])
def test_b3_a_tag_is_found_in_a_checkpoint_of_every_kind_and_in_none_that_lacks_a_part(
    table: LogTable, hint: bool
) -> None:
    import pyarrow.parquet as pq
    from deltalake import DeltaTable

    for seq in (1, 2, 3):
        table.commit(seq)
    DeltaTable(table.lake.path).create_checkpoint()
    table.commit()
    log = Path(table.lake.path) / "_delta_log"
    for file in table.logged()[:3]:
        file.unlink()
    if not hint:
        (log / "_last_checkpoint").unlink()
    classic = log / f"{2:020}.checkpoint.parquet"
    rows = pq.read_table(classic)
    classic.unlink()
    halves = [log / f"{2:020}.checkpoint.{part:010}.0000000002.parquet" for part in (1, 2)]
    pq.write_table(rows.slice(0, 4), halves[0])
    with pytest.raises(OutputDisagrees, match="cannot be read"):
        table.fresh().receipt(tag_of(3))
    pq.write_table(rows.slice(4), halves[1])

    def check() -> None:
        output = table.fresh()
        assert output.receipt(tag_of(3)) is not None
        assert output.receipt(tag_of(4)) is None
        look = Log(open_store(table.lake)).look()
        assert look is not None
        assert len(list(look.files())) == 4
        assert len(ListedLog(table.lake).files(3) or ()) == 4

    check()
    for half in halves:
        half.unlink()
    name = "80a083e8-7026-4e79-81be-64bd76c43a11"
    aside = log / "_sidecars" / f"{name}.parquet"
    aside.parent.mkdir()
    pq.write_table(rows.select(["add"]).filter(rows["add"].is_valid()), aside)
    top = [
        {kind: {**row[kind], **({"configuration": {}} if kind == "metaData" else {})}}
        for row in rows.select(["protocol", "metaData", "txn"]).to_pylist()
        for kind in row
        if row[kind]
    ]
    # A writer may give the path in full; the file lies there all the same.
    for path in (aside.name, aside.as_uri()):
        sidecar = {"sidecar": {"path": path, "sizeInBytes": 1, "modificationTime": 1}}
        version_2 = log / f"{2:020}.checkpoint.{name}.json"
        version_2.write_text("\n".join(map(json.dumps, [*top, sidecar])))
        check()


def test_b3_a_commit_that_was_repeated_after_a_lost_answer_is_ours(tmp_path: Path) -> None:
    store = open_store(Lake("", str(tmp_path)))
    ours, theirs = (commit_info(1, "WRITE") for _ in range(2))
    assert put_commit(store, 0, [ours])
    assert put_commit(store, 0, [ours])
    assert not put_commit(store, 0, [theirs])


def test_a_log_of_many_commits_is_read_from_its_last_checkpoint_on(table: LogTable) -> None:
    from deltalake import DeltaTable

    table.commit(1)
    for _ in range(30):  # no checkpoint yet: the newest is found by listing
        table.commit()
    assert table.fresh().receipt(tag_of(1)) is not None
    DeltaTable(table.lake.path).create_checkpoint()
    table.commit()
    asked: list[str] = []
    log = Log(_Counting(table, asked))
    look = log.look()
    assert look is not None
    assert look.version == 31
    assert look.transactions(PREFIX) == {f"{PREFIX}0": 1}
    assert len(asked) <= 5, asked


class _Counting:
    """The store of a table, with a list of what was asked of it."""

    def __init__(self, table: LogTable, asked: list[str]) -> None:
        from tidegauge.storage.store import open_store

        self._store, self._asked = open_store(table.lake), asked

    def __getattr__(self, name: str) -> Any:
        def ask(*args: Any, **kwargs: Any) -> Any:
            self._asked.append(f"{name} {args}")
            return getattr(self._store, name)(*args, **kwargs)

        return ask


def test_b5_an_older_ledger_is_refused_where_its_batch_was_passed_over(table: LogTable) -> None:
    table.commit(1)
    table.commit(3)
    with pytest.raises(OutputDisagrees, match="batch 2 of epoch 0"):
        table.output.receipt(tag_of(2))


def test_c2_a_table_made_anew_is_seen_by_who_has_looked_before(table: LogTable) -> None:
    for seq in (1, 2, 3):
        table.commit(seq)
    assert table.output.receipt(tag_of(3)) is not None
    shutil.rmtree(table.lake.path)
    assert table.output.receipt(tag_of(3)) is None
    table.commit()
    assert table.output.receipt(tag_of(3)) is None
    assert table.output.lacks((0, 3)) == "batch 1 of epoch 0"


def test_a_torn_commit_is_named(table: LogTable) -> None:
    table.commit(1)
    table.commit()
    table.logged()[1].write_text('{"commitInfo": {')
    with pytest.raises(OutputDisagrees, match="its version 1 is torn"):
        table.output.receipt(tag_of(1))


def test_a_folder_that_cannot_be_written_is_said_before_anything_is_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    output = LogTable(Lake("", str(tmp_path / "file" / "table"))).output
    with pytest.raises(OutputUnreachable, match="a file stands where a folder has to be"):
        output.prepare()


def test_who_may_write_is_asked_of_the_user_that_writes() -> None:
    """Of the effective one: root may do everything, and a service may have been started by root."""
    mine = os.geteuid()
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o555)
        try:
            if mine == 0:
                os.seteuid(65534)
            with pytest.raises(OutputUnreachable, match="may not make files in") as refused:
                LogTable(Lake("", f"{folder}/table")).output.prepare()
        finally:
            os.seteuid(mine)
            Path(folder).chmod(0o755)
    assert str(refused.value.hint).startswith(f"chmod u+rwx {folder}")
