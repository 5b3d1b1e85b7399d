from __future__ import annotations

from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegauge.errors import OutputUnsafe
from tidegauge.storage.folder import check_folder, folder_name

names = st.text(st.characters(), max_size=60) | st.text(alphabet="./!2Eh\\%\0 aé", max_size=12)


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("settlement.orders", "settlement.orders"),
        ("a-b_c.D9", "a-b_c.D9"),
        ("größe.日本", "größe.日本"),
        ("my table", "my!20table"),
        ("50%", "50!25"),
        ("a!b", "a!21b"),
        ("", "!"),
        (".", "!2E"),
        ("..", "!2E!2E"),
        (".hidden", "!2Ehidden"),
        ("a..b.", "a..b."),
        ("e\u0301", "e!CC!81"),
    ],
)
def test_a_name_becomes_a_folder_people_can_read(name: str, folder: str) -> None:
    assert folder_name(name) == folder


@pytest.mark.parametrize(
    "hostile",
    [
        "../x",
        "..",
        "/etc/passwd",
        "a/../../b",
        "%2e%2e%2fx",
        "a\0b",
        "a\\..\\b",
        "~/x",
        "C:\\x",
        "\ud800",
        "a\nb",
    ],
)
def test_e4_a_hostile_name_stays_one_step_below_the_lake(hostile: str, tmp_path: Path) -> None:
    folder = folder_name(hostile)
    target = (tmp_path / folder).resolve()
    assert target.parent == tmp_path.resolve()
    assert PurePosixPath(folder).name == folder
    assert not set(folder) & set("/\\%\0~:\n")
    target.mkdir()
    assert check_folder(folder) == folder


@given(names)
def test_e4_every_name_is_one_safe_segment(name: str) -> None:
    folder = folder_name(name)
    assert check_folder(folder) == folder
    assert "/" not in folder
    assert not folder.startswith(".")
    assert 0 < len(folder.encode()) <= 200


@given(names, names)
def test_different_names_have_different_folders(one: str, other: str) -> None:
    assert (folder_name(one) == folder_name(other)) == (one == other)


def test_long_names_are_shortened_and_still_differ() -> None:
    folders = {folder_name("x" * 500 + end) for end in ("a", "b", "", "/")}
    assert len(folders) == 4
    assert all(len(folder.encode()) <= 200 for folder in folders)
    assert folder_name("日" * 500).startswith("日" * 50 + "!h")
    assert folder_name("x" * 200) == "x" * 200
    assert folder_name("x" * 201) != "x" * 201


@pytest.mark.parametrize("folder", ["", "..", ".x", "a/b", "/a", "a\\b", "a\0", "a b", "a%b"])
def test_e4_a_folder_that_was_never_a_folder_name_is_refused(folder: str) -> None:
    with pytest.raises(OutputUnsafe):
        check_folder(folder)
