"""Finds what makes SQL give another result for the same inputs: random functions and clocks. No Spark."""

from __future__ import annotations

import itertools
from collections.abc import Collection
from pathlib import Path

import sqlglot
from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from tidegauge.model.delta_flow import DeltaFlow, Evaluate, Sql
from tidegauge.transform.parse import DIALECT, fail, parse
from tidegauge.transform.scope import Columns
from tidegauge.transform.spark_functions import BARE_CLOCKS, CHANCE, CLOCK, CLOCK_NODES

ALLOW = "`allow_nondeterministic: true`"
FOR_CHANCE = (
    "a batch that is tried again has to come out the same: use a hash of the row, such as xxhash64(…), or a"
    f" column of the input; {ALLOW} takes what comes"
)
FOR_CLOCK = (
    "read the time from a column of the input, have all of it computed each time with `evaluate: whole`, or"
    f" leave each row as of when it was computed with {ALLOW}"
)


def follows_clock(flow: DeltaFlow) -> bool:
    """Whether each batch computes every row again, so that all rows have the time of the batch."""
    return flow.output.mode.facts.replaces_all or (
        flow.evaluate is Evaluate.WHOLE and not flow.output.mode.facts.only_adds
    )


def refuse_nondeterminism(flow: DeltaFlow, columns: Columns) -> None:
    """Raises TransformFailed, with the place, for random functions, and for clocks that let rows go stale."""
    transform = flow.transform
    if flow.allow_nondeterministic or not isinstance(transform, Sql):
        return
    text, place = transform.text, transform.file
    query = parse(text, place)
    _refuse_random(text, query, place)
    if follows_clock(flow):
        return
    found = find_clock_in(query, {column for known in columns.values() for column in known})
    if found is not None:
        tokens = sqlglot.tokenize(text, dialect=DIALECT)
        token = next((each for each in tokens if each.text.lower() in CLOCK), None)
        fail(
            f"the SQL reads the clock: {(token.text if token else found).upper()} is another one with every"
            " run, and rows that do not change would keep the old one",
            FOR_CLOCK,
            text,
            token.start if token else None,
            place,
        )


def _refuse_random(text: str, query: exp.Query, place: Path | None) -> None:
    own = {cte.alias.lower() for cte in query.find_all(exp.CTE)}
    if (token := _find_random(text, own)) is not None:
        fail(
            f"the SQL is not deterministic: {token.text}() gives another value each time",
            FOR_CHANCE,
            text,
            token.start,
            place,
        )


def find_random_in(text: str) -> str | None:
    """The name of a random function in the SQL; None: there is none."""
    token = _find_random(text, ())
    return None if token is None else token.text


def find_clock_in(node: exp.Expr, columns: Collection[str]) -> str | None:
    """The name of a function in the node that reads the clock; None: there is none. `columns` are columns,
    even if they are named like a clock."""
    there = {column.lower() for column in columns}
    return next((name for one in node.walk() if (name := _clock_name(one, there)) is not None), None)


def _find_random(text: str, own: Collection[str]) -> Token | None:
    tokens = sqlglot.tokenize(text, dialect=DIALECT)
    for token, following in itertools.pairwise(tokens):
        name = token.text.lower()
        if following.token_type is TokenType.L_PAREN and name in CHANCE and name not in own:
            return token
    return None


def _clock_name(node: exp.Expr, columns: Collection[str]) -> str | None:
    if isinstance(node, exp.Anonymous):
        return node.name.lower() if node.name.lower() in CLOCK and not node.expressions else None
    if isinstance(node, exp.Column):
        name = node.name.lower()
        plain = len(node.parts) == 1 and not node.this.args.get("quoted")
        return name if plain and name in BARE_CLOCKS - set(columns) else None
    if isinstance(node, CLOCK_NODES):
        name = node.sql_name().lower()
        return None if not node.meta and name in columns else name
    return None
