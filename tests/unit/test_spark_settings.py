"""Where Spark runs, and whether it needs a Java of this machine."""

from __future__ import annotations

import pytest

from tidegauge.errors import RuntimeMissing
from tidegauge.model.spark_settings import SparkSettings
from tidegauge.spark import session


@pytest.mark.parametrize(
    ("settings", "connect"),
    [
        (SparkSettings("sc://h"), True),
        (SparkSettings(conf={"spark.master": "sc://h"}), True),
        (SparkSettings("local[2]", conf={"spark.master": " sc://h:15002/;token=x"}), True),
        (SparkSettings(), False),
        (SparkSettings("sc://h", conf={"spark.master": "yarn"}), False),
    ],
)
def test_only_a_spark_connect_server_needs_no_java_here(
    settings: SparkSettings, connect: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []

    def find_java() -> None:
        asked.append(True)
        raise RuntimeMissing("Java is missing", hint="install it")

    monkeypatch.setattr(session, "find_java", find_java)
    monkeypatch.setattr(session, "is_running", lambda: False)
    monkeypatch.setattr(session, "is_kept", lambda _: False)
    assert settings.is_connect is connect
    if connect:
        session.check_java(settings)
    else:
        with pytest.raises(RuntimeMissing):
            session.check_java(settings)
    assert asked == ([] if connect else [True])
