from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.output_parts import LAYOUT, batch, tag
from tidegauge.errors import OutputDisagrees
from tidegauge.model.staged import DataFile
from tidegauge.outputs.lake.manifest import (
    BatchNumber,
    Manifest,
    list_batches,
    load,
    manifest_of,
    parse,
    render,
)
from tidegauge.storage.local import LocalFiles

FILES = (DataFile("data/a/part-0.parquet", 3, 100), DataFile("data/a/part-1.parquet", 4, 200))


def manifest(seq: int = 7) -> Manifest:
    window = batch("2025-08-14 15:30:22.123456", after="2025-08-14 15:00:00.000000")
    return manifest_of(tag(seq), window, FILES, layout=LAYOUT, run_id="run")


def body(**changes: Any) -> bytes:
    return json.dumps(json.loads(render(manifest())) | changes).encode()


def test_a_manifest_has_what_the_tour_says() -> None:
    shown = json.loads(render(manifest()))
    assert shown["files"] == [
        {"path": "data/a/part-0.parquet", "rows": 3, "bytes": 100},
        {"path": "data/a/part-1.parquet", "rows": 4, "bytes": 200},
    ]
    assert shown["rows"] == 7
    assert shown["windows"] == [
        {
            "input": "shop.orders",
            "cursor": "timestamp",
            "after": {"cursor": "2025-08-14 15:00:00.000000", "key": ["18446744073709551615", 'é "x"']},
            "upto": {"cursor": "2025-08-14 15:30:22.123456", "key": ["18446744073709551615", 'é "x"']},
        }
    ]
    assert shown["schema"][0] == {"name": "id", "type": "bigint", "source_type": "bigint(20)"}
    assert shown["run_id"] == "run"


def test_a_manifest_comes_back_exactly() -> None:
    there = manifest()
    assert parse(render(there), "x") == there
    first = manifest_of(tag(1), batch("2025-01-01 00:00:00", nulls=True), (), layout=LAYOUT, run_id="r")
    assert parse(render(first), "x") == first


def test_b6_a_manifest_cut_anywhere_is_refused_by_name() -> None:
    whole = render(manifest())
    for cut in range(len(whole) - 2):
        with pytest.raises(OutputDisagrees, match=r"lake/7\.json"):
            parse(whole[:cut], "lake/7.json")


@pytest.mark.parametrize(
    "changes",
    [
        {"tidegauge": 2},
        {"rows": 8},
        {"rows": "7"},
        {"files": [{"path": "../../secret", "rows": 7, "bytes": 1}]},
        {"files": [{"path": "data/../x", "rows": 7, "bytes": 1}]},
        {"files": [{"path": "/data/x", "rows": 7, "bytes": 1}]},
        {"files": [{"path": "data/x", "rows": True, "bytes": 1}]},
        {"files": None},
        {"exact_windows": []},
        {"exact_windows": [{"after": None, "upto": None}]},
        {"exact_windows": [{"after": None, "upto": {"files": 3}}]},
        {"windows": "x"},
        {"epoch": -1},
        {"flow": None},
    ],
)
def test_a_manifest_that_was_changed_by_hand_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(OutputDisagrees) as refused:
        parse(body(**changes), "lake/7.json")
    assert "lake/7.json" in refused.value.message
    assert refused.value.hint


def test_a_manifest_under_another_number_is_refused(tmp_path: Path) -> None:
    store = LocalFiles(str(tmp_path))
    store.put_if_absent("t/_tidegauge/0/8.json", render(manifest(7)))
    with pytest.raises(OutputDisagrees, match=r"t/_tidegauge/0/8\.json"):
        load(store, "t", 0, 8)


def test_manifests_are_ordered_by_number_and_nothing_else_counts(tmp_path: Path) -> None:
    store = LocalFiles(str(tmp_path))
    for name in (
        "1/9.json",
        "1/10.json",
        "10/1.json",
        "9/1.json",
        "1/.9.json.abc.tmp",
        "1/x.json",
        "1/09.json",
    ):
        store.put_if_absent(f"t/_tidegauge/{name}", b"")
    found = list_batches(store, "t")
    assert found == [BatchNumber(1, 9), BatchNumber(1, 10), BatchNumber(9, 1), BatchNumber(10, 1)]
    assert list_batches(store, "another") == []
