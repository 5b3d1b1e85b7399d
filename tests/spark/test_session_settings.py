"""Whose numbers a session works with: those of its host, a person's, or ours for small jobs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tidegauge.model.spec import SparkSettings
from tidegauge.spark.session import _choose_python, _conf, sibling

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHUFFLES = "spark.sql.shuffle.partitions"


@pytest.mark.parametrize(
    ("master", "own", "expected"),
    [
        ("local[2]", {}, "4"),
        (None, {}, "4"),
        ("local[2]", {SHUFFLES: "64"}, "64"),
        ("spark://host:7077", {}, None),
        ("yarn", {SHUFFLES: "64"}, "64"),
        (None, {"spark.master": "yarn"}, None),
        ("spark://host:7077", {"spark.master": "local[2]"}, "4"),
    ],
)
def test_a_spark_that_is_started_here_is_for_small_jobs_unless_somebody_says_otherwise(
    master: str | None, own: dict[str, str], expected: str | None
) -> None:
    assert _conf(SparkSettings(master, own), ()).get(SHUFFLES) == expected


@pytest.mark.parametrize("settings", [SparkSettings("yarn"), SparkSettings(conf={"spark.master": "yarn"})])
def test_a_master_elsewhere_is_obeyed_in_either_place(
    settings: SparkSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = _conf(settings, ())
    assert made["spark.master"] == "yarn"
    assert "spark.driver.host" not in made, "the executors would look for the driver on their own machine"
    monkeypatch.setenv("PYSPARK_PYTHON", "/cluster/python")
    _choose_python(settings)
    assert os.environ["PYSPARK_PYTHON"] == "/cluster/python"


def test_a_flow_shuffles_as_the_session_that_it_was_given_does(spark: SparkSession) -> None:
    host = spark.newSession()
    host.conf.set(SHUFFLES, "7")
    host.conf.set("spark.sql.session.timeZone", "America/New_York")
    own = sibling(host)
    assert own.conf.get(SHUFFLES) == "7"
    assert own.conf.get("spark.sql.session.timeZone") == "UTC"
