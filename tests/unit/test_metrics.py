"""The names of metrics: in the code, on their page, and in what is printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tidegauge.errors import RuntimeMissing
from tidegauge.observe import metrics
from tidegauge.observe.metrics import METRICS, Sample, render_metrics

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"


def test_the_page_has_every_metric_as_it_is() -> None:
    rows = re.findall(r"^\| `(tidegauge_\w+)` \| (\w+) \| (.*?) \| (.*) \|$", PAGE.read_text(), re.MULTILINE)
    listed = [(name, kind, tuple(re.findall(r"\w+", labels)), says) for name, kind, labels, says in rows]
    assert listed == [(one.shown, one.kind, one.labels, one.help) for one in METRICS.values()]


def test_what_is_rendered_parses_with_every_name_and_odd_labels() -> None:
    odd = 'a"b\\c\nd'
    samples = [
        Sample(name, dict.fromkeys(metric.labels, odd), number)
        for number, (name, metric) in enumerate(METRICS.items())
    ]
    families = list(text_string_to_metric_families(render_metrics(samples)))
    assert [family.name for family in families] == list(METRICS)
    for number, family in enumerate(families):
        [sample] = family.samples
        assert sample.value == number
        assert sample.labels == dict.fromkeys(METRICS[family.name].labels, odd)


def test_a_library_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "prometheus_client", None)
    with pytest.raises(RuntimeMissing) as caught:
        metrics.render_metrics([])
    assert "tidegauge[metrics]" in str(caught.value.hint)
