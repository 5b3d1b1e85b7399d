"""YAML in all its unkindness: each text that is no plain project gets one error with its place."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import yaml

from tidegauge.config import document as module
from tidegauge.config.document import read_document
from tidegauge.config.load import load_project
from tidegauge.errors import ConfigError


@pytest.fixture(params=["CSafeLoader", "SafeLoader"])
def parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both of PyYAML's parsers: an installation may lack the one in C."""
    monkeypatch.setattr(module, "_LOADER", getattr(yaml, request.param))
    return str(request.param)


def refused(folder: Path, content: bytes) -> ConfigError:
    file = folder / "tidegauge.yml"
    file.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load_project(file)
    return caught.value


def at(error: ConfigError) -> tuple[int, int]:
    assert error.place is not None
    return error.place.line, error.place.column


@pytest.mark.parametrize(
    ("content", "place", "message"),
    [
        (b"", (1, 1), "empty"),
        (b"# only a comment\n", (1, 1), "empty"),
        (b"---\n...\n", (1, 1), "empty"),
        (b"null\n", (1, 1), "empty"),
        (b"\n- a\n- b\n", (2, 1), "a list at the top"),
        (b"hello\n", (1, 1), "text at the top"),
        (b"pipeline: a\nlease: 5s\npipeline: b\n", (3, 1), "`pipeline` stands here twice, first in line 1"),
        (b"pipeline: a\nspark: {master: a, master: b}\n", (2, 20), "`master` stands here twice"),
        (b"pipeline: a\n\tlease: 5s\n", (2, 1), "a tab indents this line"),
        (b"pipeline: a\nlease: 'x\n", (3, 1), "not valid YAML"),
        (b"pipeline: a: b\n", (1, 12), "not valid YAML"),
        (b"pipeline: a\nlease:\n", (2, 1), "`lease` has no value"),
        (b"pipeline: \xff\n", (1, 11), "not UTF-8: byte 0xff"),
        ("pipeline: é\nlease: ".encode() + b"\xe9s\n", (2, 8), "not UTF-8: byte 0xe9"),
        ("pipeline: a\n".encode("utf-16"), (1, 1), "not UTF-8"),
        (b"pipeline: a\nlease: a\x00b\n", (2, 9), "U+0000"),
        (b"pipeline: a\x07\n", (1, 12), "U+0007"),
        (b"pipeline: a\n---\npipeline: b\n", (2, 1), "a second document"),
        (b"pipeline: *nope\n", (1, 11), "`*nope` has no anchor"),
        (b"pipeline: a\nspark: &a [*a]\n", (2, 12), "`*a` has no anchor"),
        (b"pipeline: a\n[x]: b\n", (2, 1), "a key must be text"),
        (b"pipeline: a\n'': b\n", (2, 1), "a key must be text"),
        (b"pipeline: a\nspark: {<<: b}\n", (2, 13), "`<<` takes a mapping"),
    ],
)
def test_what_is_no_plain_mapping_is_refused(
    tmp_path: Path, parser: str, content: bytes, place: tuple[int, int], message: str
) -> None:
    error = refused(tmp_path, content)
    assert message in error.message
    assert at(error) == place


@pytest.mark.parametrize(
    "value",
    [
        "!!python/object/apply:os.system ['touch PROOF']",
        "!!python/object/new:os.system ['touch PROOF']",
        "!!python/name:os.system",
        "!!python/module:os",
        "!<tag:yaml.org,2002:python/object/apply:os.system> ['touch PROOF']",
        "!custom {a: b}",
        "!!binary aGVsbG8=",
        "!!str text",
        "! text",
    ],
)
def test_e6_tags_never_make_objects(tmp_path: Path, parser: str, value: str) -> None:
    proof = tmp_path / "proof"
    error = refused(tmp_path, f"pipeline: shop\nlease: {value.replace('PROOF', str(proof))}\n".encode())
    assert "is not read here" in error.message
    assert at(error) == (2, 8)
    assert not proof.exists()


def test_e6_a_tag_on_a_key_is_refused_too(tmp_path: Path, parser: str) -> None:
    assert at(refused(tmp_path, b"pipeline: a\n!!python/name:os.system x: b\n")) == (2, 1)


def test_an_alias_bomb_is_refused_quickly(tmp_path: Path, parser: str) -> None:
    lines = ["pipeline: x", "a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    began = time.process_time()
    error = refused(tmp_path, "\n".join(lines).encode())
    assert "aliases" in error.message
    assert error.place is not None
    assert time.process_time() - began < 10


def test_a_chain_of_merges_is_refused(tmp_path: Path, parser: str) -> None:
    lines = ["pipeline: x", "a0: &a0 {x: y}"]
    lines += [f"a{n}: &a{n} {{<<: *a{n - 1}}}" for n in range(1, 3000)]
    assert "nested" in refused(tmp_path, "\n".join(lines).encode()).message


@pytest.mark.parametrize("opening", ["[", "{a: ", "- "])
def test_deep_nesting_is_refused_quickly(tmp_path: Path, parser: str, opening: str) -> None:
    began = time.process_time()
    error = refused(tmp_path, b"pipeline: x\na:\n  " + opening.encode() * 20_000)
    assert "nested" in error.message
    assert time.process_time() - began < 10


def test_a_huge_file_is_refused(tmp_path: Path) -> None:
    assert "larger than 4 MiB" in refused(tmp_path, b"# " + b"x" * (5 << 20)).message


def test_a_byte_order_mark_is_no_mistake(tmp_path: Path, parser: str) -> None:
    file = tmp_path / "tidegauge.yml"
    file.write_bytes(b"\xef\xbb\xbfpipeline: shop\n")
    assert load_project(file).pipeline == "shop"


@pytest.mark.parametrize("name", ["missing.yml", ".", "a\0b"])
def test_a_file_that_cannot_be_read_is_a_config_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load_project(tmp_path / name)


def test_places_are_shown_relative_to_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tidegauge.yml").write_text("pipelin: x\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError) as caught:
        load_project(tmp_path / "tidegauge.yml")
    assert str(caught.value).startswith("tidegauge.yml:1:1: ")


def test_every_value_knows_its_place(tmp_path: Path, parser: str) -> None:
    file = tmp_path / "tidegauge.yml"
    file.write_text("pipeline: é\nsync:\n  - {from: app,\n     tables: [a, b]}\n")
    document = read_document(file)
    place = document.place(("sync", 0, "tables", 1))
    assert (place.line, place.column) == (4, 18)
    key = document.key_place(("sync", 0, "tables"))
    assert (key.line, key.column) == (4, 6)
    around = document.place(("sync", 0, "cursor", 7))
    assert (around.line, around.column) == (3, 5)
