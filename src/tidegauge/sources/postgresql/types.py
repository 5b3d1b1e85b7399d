"""How PostgreSQL's types arrive."""

from __future__ import annotations

import re
from dataclasses import replace

from tidegauge.sources.types import FINISH, CatalogueColumn, TypeRule, TypeRules, is_wide

_YEARS = "({c} NOT BETWEEN '0001-01-01' AND '9999-12-31 23:59:59.999999')"
_DAYS = "({c} NOT BETWEEN '0001-01-01' AND '9999-12-31')"
_RANGES = ("range", "multirange")
_FINITE = "`infinity`, and years before 1 or past 9999, stop the batch"
MICROS = "(extract(epoch FROM {c}) * 1000000)::bigint"
# Takes seconds and microseconds apart, which is slower, but exact although extract() gives a float there.
MICROS_BEFORE_14 = (
    "(extract(epoch FROM date_trunc('second', {c}))::bigint * 1000000"
    " + extract(microseconds FROM {c})::bigint % 1000000)"
)

_SIZE = re.compile(r" ?\(\d+(,-?\d+)?\)")
_KNOWN = frozenset(
    (
        *("boolean", "smallint", "integer", "bigint", "real", "double precision", "numeric", "text", "bytea"),
        *("character varying", "character", "date", "timestamp without time zone"),
        *("timestamp with time zone", "time without time zone", "time with time zone", "interval"),
        *("uuid", "json", "jsonb", "jsonpath", "xml", "inet", "cidr", "macaddr", "macaddr8"),
        *("bit", "bit varying", "point", "line", "lseg", "box", "path", "polygon", "circle"),
        *("tsvector", "tsquery", "pg_lsn"),
        *(f"{kind}{word}" for kind in ("int4", "int8", "num", "ts", "tstz", "date") for word in _RANGES),
    )
)
"""Types that every server has. Other names are users' own types, or types whose values are ids (`reg…`)."""


def _declare(native: CatalogueColumn) -> str:
    """The type that a target declares: without a precision, so that the source may change its own, but with
    the length of `bit` and `character`, which is part of the type. Empty for a type that is not known."""
    bare = _SIZE.sub("", native.full)
    if bare.removesuffix("[]") not in _KNOWN:
        return ""
    return native.full if bare.removesuffix("[]") in ("bit", "character") else bare


RULES = TypeRules(
    title="PostgreSQL",
    text="({c})::text",
    decimal_guard=(
        "(({c})::text IN ('NaN', 'Infinity', '-Infinity')"
        " OR {c} <> round(({c})::numeric, {s}) OR abs(({c})::numeric) >= {top})"
    ),
    # By concat(), since || cuts the padding of a char(n).
    sha256="CASE WHEN {t} IS NOT NULL"
    " THEN encode(sha256(convert_to(concat({salt}, {t}), 'UTF8')), 'hex') END",
    remarks=("A domain arrives as the type below it. Text is in the server's ISO styles, zone UTC.",),
    rules=(
        TypeRule(("bool",), "boolean", ""),
        TypeRule(("int2",), "smallint", ""),
        TypeRule(("int4",), "int", ""),
        TypeRule(("int8",), "bigint", ""),
        TypeRule(("oid",), "bigint", "", select="({c})::bigint"),
        TypeRule(("float4",), "float", "NaN and infinities too"),
        TypeRule(("float8",), "double", "NaN and infinities too"),
        TypeRule(
            ("numeric",),
            "decimal({p},{s})",
            "NaN stops the batch",
            guard="({c} = 'NaN')",
            when=lambda native: native.precision is not None and not is_wide(native),
            condition="of up to 38 digits",
        ),
        TypeRule(
            ("numeric",),
            "",
            "it has no precision, or more than 38 digits",
            condition="of more digits, or without a precision",
            through=lambda native: "numeric",  # noqa: ARG005
            kept="`numeric`",
        ),
        TypeRule(("money",), "string", "as the server's `lc_monetary` writes it", select="({c})::text"),
        TypeRule(("text", "varchar", "name"), "string", "", select="({c})::text"),
        # A cast to text would take the padding away.
        TypeRule(("bpchar",), "string", "`char(n)`, with its padding", inside="textin(bpcharout({c}))"),
        TypeRule(("bytea",), "binary", "", text="encode({c}, 'hex')"),
        TypeRule(
            ("date",),
            "date",
            _FINITE,
            select="({c} - '1970-01-01'::date)",
            wire="int",
            finish=FINISH["date"],
            guard=_DAYS,
            inside="{c}",
        ),
        TypeRule(
            ("timestamp",),
            "timestamp_ntz",
            _FINITE,
            select=MICROS,
            wire="bigint",
            finish=FINISH["timestamp_ntz"],
            guard=_YEARS,
            inside="{c}",
        ),
        TypeRule(
            ("timestamptz",),
            "timestamp",
            _FINITE,
            select=MICROS,
            wire="bigint",
            finish=FINISH["timestamp"],
            guard=_YEARS,
            inside="{c}",
        ),
        TypeRule(
            (
                *("time", "timetz", "interval", "uuid", "json", "jsonb", "jsonpath", "xml"),
                *("inet", "cidr", "macaddr", "macaddr8", "bit", "varbit"),
                *("point", "line", "lseg", "box", "path", "polygon", "circle"),
                *("tsvector", "tsquery", "pg_lsn", "xid", "xid8", "cid", "tid", "char"),
                *("regclass", "regproc", "regprocedure", "regtype", "regrole", "regnamespace"),
                *("enum", "composite", "array", "range", "multirange"),
            ),
            "string",
            "the database's own text",
            select="({c})::text",
            through=_declare,
            kept="itself, without a precision; of types that every server has, but for `xid`, `char`, `reg…`",
        ),
    ),
)


def rules_of(version: int) -> TypeRules:
    """The rules for a server of this version, such as 150018."""
    if version >= 140000:
        return RULES
    older = (
        replace(rule, select=MICROS_BEFORE_14) if rule.select == MICROS else rule for rule in RULES.rules
    )
    return replace(RULES, rules=tuple(older))
