"""Who may reach a Spark that is kept warm, and for whom it is the right one."""

from __future__ import annotations

import os
import socket
from datetime import timedelta
from pathlib import Path

import pytest

from tidegauge.config.load import load_project
from tidegauge.errors import ConfigError, SparkFailed
from tidegauge.model.spec import SparkSettings
from tidegauge.spark.warm_client import find_kept, fingerprint_of, stop_kept, take_up
from tidegauge.spark.warm_sockets import Listener, address_of, ask, locked, socket_of, warm_folder


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TIDEGAUGE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_the_folder_is_the_users_alone(cache: Path) -> None:
    folder = warm_folder()
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o750)
    with pytest.raises(SparkFailed, match="others may look into it") as refused:
        warm_folder()
    assert refused.value.hint == f"run: chmod 700 {folder}; or set TIDEGAUGE_KEEP_WARM=off"
    folder.chmod(0o700)
    cache.chmod(0o777)
    with pytest.raises(SparkFailed, match="others may replace what is in"):
        warm_folder()
    cache.chmod(0o755)
    folder.rmdir()
    folder.symlink_to(cache)
    with pytest.raises(SparkFailed, match="it is not a folder of yours"):
        warm_folder()


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives a folder away")
def test_a_folder_of_somebody_else_is_refused() -> None:
    os.chown(warm_folder(), 4711, -1)
    with pytest.raises(SparkFailed, match="it is not a folder of yours"):
        warm_folder()


def test_a_socket_that_nobody_listens_on_is_taken_away() -> None:
    path = socket_of("/somewhere")
    with socket.socket(socket.AF_UNIX) as dead, address_of(path) as address:
        dead.bind(address)
    assert path.exists()
    assert ask(path, {"ask": "status"}) is None
    assert find_kept() == []
    assert not path.exists()
    assert stop_kept() == []


def test_who_ends_takes_away_his_own_socket_and_no_other() -> None:
    path = socket_of("/somewhere")
    first = Listener(path)
    assert first.is_found()
    assert path.stat().st_mode & 0o777 == 0o600
    path.unlink()  # as whoever empties the cache does
    assert not first.is_found()
    second = Listener(path)
    assert not first.is_found()
    first.close()
    assert second.is_found()
    second.close()
    assert not path.exists()


def test_a_place_where_nothing_can_be_made_is_named(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = socket_of("/somewhere")
    path.mkdir()
    with pytest.raises(SparkFailed, match="nothing can be made there"):
        Listener(path)
    path.with_suffix(".lock").mkdir()
    with pytest.raises(SparkFailed, match="nothing can be made there"), locked(path, patience=0):
        pass
    (cache / "file").touch()
    monkeypatch.setenv("TIDEGAUGE_CACHE", str(cache / "file"))
    with pytest.raises(SparkFailed, match="nothing can be made there") as refused:
        take_up(SparkSettings(keep_warm=timedelta(minutes=1)), [])
    assert "TIDEGAUGE_CACHE" in str(refused.value.hint)


def test_one_at_a_time_starts_a_spark() -> None:
    path = socket_of("/somewhere")
    with locked(path, patience=0) as first, locked(path, patience=0) as second:
        assert first is not None
        assert second is None
    with locked(path, patience=0) as third:
        assert third is not None


def test_without_the_key_and_with_the_switch_there_is_none(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert take_up(SparkSettings(), []) is None
    monkeypatch.setenv("TIDEGAUGE_KEEP_WARM", "off")
    assert take_up(SparkSettings(keep_warm=timedelta(minutes=1)), []) is None
    assert not cache.exists()


def test_whatever_java_remembers_makes_it_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "keys"))
    one = SparkSettings("local[2]", {"spark.hadoop.fs.s3a.secret.key": "hunter2"}, timedelta(minutes=1), "a")
    found = [fingerprint_of(one)]
    assert fingerprint_of(one) == found[0]
    monkeypatch.setenv("SHLVL", "7")
    assert fingerprint_of(one) == found[0]
    for other in (
        SparkSettings("local[3]", one.conf, one.keep_warm, "a"),
        SparkSettings("local[2]", {"spark.hadoop.fs.s3a.secret.key": "hunter3"}, one.keep_warm, "a"),
        SparkSettings("local[2]", one.conf, one.keep_warm, "b"),
    ):
        found.append(fingerprint_of(other))
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "rotated")
    found.append(fingerprint_of(one))
    (tmp_path / "keys").write_text("[default]")
    found.append(fingerprint_of(one))
    monkeypatch.chdir(tmp_path)
    found.append(fingerprint_of(one))
    before = os.umask(0o077)
    found.append(fingerprint_of(one))
    os.umask(before)
    assert len(set(found)) == len(found)
    assert not any("hunter" in text for text in found)


def test_the_keys_of_a_connection_are_part_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "tidegauge.yml"
    file.write_text(
        "pipeline: shop\nspark: {keep_warm: 15m}\nconnections:\n"
        "  app: {type: mysql, host: db, database: shop, user: me, password: '${env:TG_PASSWORD}'}\n"
    )
    marks = set()
    for password in ("one", "two"):
        monkeypatch.setenv("TG_PASSWORD", password)
        settings = load_project(file).spark
        assert settings.keep_warm == timedelta(minutes=15)
        marks.add(settings.digest)
    assert len(marks) == 2


@pytest.mark.parametrize("master", ["sc://127.0.0.1:1", "yarn", "spark://far:7077"])
def test_only_a_spark_of_this_machine_is_kept(tmp_path: Path, master: str) -> None:
    file = tmp_path / "tidegauge.yml"
    file.write_text(f"pipeline: shop\nspark: {{master: '{master}', keep_warm: 15m}}\n")
    with pytest.raises(ConfigError, match="only a Spark on this machine is kept warm"):
        load_project(file)
    file.write_text(f"pipeline: shop\nspark: {{conf: {{spark.master: '{master}'}}, keep_warm: 15m}}\n")
    with pytest.raises(ConfigError, match=r"`spark\.master` names another"):
        load_project(file)
    file.write_text(f"pipeline: shop\nspark: {{master: '{master}', keep_warm: 0}}\n")
    assert load_project(file).spark.keep_warm is None
