"""How columns arrive: a table of rules per engine, which the readers follow and the documentation shows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tidegauge.errors import TypeNotHeld
from tidegauge.model.spec import TableName
from tidegauge.model.table import SourceColumn
from tidegauge.model.types import parse_decimal
from tidegauge.sources.texts import finish_decimal, finish_moment

WIDEST_DECIMAL = 38
"""Digits that Spark and Parquet hold."""

_MICROS_NTZ = "timestampadd(MICROSECOND, {}, timestamp_ntz'1970-01-01 00:00:00')"
_MICROS = "timestamp_micros({})"
_DAYS = "date_from_unix_date({})"
FINISH = {"timestamp_ntz": _MICROS_NTZ, "timestamp": _MICROS, "date": _DAYS}
"""Spark SQL from whole microseconds or days since 1970 to the type that arrives; no zone and no calendar
setting changes the result."""
IN_UTC = {_MICROS_NTZ: "CAST(timestamp_micros({}) AS timestamp_ntz)"}
"""Faster SQL with the same result, for a session whose zone is UTC."""


@dataclass(frozen=True)
class CatalogueColumn:
    """A column, or an expression, as the database describes it."""

    name: str
    type: str
    """The type's plain name, lower case: `decimal`, `bigint unsigned`."""
    full: str
    """The type with length and precision, as a person would write it."""
    nullable: bool = True
    precision: int | None = None
    scale: int | None = None
    """Digits after the point of a number, or after the seconds of a timestamp."""


@dataclass(frozen=True)
class TypeRule:
    """How some types arrive. In its SQL `{c}` is the column, `{p}` and `{s}` are precision and scale."""

    types: tuple[str, ...]
    arrives: str
    """The Spark SQL type in the output. Empty: the type cannot be held exactly, and stops a plan that has no
    `types:` for the column."""
    remark: str
    select: str = "{c}"
    wire: str = ""
    """The Spark SQL type of `select`, if it differs from `arrives`."""
    finish: str = "{}"
    guard: str | None = None
    when: Callable[[CatalogueColumn], bool] = lambda native: True  # noqa: ARG005
    condition: str = ""
    """What `when` asks, in words."""
    text: str = ""
    """SQL for a column that `types:` makes a `string`; empty if `TypeRules.text` does."""
    through: Callable[[CatalogueColumn], str] = lambda native: ""  # noqa: ARG005
    """Gives the type that a target of the same engine declares, which then gets the text, or the bytes of
    `raw`; empty if the target declares its own type for `arrives`."""
    kept: str = ""
    """What `through` gives, in words."""
    raw: str = ""
    """SQL for the bytes that a target of the same engine takes for the value; empty: it takes the text."""
    safe_for_all: bool = False
    """`select` does not fail for the values that the guard catches. False: it is not evaluated for them."""
    zero_dates: bool = False
    """The guard catches zero dates, which `zero_dates: null` reads as NULL."""
    inside: str = ""
    """SQL for a value that stays in the database, if it differs from `select`."""


@dataclass(frozen=True)
class TypeRules:
    """The rules of one engine. The first that fits a column counts."""

    title: str
    rules: tuple[TypeRule, ...]
    text: str
    """SQL for a column that `types:` makes a `string`."""
    decimal_guard: str
    """SQL that is true for a number that `decimal({p},{s})` would have to round, or that is NaN or infinite.
    `{top}` is the lowest number with too many digits."""
    sha256: str
    """SQL for the hash of `{salt}` followed by the text `{t}`, in lower-case hexadecimal digits."""
    sha256_in_process: bool = False
    """`sha256` calls a function that only connections of this process have."""
    digits: str = ""
    """SQL for a number's plain digits, if `text` may write it in another way."""
    remarks: tuple[str, ...] = ()
    untyped: bool = False
    """Any column may hold any kind of value, so what `types:` says can only be checked value by value."""

    def find(self, native: CatalogueColumn) -> TypeRule | None:
        return next((rule for rule in self.rules if native.type in rule.types and rule.when(native)), None)


def arrive(
    rules: TypeRules,
    table: TableName,
    native: CatalogueColumn,
    quoted: str,
    *,
    override: str | None,
    zero_dates: str,
    keeps_types: bool = False,
) -> SourceColumn:
    """How one column is read. Raises TypeNotHeld if nothing says how to hold it exactly.

    `override`: the type that `types:` names for it. `keeps_types`: the target is a database of the same kind.
    """
    rule = rules.find(native)
    if override is not None:
        return _apply_named_type(rules, table, native, quoted, rule, override.strip().lower())
    if keeps_types and rule is not None and (through := rule.through(native)):
        return _keep(rules, rule, native, quoted, through)
    if rule is None or not rule.arrives:
        raise _make_not_held_error(table, native, rule)
    return _apply_rule(rule, native, quoted, zero_dates)


def _apply_rule(rule: TypeRule, native: CatalogueColumn, quoted: str, zero_dates: str) -> SourceColumn:
    precision, scale = decimal_size(native)
    facts = {"c": quoted, "p": precision, "s": scale}
    select, inside = rule.select.format(**facts), (rule.inside or rule.select).format(**facts)
    guard = rule.guard.format(**facts) if rule.guard else None
    if guard and not (rule.safe_for_all and zero_dates == "fail"):
        select, inside = (f"CASE WHEN {guard} THEN NULL ELSE {one} END" for one in (select, inside))
    if guard and zero_dates == "null" and rule.zero_dates:
        guard = None
    arrives = rule.arrives.format(**facts)
    wire = rule.wire.format(**facts) or arrives
    return SourceColumn(native.name, native.full, arrives, select, wire, rule.finish, guard, inside)


def _keep(
    rules: TypeRules, rule: TypeRule, native: CatalogueColumn, quoted: str, through: str
) -> SourceColumn:
    arrives = "binary" if rule.raw else "string"
    text = (rule.raw or rule.text or rules.text).format(c=quoted)
    return SourceColumn(
        native.name, native.full, arrives, text, arrives, "{}", inside=quoted, through=through
    )


def _make_not_held_error(table: TableName, native: CatalogueColumn, rule: TypeRule | None) -> TypeNotHeld:
    if rule is None:
        return TypeNotHeld(
            f"{table}: column {native.name} is a {native.full}, which Tidegauge does not know",
            hint=f"let it arrive as the database's own text: types: {{{native.name}: string}}",
        )
    return TypeNotHeld(
        f"{table}: column {native.name} is a {native.full}, which cannot be held exactly: {rule.remark}",
        hint=f"say how it shall arrive, such as types: {{{native.name}: string}}",
    )


def decimal_size(native: CatalogueColumn) -> tuple[int, int]:
    """Precision and scale as Spark wants them: 0 ≤ scale ≤ precision."""
    precision, scale = native.precision or 0, native.scale or 0
    if scale < 0:
        return precision - scale, 0
    return max(precision, scale), scale


def is_wide(native: CatalogueColumn) -> bool:
    return decimal_size(native)[0] > WIDEST_DECIMAL


def _apply_named_type(
    rules: TypeRules,
    table: TableName,
    native: CatalogueColumn,
    quoted: str,
    rule: TypeRule | None,
    override: str,
) -> SourceColumn:
    """How a column is read if `types:` names another type for it."""
    text = ((rule.text if rule else "") or rules.text).format(c=quoted)
    what = f"{table}, column {native.name}"
    holds_text = rules.untyped or (rule is not None and rule.arrives == "string")
    if override == "string":
        return SourceColumn(native.name, native.full, "string", text, "string", "{}", inside=text)
    if size := parse_decimal(override):
        precision, scale = _check_decimal(table, native, override, *size)
        arrives = f"decimal({precision},{scale})"
        if holds_text:
            finish = finish_decimal(precision, scale, what)
            return SourceColumn(native.name, native.full, arrives, text, "string", finish)
        if rule is not None and _is_number(rule):
            top = "1" + "0" * (precision - scale)
            guard = rules.decimal_guard.format(c=quoted, p=precision, s=scale, top=top)
            select = f"CASE WHEN {guard} THEN NULL ELSE {quoted} END"
            return SourceColumn(native.name, native.full, arrives, select, arrives, "{}", guard, select)
    if override in ("timestamp", "timestamp_ntz", "date") and holds_text:
        finish = finish_moment(override, what)
        return SourceColumn(native.name, native.full, override, text, "string", finish)
    if rule is not None and override == rule.arrives:
        return arrive(rules, table, native, quoted, override=None, zero_dates="fail")
    raise TypeNotHeld(
        f"{table}: types says that column {native.name}, a {native.full}, arrives as {override};"
        " there is no exact way",
        hint=f"types: {{{native.name}: string}} always works",
    )


def _check_decimal(
    table: TableName, native: CatalogueColumn, override: str, precision: int, scale: int
) -> tuple[int, int]:
    if not 0 < precision <= WIDEST_DECIMAL or not 0 <= scale <= precision:
        raise TypeNotHeld(
            f"{table}: types says that column {native.name} arrives as {override}, which Spark does not have",
            hint="a decimal has 1 to 38 digits, and no more of them after the point than in all",
        )
    return precision, scale


def _is_number(rule: TypeRule) -> bool:
    return "decimal" in rule.types or "numeric" in rule.types or "int" in rule.arrives
