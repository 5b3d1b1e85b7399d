from __future__ import annotations

import contextlib
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegauge.config.durations import parse_duration, show_duration
from tidegauge.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30s", 30), ("5m", 300), ("1h", 3600), ("7d", 604800), ("500ms", 0.5), ("1h30m", 5400),
     ("0", 0), ("0s", 0), ("1d2h3m4s5ms", 93784.005), ("90s", 90), ("007s", 7)],
)  # fmt: skip
def test_durations_are_read(text: str, seconds: float) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "text",
    ["", " ", "5", "s", "30 s", " 30s", "30s ", "30S", "1.5h", "-5m", "+5m", "30m1h", "5m5m", "1w",
     "1y", "5min", "1e3s", "٣s", "99999999999d", "1h30", "PT1H", "00", "1:30", "5s\n"],
)  # fmt: skip
def test_anything_else_is_refused_with_examples(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_duration(text)
    assert "is not a duration" in caught.value.message
    for example in ("30s", "5m", "1h", "7d", "500ms", "1h30m", "0"):
        assert f"`{example}`" in (caught.value.hint or "")


@given(st.integers(min_value=0, max_value=10**12))
def test_what_is_shown_reads_back(milliseconds: int) -> None:
    value = timedelta(milliseconds=milliseconds)
    assert parse_duration(show_duration(value)) == value


@given(st.text(max_size=12) | st.from_regex(r"[0-9dhms]{1,20}"))
def test_nothing_but_a_config_error_is_raised(text: str) -> None:
    with contextlib.suppress(ConfigError):
        assert parse_duration(text) >= timedelta(0)
