"""Names of Spark's catalogue, taken apart and quoted."""

from __future__ import annotations

import pytest

from tidegauge.errors import ConfigError
from tidegauge.model.catalogue_name import find_parts, parse_name, quote_name


@pytest.mark.parametrize(
    ("name", "parts", "quoted"),
    [
        ("t", ("t",), "`t`"),
        ("a.b", ("a", "b"), "`a`.`b`"),
        ("c.`a.b`.t", ("c", "a.b", "t"), "`c`.`a.b`.`t`"),
        ("`a``b`.t", ("a`b", "t"), "`a``b`.`t`"),
        ("`a.b`.c; DROP", ("a.b", "c; DROP"), "`a.b`.`c; DROP`"),
    ],
)
def test_each_part_of_a_name_is_quoted_once(name: str, parts: tuple[str, ...], quoted: str) -> None:
    assert parse_name(name) == parts
    assert quote_name(name) == quoted
    assert parse_name(quoted) == parts


@pytest.mark.parametrize("name", ["", ".", "a.", ".a", "a..b", "`", "a`", "a.`b", "``", "`a`b", "x` OR"])
def test_what_is_no_name_is_refused_and_no_part_of_it_dropped(name: str) -> None:
    assert find_parts(name) is None
    with pytest.raises(ConfigError, match="is not the name of a table") as refused:
        quote_name(name)
    assert refused.value.hint


def test_a_plain_name_needs_backticks_around_anything_unusual() -> None:
    assert find_parts("a-b.t", plain=True) is None
    assert find_parts("`a-b`.t", plain=True) == ("a-b", "t")
