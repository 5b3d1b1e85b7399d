"""Hazard E3: a secret is in the project, and in nothing that is printed, stored or raised."""

from __future__ import annotations

import copy
import dataclasses
import json
import pickle
import pprint
import traceback
from pathlib import Path
from typing import Any

import pytest

from tidegauge.config.load import load_project
from tidegauge.errors import ConfigError
from tidegauge.model.secret import Secret, mask
from tidegauge.model.spec import Database, Lake, Project

CANARY = "c@nary/Pass:w0rd%41 é$1"


@pytest.fixture(autouse=True)
def _fresh_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    """What other tests made known must not hide a leak here."""
    monkeypatch.setattr("tidegauge.model.secret._known", set())


def load(folder: Path, text: str) -> Project:
    file = folder / "tidegauge.yml"
    file.write_text(text, encoding="utf-8")
    return load_project(file)


def refused(folder: Path, text: str) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        load(folder, text)
    return caught.value


CANARY_PROJECT = """\
pipeline: shop
ledger: postgresql://tide:${env:TG_CANARY}@h/d
spark: {conf: {spark.hadoop.fs.s3a.secret.key: "${env:TG_CANARY}"}}
connections:
  app: {type: mysql, database: d, user: u, password: "${env:TG_CANARY}"}
  pg: {type: postgresql, database: d, user: u, password: "${file:canary}"}
  lake: {type: parquet, path: s3a://bucket, access_key: "${env:TG_CANARY}", secret_key: "${file:canary}"}
sync:
  - {from: app, to: lake, tables: orders, cursor: updated_at}
alerts: {to: ["json://u:${env:TG_CANARY}@h/x", "slack://${file:canary}"]}
metrics: {push: "http://h/${env:TG_CANARY}"}
lineage: {url: "https://h/${env:TG_CANARY}", api_key: "${env:TG_CANARY}"}
"""


@pytest.fixture
def canary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("TG_CANARY", CANARY)
    (tmp_path / "canary").write_text(CANARY + "\n", encoding="utf-8")
    return CANARY


def assert_hidden(shown: str) -> None:
    for form in (CANARY, "nary/Pass", "nary%2FPass", "w0rd"):
        assert form not in shown


def everything_in(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return {field.name: everything_in(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {key: everything_in(item) for key, item in value.items()}
    return [everything_in(item) for item in value] if isinstance(value, tuple) else value


def test_e3_no_way_of_showing_a_project_shows_its_secrets(tmp_path: Path, canary: str) -> None:
    project = load(tmp_path, CANARY_PROJECT)
    database = project.connections["app"]
    assert isinstance(database, Database)
    assert database.password == Secret(canary)
    lake = project.connections["lake"]
    assert isinstance(lake, Lake)
    assert lake.secret_key == Secret(canary)
    for value in (
        project,
        project.connections,
        *project.connections.values(),
        *project.syncs,
        project.ledger,
    ):
        for shown in (
            repr(value),
            str(value),
            f"{value}",
            f"{value!s}",
            f"{value}",
            pprint.pformat(value),
        ):
            assert_hidden(shown)
        assert_hidden(ascii(value))
    without_conf = dataclasses.replace(project, spark=dataclasses.replace(project.spark, conf={}))
    assert_hidden(json.dumps(everything_in(without_conf), default=str))
    assert_hidden(mask(json.dumps(everything_in(project), default=str, ensure_ascii=False)))
    for leak in (pickle.dumps, copy.deepcopy):
        try:
            assert_hidden(str(leak(project)))
        except TypeError as error:
            assert_hidden(str(error))


MISTAKES = {
    "unknown key": ("pipeline: shop", "pipelin: shop"),
    "ledger scheme": ("postgresql://", "postgresq://"),
    "ledger host": ("@h/d", "@h h/d"),
    "ledger without database": ("@h/d", "@h"),
    "ledger option": ("@h/d", "@h/d?autoDeserialize=${env:TG_CANARY}"),
    "ledger is only the secret": ("postgresql://tide:${env:TG_CANARY}@h/d", "'${env:TG_CANARY}'"),
    "ledger option name": ("@h/d", "@h/d?${env:TG_CANARY}=1"),
    "spark": ("spark: {conf: {", "spark: {mastr: x, conf: {"),
    "password in port": ('password: "${env:TG_CANARY}"', 'port: "${env:TG_CANARY}"'),
    "password in host": ('password: "${env:TG_CANARY}"', 'host: "${env:TG_CANARY}"'),
    "password in option": ('password: "${env:TG_CANARY}"', 'options: {pasword: "${env:TG_CANARY}"}'),
    "password in timeout": ('password: "${env:TG_CANARY}"', 'options: {connect_timeout: "${env:TG_CANARY}"}'),
    "password in ssl": ('password: "${env:TG_CANARY}"', 'options: {ssl: "${env:TG_CANARY}"}'),
    "password in path option": ('password: "${env:TG_CANARY}"', 'options: {ssl_ca: "${env:TG_CANARY}"}'),
    "password key misspelt": ("password:", "pasword:"),
    "secret key alone": ('access_key: "${env:TG_CANARY}", ', ""),
    "keys in the path": ("path: s3a://bucket", 'path: "s3a://k:${env:TG_CANARY}@bucket"'),
    "endpoint": ("path: s3a://bucket", 'path: s3a://bucket, endpoint: "http://k:${env:TG_CANARY}@h"'),
    "type": ("type: mysql", 'type: "${env:TG_CANARY}"'),
    "sync": ("cursor: updated_at", 'cursor: updated_at, settle: "${env:TG_CANARY}"'),
    "connection": ("from: app", 'from: "${env:TG_CANARY}"'),
    "rename": ("cursor: updated_at", 'cursor: updated_at, rename: "{${env:TG_CANARY}}"'),
    "tags": ("cursor: updated_at", 'cursor: updated_at, tags: ["${env:TG_CANARY}"]'),
    "types": ("cursor: updated_at", 'cursor: updated_at, types: {a: "${env:TG_CANARY}"}'),
    "mode": ("cursor: updated_at", 'cursor: updated_at, mode: "${env:TG_CANARY}"'),
    "alert address": ('"slack://${file:canary}"', '"${file:canary}"'),
    "alerts after": ("alerts: {", 'alerts: {after: "${env:TG_CANARY}", '),
    "alerts on": ("alerts: {", 'alerts: {on: "${env:TG_CANARY}", '),
    "push address": ('push: "http://h/', 'push: "ftp://h/'),
    "lineage file too": ("lineage: {", 'lineage: {file: "${env:TG_CANARY}", '),
    "lease": ("pipeline: shop", 'pipeline: shop\nlease: "${env:TG_CANARY}"'),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_e3_no_error_shows_a_secret(tmp_path: Path, canary: str, mistake: str) -> None:
    right, wrong = MISTAKES[mistake]
    assert right in CANARY_PROJECT
    error = refused(tmp_path, CANARY_PROJECT.replace(right, wrong, 1))
    for shown in (str(error), repr(error), error.hint or "", error.detail or "", str(vars(error))):
        assert_hidden(shown)
    assert_hidden("".join(traceback.format_exception(error)))


ONLY_IN_SECRET_FIELDS = [
    "unknown key", "ledger scheme", "ledger host", "ledger without database", "ledger option",
    "ledger is only the secret", "spark", "password in option",
    "password in path option", "password key misspelt",
    "secret key alone",
    "ledger option name",
]  # fmt: skip


@pytest.mark.parametrize("mistake", ONLY_IN_SECRET_FIELDS)
def test_e3_no_frame_of_a_traceback_holds_a_secret(tmp_path: Path, canary: str, mistake: str) -> None:
    error = refused(tmp_path, CANARY_PROJECT.replace(*MISTAKES[mistake], 1))
    chain: list[BaseException] = [error]
    while (before := chain[-1].__cause__ or chain[-1].__context__) is not None:
        chain.append(before)
    for link in chain:
        frames = traceback.TracebackException.from_exception(link, capture_locals=True)
        own = [frame for frame in frames.stack if "/tidegauge/" in frame.filename]
        assert link is not error or own
        for frame in own:
            assert_hidden(str(frame.locals))
