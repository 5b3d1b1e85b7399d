"""A ledger of flows between Delta tables comes back whole: the commits themselves say all that it knew."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.project import here
from tidegauge.ledger.open import open_ledger
from tidegauge.model.position import VersionPosition
from tidegauge.model.watermark import Watermark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROJECT = """
pipeline: shop
ledger: sqlite:///ledger.db
flows:
  silver:
    inputs:
      orders: {path: orders, cursor: version}
      people: {path: people, snapshot: true}
    transform: silver.sql
    output: {path: silver, mode: merge, key: id}
"""
WHY = ("--reason", "the disk is gone", "--yes")


def marks(folder: Path) -> dict[str, Watermark]:
    with open_ledger(f"sqlite:///{folder / 'ledger.db'}", create=False) as ledger:
        found = ledger.watermarks("shop")
    return {one.input: replace(one, updated_at=datetime.min) for one in found}


def test_b4_the_commits_of_a_delta_output_bring_every_mark_back_and_nothing_comes_twice(
    spark: SparkSession, tmp_path: Path
) -> None:
    feed = "TBLPROPERTIES (delta.enableChangeDataFeed = true)"
    for name in ("orders", "people"):
        spark.sql(f"CREATE TABLE delta.`{tmp_path / name}` (id BIGINT, name STRING) USING delta {feed}")
        spark.sql(f"INSERT INTO delta.`{tmp_path / name}` VALUES (1, 'a'), (2, 'b')")
    (tmp_path / "silver.sql").write_text(
        "SELECT o.id, p.name FROM orders o LEFT JOIN people p ON o.id = p.id"
    )
    (tmp_path / "tidegauge.yml").write_text(PROJECT)
    project = ("--project", tmp_path)
    ran = here("run", *project)
    assert ran.code == 0, ran.said
    before = marks(tmp_path)
    assert {one.position for one in before.values()} == {VersionPosition(1)}
    assert all(one.source_id and one.fingerprint for one in before.values())

    (tmp_path / "ledger.db").unlink()
    lost = here("run", *project)
    assert lost.code == 1
    assert "ledger rebuild" in lost.err
    done = here("ledger", "rebuild", "--json", *WHY, *project)
    assert done.code == 0, done.said
    assert done.flow("silver")["state"] == "rebuilt"
    assert marks(tmp_path) == before
    again = here("run", "--json", *project)
    assert (again.code, again.flow("silver")["state"]) == (0, "SKIPPED"), again.said

    reset = here("watermark", "reset", "--select", "silver", *WHY, *project)
    assert reset.code == 0, reset.said
    (tmp_path / "ledger.db").unlink()
    assert here("ledger", "rebuild", *WHY, *project).code == 0
    assert {(one.position, one.epoch, one.seq) for one in marks(tmp_path).values()} == {(None, 1, 0)}
