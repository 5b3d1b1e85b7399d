"""What every store of files promises, on a local folder and on S3."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.support.output_parts import local_lake, s3_lake
from tidegauge.errors import OutputUnsafe
from tidegauge.model.spec import Lake
from tidegauge.storage.clock import Clock
from tidegauge.storage.probe import check_store
from tidegauge.storage.store import Store, open_store

PATH = "a folder/x é.json"


@pytest.fixture(params=["local", "s3"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    if request.param == "local":
        return local_lake(tmp_path / "store")
    return s3_lake(request.getfixturevalue("s3"))


@pytest.fixture
def store(lake: Lake) -> Store:
    return open_store(lake)


def replaced(store: Store, body: bytes, token: str | None) -> str:
    new = store.replace(PATH, body, token)
    assert new is not None
    return new


def test_a_file_that_is_not_there_has_no_token(store: Store) -> None:
    assert store.read(PATH) is None


def test_without_a_token_only_a_new_file_is_made(store: Store) -> None:
    token = replaced(store, b"one", None)
    assert store.read(PATH) == (b"one", token)
    assert store.replace(PATH, b"two", None) is None
    assert store.read(PATH) == (b"one", token)


def test_the_token_of_the_last_version_lets_one_replace_it(store: Store) -> None:
    first = replaced(store, b"one", None)
    second = replaced(store, b"two, and longer", first)
    third = replaced(store, b"3", second)
    assert store.read(PATH) == (b"3", third)
    assert len({first, second, third}) == 3


def test_b6_the_token_of_an_older_version_is_refused(store: Store) -> None:
    first = replaced(store, b"one", None)
    second = replaced(store, b"two", first)
    assert store.replace(PATH, b"late", first) is None
    assert store.replace(PATH, b"late", "no-such-token") is None
    assert store.read(PATH) == (b"two", second)


def test_a_token_does_not_bring_back_a_file_that_was_deleted(store: Store) -> None:
    token = replaced(store, b"one", None)
    store.delete([PATH], below="a folder")
    assert store.replace(PATH, b"two", token) is None
    assert store.read(PATH) is None


def test_a_file_that_was_put_once_can_be_replaced(store: Store) -> None:
    assert store.put_if_absent(PATH, b"one")
    found = store.read(PATH)
    assert found is not None
    replaced(store, b"two", found[1])
    assert not store.put_if_absent(PATH, b"three")
    assert store.get(PATH) == b"two"


def test_nothing_is_left_beside_a_file_that_was_replaced(store: Store) -> None:
    token = None
    for number in range(5):
        token = replaced(store, str(number).encode(), token)
        assert store.replace(PATH, b"late", "no-such-token") is None
    assert [entry.path for entry in store.list("a folder")] == [PATH]


def test_folders_are_those_one_step_below(store: Store) -> None:
    assert list(store.folders("log")) == []
    for path in ("log/b/1.json", "log/a/2.json", "log/a/deep/3.json", "log/4.json", "other/c/5.json"):
        assert store.put_if_absent(path, b"x")
    assert list(store.folders("log")) == ["a", "b"]


@pytest.mark.parametrize("path", ["../x", "a/../../x", "/etc/x", "a//b", "", "."])
def test_e4_no_path_leads_out_of_the_store(store: Store, path: str) -> None:
    for ask in (
        lambda: store.replace(path, b"x", None),
        lambda: store.read(path),
        lambda: store.folders(path),
    ):
        with pytest.raises(OutputUnsafe):
            ask()


def test_the_proof_leaves_nothing_behind(store: Store, lake: Lake) -> None:
    check_store(store, lake.path, replacing=True)
    check_store(store, lake.path)
    if not lake.on_s3:
        assert list(Path(lake.path).iterdir()) == []
    else:
        assert not store.folders("a folder")


def test_b9_the_clock_is_the_store_s_and_does_not_go_back(store: Store) -> None:
    store.put_if_absent("made", b"x")
    clock = Clock(store, every=timedelta(0))
    told = [clock.now() for _ in range(5)]
    assert told == sorted(told)
    assert abs(told[0] - datetime.now(UTC)) < timedelta(minutes=1)
    assert told[0].tzinfo is UTC
