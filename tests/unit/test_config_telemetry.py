"""The blocks `alerts`, `metrics` and `lineage` of the project file."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from tidegauge.config.load import load_project
from tidegauge.config.telemetry import hide_address
from tidegauge.errors import ConfigError
from tidegauge.model.alert import AlertKind, AlertSettings
from tidegauge.model.secret import Secret, mask
from tidegauge.model.telemetry import Telemetry


@pytest.fixture(autouse=True)
def _fresh_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegauge.model.secret._known", set())
    monkeypatch.setenv("TG_SLACK", "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ")


def load(folder: Path, text: str) -> Telemetry:
    file = folder / "tidegauge.yml"
    file.write_text(f"pipeline: shop\n{text}\n")
    return load_project(file).telemetry


def alerts(folder: Path, text: str) -> AlertSettings:
    found = load(folder, f"alerts: {{{text}}}").alerts
    assert found is not None
    return found


def test_what_is_left_out_has_a_default(tmp_path: Path) -> None:
    assert load(tmp_path, "") == Telemetry()
    found = alerts(tmp_path, 'to: "${env:TG_SLACK}"')
    assert found.on == tuple(AlertKind)
    assert (found.after, found.remind) == (1, timedelta(days=1))


def test_alerts_are_read_as_written(tmp_path: Path) -> None:
    found = alerts(
        tmp_path,
        'on: [failed, late], to: ["${env:TG_SLACK}", "json://h:1/a", "json://h:1/b"], after: 3, remind: 6h',
    )
    assert found.on == (AlertKind.FAILED, AlertKind.LATE)
    assert (found.after, found.remind) == (3, timedelta(hours=6))
    assert [channel.name for channel in found.to] == ["slack", "json", "json-2"]
    assert all(isinstance(channel.url, Secret) for channel in found.to)


@pytest.mark.parametrize(
    ("text", "says", "hint"),
    [
        ("alerts: {on: failed}", "the key `to` is missing", None),
        ("alerts: {to: []}", "must not be an empty list", None),
        ("alerts: {to: [here]}", "must be an address", "json://"),
        ("alerts: {to: ['slack://a/b/c']}", "holds a secret, and stands in plain text", "${env:NAME}"),
        ("alerts: {to: ['json://u:p@h/x']}", "holds a secret, and stands in plain text", "${env:NAME}"),
        ("alerts: {to: ['json://h', 'json://h']}", "stands in the list twice", None),
        ("alerts: {to: ['json://h'], on: [failled]}", "failled", "did you mean `failed`?"),
        ("alerts: {to: ['json://h'], after: 0}", "from 1 to 1000", None),
        ("metrics: {push: gateway}", "must be the address of a web server", "http://HOST:PORT"),
        ("metrics: {push: 'http://u:p@h'}", "a password in plain text", "${env:NAME}"),
        ("metrics: {port: 0}", "from 1 to 65535", None),
        ("lineage: {}", "needs either `url` or `file`", None),
        ("lineage: {url: 'http://h', file: x}", "needs either `url` or `file`", None),
        ("lineage: {file: x, api_key: '${env:TG_SLACK}'}", "`api_key` goes with `url`", None),
        ("lineage: {file: x, namspace: y}", "unknown key `namspace`", "did you mean `namespace`?"),
    ],
)
def test_a_mistake_is_told_with_its_place(tmp_path: Path, text: str, says: str, hint: str | None) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)
    assert says in caught.value.message
    assert caught.value.place is not None
    assert caught.value.place.line == 2
    if hint is not None:
        assert hint in str(caught.value.hint)


def test_e3_parts_of_an_address_that_look_like_a_token_are_hidden_by_themselves() -> None:
    hide_address("https://ops:hunter2@hooks.example.com/services/T00000000/B1a/XXXXyyyy1234?key=A_b_C_d_E")
    said = "POST hooks.example.com/services/T00000000 with XXXXyyyy1234, A_b_C_d_E and hunter2"
    assert mask(said) == "POST hooks.example.com/services/*** with ***, *** and ***"
