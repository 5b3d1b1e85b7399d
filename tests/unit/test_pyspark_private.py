"""What is asked of pyspark while another thread imports it."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from tidegauge.spark.pyspark_private import is_at_hand, is_running, java_process


def test_a_pyspark_that_is_being_imported_has_no_spark_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("pyspark", "pyspark.sql.connect.session"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    assert (is_running(), is_at_hand(), java_process()) == (False, False, None)
