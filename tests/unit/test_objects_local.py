from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.output_parts import LAYOUT, batch, local_lake, staged, tag
from tidegauge.errors import OutputUnreachable, OutputUnsafe
from tidegauge.outputs.lake.output import LakeOutput
from tidegauge.storage.local import LocalFiles


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB, where this user may mount one."""
    folder = tmp_path / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("only root may mount a small file system")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_is_one_sentence_and_nothing_is_visible(small_disk: Path) -> None:
    store = LocalFiles(str(small_disk))
    assert store.put_if_absent("t/first", b"x")
    with pytest.raises(OutputUnreachable, match="no space is left") as full:
        store.put_if_absent("t/second", b"x" * 100_000)
    assert full.value.retryable
    assert full.value.hint
    assert [entry.path for entry in store.list("t")] == ["t/first"]
    assert store.put_if_absent("t/second", b"x")


def test_a_disk_that_fills_up_before_the_manifest_leaves_the_batch_uncommitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    output = LakeOutput(local_lake(tmp_path), "t")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OutputUnreachable, match="no space is left"):
            output.commit(tag(1), batch("2025-01-01 00:00:00"), staged(), layout=LAYOUT, run_id="r")
    assert output.receipt(tag(1)) is None
    assert output.is_empty()
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_file_system_without_hard_links_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(source: object, target: object) -> None:
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr(os, "link", no_links)
    with pytest.raises(OutputUnsafe, match="hard links") as refused:
        LakeOutput(local_lake(tmp_path), "t").prepare()
    # A JSON ledger's files are put by the same words.
    assert "manifest" not in refused.value.message
    assert "ledger" in (refused.value.hint or "")
    assert list(tmp_path.iterdir()) == []


def test_a_link_that_was_made_but_reported_as_there_already_counts_as_won(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = os.link

    def made_twice(source: Path, target: Path) -> None:
        link(source, target)
        raise FileExistsError(errno.EEXIST, "File exists")

    monkeypatch.setattr(os, "link", made_twice)
    assert LocalFiles(str(tmp_path)).put_if_absent("a", b"mine")


def test_a_file_where_a_folder_has_to_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("in the way")
    with pytest.raises(OutputUnreachable, match="a file stands where a folder has to be"):
        LocalFiles(str(tmp_path)).put_if_absent("t/_tidegauge/1/1.json", b"x")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may do everything")
def test_a_folder_without_permission_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(OutputUnreachable, match="may not"):
        LocalFiles(str(tmp_path)).put_if_absent("a", b"x")


@pytest.mark.parametrize("path", ["../x", "a/../../x", "/etc/x", "a//b", "", ".", "a\0"])
def test_e4_a_path_never_leads_out_of_the_lake(path: str, tmp_path: Path) -> None:
    store = LocalFiles(str(tmp_path / "lake"))
    with pytest.raises(OutputUnsafe):
        store.put_if_absent(path, b"x")
    with pytest.raises(OutputUnsafe):
        store.get(path)
    with pytest.raises(OutputUnsafe):
        store.delete([path], below="t")
    assert list(tmp_path.iterdir()) == []


def test_links_inside_a_table_are_not_followed(tmp_path: Path) -> None:
    environment = tmp_path / "outside"
    environment.mkdir()
    (environment / "precious.parquet").write_bytes(b"x")
    lake = tmp_path / "lake"
    (lake / "t" / "data").mkdir(parents=True)
    (lake / "t" / "data" / "link").symlink_to(environment)
    listed = [entry.path for entry in LocalFiles(str(lake)).list("t")]
    assert listed == ["t/data/link"]
