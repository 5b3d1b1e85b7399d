"""Where files can lie, and that nothing else becomes a folder of that name."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.test_config_bad_input import connection, refused
from tidegauge.config.load import load_project
from tidegauge.delta_log.location import lake_of
from tidegauge.delta_log.protocol import catalogue_feature
from tidegauge.errors import ConfigError, OutputUnreachable, SourceError
from tidegauge.ledger.address import parse
from tidegauge.model.location import identify, is_in_catalogue, resolve
from tidegauge.model.spec import Lake
from tidegauge.outputs.delta.place import _lake

ELSEWHERE = (
    "abfss://c@account/x",
    "gs://bucket/x",
    "dbfs:/x",
    "dbfs:x",
    "az://c/x",
    "wasbs://c@account/x",
    "hdfs://name/x",
    "http://host/x",
    "https://host/x",
    "FILE:/x",
    "nobody+knows.it-:x",
    "x:y",
)
NOT_S3A = ("s3://bucket/x", "s3n://bucket/x", "S3A://bucket/x", "s3a:bucket/x")
ONLY = "only local ones, `file:` and `s3a:`"
HERE = "HERE"


def flow(read: str, written: str) -> str:
    return f"pipeline: x\nflows:\n  f: {{inputs: {{a: {read}}}, output: {written}}}\n"


PLACES = {
    "lake": connection(f"{{type: parquet, path: {HERE}}}"),
    "delta": connection(f"{{type: delta, path: {HERE}}}"),
    "ledger json": f"pipeline: x\nledger: {HERE}\n",
    "ledger delta": f"pipeline: x\nledger: {HERE}\n",
    "input": flow(f"{{path: {HERE}}}", "{path: o, key: k}"),
    "output": flow("{path: i}", f"{{path: {HERE}, key: k}}"),
}
LEDGERS = {"ledger json": "json:", "ledger delta": "delta:"}


@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("path", [*ELSEWHERE, *NOT_S3A])
def test_b18_another_store_is_refused_where_it_is_written(tmp_path: Path, path: str, where: str) -> None:
    text = PLACES[where].replace(HERE, f'▲"{LEDGERS.get(where, "")}{path}"')
    error = refused(tmp_path, text)
    assert (ONLY if path in ELSEWHERE else "S3 paths begin with `s3a://`") in error.message
    assert [one.name for one in tmp_path.iterdir()] == ["tidegauge.yml"]


@pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
@pytest.mark.parametrize("path", [*ELSEWHERE, "s3a://bucket/x.db"])
def test_b18_a_database_that_is_a_file_is_local(tmp_path: Path, path: str, kind: str) -> None:
    error = refused(tmp_path, connection(f'{{type: {kind}, path: ▲"{path}"}}'))
    assert "are not supported" in error.message
    assert "`./NAME`" in (error.hint or "")


@pytest.mark.parametrize("path", ["gs://b/l.db", "dbfs:/l.db", "file:l.db", "s3a://b/l.db"])
def test_b18_a_ledger_in_sqlite_is_a_local_file(tmp_path: Path, path: str) -> None:
    assert "a local file" in refused(tmp_path, f"pipeline: x\nledger: ▲sqlite:///{path}\n").message
    with pytest.raises(ConfigError, match="a local file"):
        parse(f"sqlite:///{path}")


@pytest.mark.parametrize("table", ["gs://b/x", "dbfs:/x", "abfss:x"])
def test_b18_a_tables_name_is_no_address(tmp_path: Path, table: str) -> None:
    refused(tmp_path, flow(f'{{table: ▲"{table}"}}', "{path: o, key: k}"))


@pytest.mark.parametrize("kind", ["json", "delta"])
@pytest.mark.parametrize("path", [*ELSEWHERE, "s3://b/x", "s3a:b/x", "file://host/x"])
def test_b18_a_tracker_refuses_them_too(tmp_path: Path, path: str, kind: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(f"{kind}:{path}")
    assert "s3a:" in caught.value.message + str(caught.value.hint) or "file:" in caught.value.message
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("path", ELSEWHERE)
def test_b18_what_a_catalogue_says_is_no_folder_either(path: str) -> None:
    with pytest.raises(SourceError, match="are not supported"):
        lake_of(path, None)
    with pytest.raises(OutputUnreachable, match="are not supported"):
        _lake(Lake("", path))


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("file:/l", "/l"),
        ("file:///l", "/l"),
        ("file:l", "{}/l"),
        ("/a:b/l", "/a:b/l"),
        ("./a:b", "{}/a:b"),
        ("l", "{}/l"),
        ("two words:l", "{}/two words:l"),
        ("./main.ops", "{}/main.ops"),
        (".tidegauge", "{}/.tidegauge"),
    ],
)
def test_b18_paths_stay_paths(
    tmp_path: Path, written: str, meant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    meant = meant.format(tmp_path)
    file = tmp_path / "tidegauge.yml"
    file.write_text(
        f'pipeline: x\nledger: "delta:{written}"\n' + connection(f'{{type: parquet, path: "{written}"}}')[15:]
    )
    project = load_project(file)
    assert project.ledger == f"delta:{meant}"
    lake = project.connections["app"]
    assert isinstance(lake, Lake)
    assert lake.path == meant
    monkeypatch.chdir(tmp_path)
    assert parse(f"delta:{written}").shown == f"delta:{meant}"
    assert lake_of(written, None).path == meant


@pytest.mark.parametrize("location", ["s3://b/t/", "s3n://b/t", "s3a://b/t"])
def test_b18_catalogues_write_s3_in_three_ways(location: str) -> None:
    assert resolve(location) == lake_of(location, None).path == _lake(Lake("", location)).path == "s3a://b/t"


def test_one_place_has_one_identity_however_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lake").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "lake")
    monkeypatch.chdir(tmp_path)
    meant = str((tmp_path / "lake" / "t").resolve())
    for top in (tmp_path, f"file:{tmp_path}", f"file://{tmp_path}", "."):
        for below in ("lake/t", "lake/t/", "link/t", "lake//t", "lake/../link/t"):
            assert identify(f"{top}/{below}") == meant
    assert {identify(f"{scheme}://b/t{end}") for scheme in ("s3", "s3n", "s3a") for end in ("", "/")} == {
        "s3a://b/t"
    }
    assert identify("abfss://c@account/t/") == identify("abfss://c@account/t") == "abfss://c@account/t"
    assert identify("a\0b") == "a\0b"


@pytest.mark.parametrize("name", ["main.ops", "`my main`.ops", "a.b.c"])
def test_b18_a_name_in_a_catalogue_is_no_folder(tmp_path: Path, name: str) -> None:
    assert is_in_catalogue(name)
    error = refused(tmp_path, f'pipeline: x\nledger: ▲"delta:{name}"\n')
    assert "name in a catalogue" in error.message
    assert f"delta:./{name}" in (error.hint or "")
    with pytest.raises(ConfigError, match="name in a catalogue") as caught:
        parse(f"delta:{name}")
    assert "spark=" in (caught.value.hint or "")
    assert parse(f"json:{name}").lake is not None


@pytest.mark.parametrize(
    "feature",
    [
        "catalogManaged",
        "catalogManaged-preview",
        "catalogOwned",
        "catalogOwned-preview",
        "coordinatedCommits",
        "coordinatedCommits-preview",
    ],
)
def test_b18_commits_through_a_catalogue_are_known_by_every_name(feature: str) -> None:
    assert catalogue_feature({"deletionVectors", feature}) == feature
    assert catalogue_feature({"deletionVectors", "inCommitTimestamp-preview"}) is None
