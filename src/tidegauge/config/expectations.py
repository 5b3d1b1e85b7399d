"""The key `expect`: one entry for each column, predicate or table-wide check, or a pandera schema."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from tidegauge.config import flow_values, values
from tidegauge.config.check import Problems
from tidegauge.config.modules import ModuleFailed, import_module
from tidegauge.config.pandera_schema import is_pandera, read_pandera
from tidegauge.config.problems import InvalidValue, KeyPath, below, must, quoted, suggest
from tidegauge.model.delta_flow import TableRef
from tidegauge.model.expectation import (
    Accepted,
    Action,
    Expectation,
    ForeignKey,
    Fresh,
    InRange,
    Matches,
    NotNull,
    Predicate,
    RowCount,
    Rule,
    Unique,
)

CHECKED_BY = "__tidegauge_expect_"
"""How the names of pinned inputs begin in which foreign keys are looked up."""
_MOST = 60
_RULES = ("not_null", "unique", "accepted", "range", "matches")
_TABLE_WIDE = {
    "row_count": {"min", "max"},
    "fresh": {"column", "within"},
    "foreign_key": {"columns", "table", "path", "to"},
}
_HOW = ("action", "max_fraction")
FindTable = Callable[[Mapping[str, Any], KeyPath], TableRef]
"""Makes the table of a foreign key from its keys `table` or `path` and the trail where they stand."""


@dataclass(frozen=True)
class _Written:
    """A check as it was written, before its action and fraction are read."""

    rule: Rule
    name: str
    how: Mapping[str, Any]
    trail: KeyPath


def make_expectations(
    check: Problems, written: Any, trail: KeyPath, find_table: FindTable
) -> tuple[Expectation, ...]:
    if isinstance(written, str) and ":" in written:
        written = _import_schema(check, written, trail)
    if is_pandera(written):
        written = check.attempt(partial(read_pandera, written), trail)
    if written is None:
        return ()
    if not isinstance(written, dict):
        check.require(
            "be a mapping of columns and predicates to what is expected",
            trail,
            hint='`cluster_id: not_null`, or `"num_workers >= 0": {action: quarantine}`',
        )
        return ()
    found: dict[str, Expectation] = {}
    for key, body in written.items():
        at = (*trail, key)
        read = check.attempt(partial(_read_all, key, body, at, find_table), at)
        for one in read or ():
            made = check.attempt(partial(_make_expectation, one), one.trail)
            if made is None:
                continue
            if made.name in found:
                check.add(f"{quoted(made.name)} is expected twice", at, hint="remove one", at_key=True)
            found[made.name] = replace(made, place=check.document.key_place(at))
    if len(found) > _MOST:
        check.add(f"these are {len(found)} expectations, and {_MOST} is the most", trail, at_key=True)
    return tuple(found.values())


def _import_schema(check: Problems, written: str, trail: KeyPath) -> Any:
    """The pandera schema that `MODULE:SCHEMA` names; None after a problem was noted."""
    place = check.document.place(trail)
    module, _, name = written.partition(":")
    try:
        found = getattr(import_module(check.document.file.parent, module, place), name, None)
    except ModuleFailed as failed:
        check.problems.append(failed.problem)
        return None
    if not is_pandera(found):
        check.add(f"{quoted(written)} is no pandera schema", trail, hint="name one as `MODULE:SCHEMA`")
        return None
    return found


def _read_all(key: str, body: Any, trail: KeyPath, find_table: FindTable) -> list[_Written]:
    return list(_read(key, body, trail, find_table))


def _read(key: str, body: Any, trail: KeyPath, find_table: FindTable) -> Iterator[_Written]:
    """The checks of one entry. Raises InvalidValue with the trail from the entry to what is wrong."""
    match body:
        case dict() if _is_table_wide(key, body):
            yield _read_table_wide(key, body, trail, find_table)
        case list():
            yield from _read_list(key, body, trail, find_table)
        case None:
            yield _Written(Predicate(_read_sql(key)), key, {}, trail)
        case str() if body in list(Action):
            yield _Written(Predicate(_read_sql(key)), key, {"action": body}, trail)
        case {"check": _}:
            yield from _named(key, body, trail)
        case dict() if not set(body) & set(_RULES):
            _refuse_others(body, (*_HOW, *_RULES, "check"))
            yield _Written(Predicate(_read_sql(key)), key, body, trail)
        case _:
            yield from _read_column_rules(key, body, trail)


def _read_list(key: str, body: Sequence[Any], trail: KeyPath, find_table: FindTable) -> Iterator[_Written]:
    if not body:
        raise must("not be empty", hint=f"name a check: {', '.join(_RULES)}")
    for index, item in enumerate(body):
        at = (*trail, index)
        if key == "foreign_key" and isinstance(item, dict):
            with below(index):
                found = [_read_table_wide(key, item, at, find_table)]
        else:
            with below(index):
                found = _read_column_rules(key, item, at)
        yield from found


def _is_table_wide(key: str, body: Mapping[str, Any]) -> bool:
    return key in _TABLE_WIDE and bool(set(body) & _TABLE_WIDE[key])


def _named(key: str, body: Mapping[str, Any], trail: KeyPath) -> Iterator[_Written]:
    """The check of an entry `NAME: {check: …}`, whose key is only a name."""
    _refuse_others(body, ("check", *_HOW))
    how = {name: body[name] for name in _HOW if name in body}
    text = _at("check", _read_sql, body["check"])
    if text in ("not_null", "unique"):
        yield from _read_column_rules(key, {text: "true", **how}, trail)
    else:
        yield _Written(Predicate(text), key, how, trail)


def _read_column_rules(column: str, body: Any, trail: KeyPath) -> list[_Written]:
    if isinstance(body, str):
        if body not in ("not_null", "unique"):
            raise InvalidValue(f"{quoted(body)} is no check on a column", hint=suggest(body, _RULES))
        body = {body: "true"}
    if not isinstance(body, dict):
        raise must("be a check, or a list of checks", hint=f"one of {', '.join(_RULES)}")
    _refuse_others(body, (*_RULES, *_HOW))
    how = {name: body[name] for name in _HOW if name in body}
    rules = [name for name in _RULES if name in body]
    if not rules:
        raise InvalidValue("this says no check", hint=f"one of {', '.join(_RULES)}")
    return [
        _Written(_at(name, partial(_make_rule, column, name), body[name]), f"{column}: {name}", how, trail)
        for name in rules
    ]


def _make_rule(column: str, name: str, value: Any) -> Rule:
    match name:
        case "accepted":
            return Accepted(column, values.some_texts(_plain(value)))
        case "range":
            return InRange(column, *_read_ends(value))
        case "matches":
            return Matches(column, values.text(value))
        case _:
            if _plain(value) != "true":
                raise InvalidValue(
                    f"this can only be `true`, not {quoted(str(value))}", hint="leave the check out"
                )
            return NotNull(column) if name == "not_null" else Unique((column,))


def _read_ends(value: Any) -> tuple[str | None, str | None]:
    if not isinstance(value, dict):
        raise must("be a mapping with `min`, `max` or both", hint="`{min: 0, max: 100}`")
    _refuse_others(value, ("min", "max"))
    if not value:
        raise must("have `min`, `max` or both")
    least, greatest = (
        _at(name, values.text, _plain(value[name])) if value.get(name) is not None else None
        for name in ("min", "max")
    )
    return least, greatest


def _read_table_wide(key: str, body: Mapping[str, Any], trail: KeyPath, find_table: FindTable) -> _Written:
    _refuse_others(body, (*_TABLE_WIDE[key], *_HOW))
    how = {name: body[name] for name in _HOW if name in body}
    match key:
        case "row_count":
            return _Written(_read_row_count(body), key, how, trail)
        case "fresh":
            return _Written(_read_fresh(body), key, how, trail)
        case _:
            rule = _read_foreign_key(body, trail, find_table)
            return _Written(rule, f"{key}: {', '.join(rule.columns)}", how, trail)


def _read_row_count(body: Mapping[str, Any]) -> RowCount:
    ends = _read_ends({name: body[name] for name in ("min", "max") if name in body})
    least, greatest = (
        None if end is None else _at(name, values.whole(0), end)
        for name, end in zip(("min", "max"), ends, strict=True)
    )
    if least is not None and greatest is not None and least > greatest:
        raise InvalidValue(f"`min` is {least}, and so more than `max`, {greatest}")
    return RowCount(least, greatest)


def _read_fresh(body: Mapping[str, Any]) -> Fresh:
    for name in ("column", "within"):
        if name not in body:
            raise InvalidValue(f"the key `{name}` is missing", hint="`{column: event_time, within: 24h}`")
    return Fresh(_at("column", values.text, body["column"]), _at("within", values.duration(), body["within"]))


def _read_foreign_key(body: Mapping[str, Any], trail: KeyPath, find_table: FindTable) -> ForeignKey:
    if "columns" not in body:
        raise InvalidValue(
            "the key `columns` is missing", hint="name the columns that point to the other table"
        )
    columns = _at("columns", flow_values.columns, body["columns"])
    to = _at("to", flow_values.columns, body["to"]) if "to" in body else columns
    if len(columns) != len(to):
        raise InvalidValue(
            f"`columns` and `to` have to be as many: these are {len(columns)} and {len(to)}", trail=("to",)
        )
    place = {name: body[name] for name in ("table", "path") if name in body}
    if len(place) != 1:
        raise InvalidValue("a foreign key names one table", hint="say which with `table` or with `path`")
    return ForeignKey(columns, find_table(place, trail), to, CHECKED_BY + "_".join(columns).lower())


def _make_expectation(one: _Written) -> Expectation:
    action = Action(_at("action", values.choice(Action), one.how.get("action", "fail")))
    fraction = one.how.get("max_fraction")
    made = Expectation(one.name, one.rule, action)
    if not made.by_row and action.sets_aside:
        raise InvalidValue(
            f"{quoted(one.name)} is decided by all rows of a batch together, so none can be set aside",
            hint="use action `fail` or `warn`",
            trail=("action",),
        )
    if fraction is None:
        return made
    if not made.by_row:
        raise InvalidValue(
            f"`max_fraction` counts rows, and {quoted(one.name)} is not told row by row",
            hint="remove it",
            trail=("max_fraction",),
        )
    if action is Action.FAIL:
        raise InvalidValue(
            "`max_fraction` needs an action for the rows below it, and `fail` allows none",
            hint="add `action: quarantine`, `drop` or `warn`",
            trail=("max_fraction",),
        )
    return replace(made, max_fraction=_at("max_fraction", values.share, fraction))


def _read_sql(value: Any) -> str:
    """A predicate in SQL, which may have several lines. Raises InvalidValue for anything but text."""
    if not isinstance(value, str) or not value.strip():
        raise must("be a predicate in SQL", hint='such as "num_workers >= 0"')
    return value.strip()


def _at(name: str, check: Callable[[Any], Any], value: Any) -> Any:
    with below(name):
        return check(_plain(value))


def _refuse_others(body: Mapping[str, Any], valid: Sequence[str]) -> None:
    for name in body:
        if name not in valid:
            raise InvalidValue(
                f"unknown key {quoted(str(name))}", hint=suggest(str(name), valid), trail=(name,), at_key=True
            )


def _plain(value: Any) -> Any:
    """A Python value (of a declared flow or pandera) as the text that YAML would give."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
