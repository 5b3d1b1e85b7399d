"""Secrets never print."""

from __future__ import annotations

import copy
import json
import logging
import pickle
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import quote

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tidegauge.model import secret as secret_module
from tidegauge.model.secret import MASK, Secret, mask, name_openly, remember

CANARY = "c@nary/pass word%41"


@pytest.fixture(autouse=True, scope="module")
def _forget() -> Iterator[None]:
    """What these tests make up must not be masked in the messages that other tests look at."""
    kept = {name: set(getattr(secret_module, name)) for name in ("_known", "_open")}
    yield
    for name, before in kept.items():
        getattr(secret_module, name).clear()
        getattr(secret_module, name).update(before)


@dataclass(frozen=True)
class Holder:
    name: str
    password: Secret


def test_e3_a_secret_shows_as_stars_everywhere() -> None:
    secret = Secret(CANARY)
    shown = [
        str(secret),
        repr(secret),
        f"{secret}",
        f"{secret!r:>40}",
        f"{secret:>10}",
        "%s %r" % (secret, secret),  # noqa: UP031
        "{}".format(secret),  # noqa: UP032
        str([secret]),
        str({"password": secret}),
        repr(Holder("app", secret)),
        json.dumps({"password": secret}, default=str),
    ]
    assert all("nary" not in text for text in shown)
    assert all(MASK in text for text in shown)


def test_only_reveal_gives_it() -> None:
    assert Secret(CANARY).reveal() == CANARY


def test_e3_a_secret_is_neither_pickled_nor_dumped() -> None:
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(Secret(CANARY))
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(Holder("app", Secret(CANARY)))
    with pytest.raises(TypeError):
        json.dumps(Secret(CANARY))
    with pytest.raises(TypeError):
        vars(Secret(CANARY))


def test_a_copy_of_a_secret_is_that_secret() -> None:
    secret = Secret(CANARY)
    assert copy.copy(secret) is copy.deepcopy(secret) is secret
    assert "nary" not in repr(copy.deepcopy(Holder("app", secret)))


def test_e3_a_traceback_with_locals_shows_stars() -> None:
    def login(secret: Secret) -> None:
        raise ValueError(f"no login with {secret}")

    try:
        login(Secret(CANARY))
    except ValueError as error:
        text = "".join(traceback.TracebackException.from_exception(error, capture_locals=True).format())
    assert "nary" not in text.replace("login(Secret(CANARY))", "").replace("CANARY", "")


def test_e3_a_log_record_shows_stars(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("t").error("password %s and %r", Secret(CANARY), [Secret(CANARY)])
    assert "nary" not in caplog.text


def test_secrets_are_equal_by_value() -> None:
    assert Secret("a-1") == Secret("a-1")
    assert Secret("a-1") != Secret("a-2")
    assert Secret("a-1") != "a-1"
    assert len({Secret("a-1"), Secret("a-1")}) == 1


def test_the_mask_hides_a_secret_also_inside_an_address() -> None:
    Secret(CANARY)
    text = f"mysql://app:{quote(CANARY, safe='')}@h/db?p={CANARY} c%40nary%2Fpass+word%2541"
    assert mask(text) == "mysql://app:***@h/db?p=*** ***"


def test_a_longer_secret_is_hidden_whole() -> None:
    Secret("prefix-short")
    Secret("prefix-short-and-long")
    assert mask("prefix-short-and-long prefix-short") == "*** ***"


def test_an_empty_secret_hides_nothing() -> None:
    remember("")
    assert mask("plain text") == "plain text"


@given(st.text(min_size=8, max_size=40).filter(lambda text: "*" not in text), st.text(), st.text())
def test_e3_no_text_keeps_a_remembered_secret(secret: str, before: str, after: str) -> None:
    try:
        secret.encode()
    except UnicodeEncodeError:
        return
    assume(secret not in secret_module._open)  # names are hidden in the places of secrets alone
    Secret(secret)
    assert secret not in mask(before + secret + after)


def test_a_short_word_is_hidden_where_it_stands_by_itself() -> None:
    Secret("tide7")
    assert mask("mysql://app:tide7@h/db tide7, 'tide7' and tide7s, low_tide7") == (
        "mysql://app:***@h/db ***, '***' and tide7s, low_tide7"
    )


def test_a_secret_that_is_also_a_name_is_hidden_in_a_secrets_place_alone() -> None:
    Secret("invoices")
    name_openly("invoices.lines")
    assert mask("invoices.lines has no column invoices_id") == "invoices.lines has no column invoices_id"
    for text in (
        "mysql://invoices:{}@h/invoices",
        "dbname=invoices password={} user=invoices",
        '{{"password": "{}", "table": "invoices"}}',
        "IDENTIFIED BY '{}' REQUIRE invoices",
        "Pwd: {}",
    ):
        assert mask(text.format("invoices")) == text.format(MASK)


def test_json_hides_what_it_has_to_escape() -> None:
    Secret('say "hidden" things')
    assert "hidden" not in mask(json.dumps({"error": 'login with say "hidden" things failed'}))
