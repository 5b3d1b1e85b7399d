"""How DuckDB's types arrive."""

from __future__ import annotations

from tidegauge.sources.types import FINISH, TypeRule, TypeRules

_YEARS = "({c} NOT BETWEEN '0001-01-01' AND '9999-12-31 23:59:59.999999')"
_YEARS_TZ = "({c} NOT BETWEEN '0001-01-01 00:00:00+00' AND '9999-12-31 23:59:59.999999+00')"
_DAYS = "({c} NOT BETWEEN DATE '0001-01-01' AND DATE '9999-12-31')"
_FINITE = "`infinity`, and years before 1 or past 9999, stop the batch"
_TOP = "99999999999999999999999999999999999999"
_DIGITS = "a number of 39 digits stops the batch"
_MICROS = "epoch_us({c})"

RULES = TypeRules(
    title="DuckDB",
    text="CAST({c} AS VARCHAR)",
    decimal_guard="({c} <> round({c}, {s}) OR abs({c}) >= {top})",
    sha256="sha256({salt} || {t})",
    remarks=("Text is DuckDB's own, in the zone UTC.",),
    rules=(
        TypeRule(("boolean",), "boolean", ""),
        TypeRule(("tinyint",), "tinyint", ""),
        TypeRule(("utinyint", "smallint"), "smallint", ""),
        TypeRule(("usmallint", "integer"), "int", ""),
        TypeRule(("uinteger", "bigint"), "bigint", ""),
        TypeRule(("ubigint",), "decimal(20,0)", "up to 2^64 − 1", select="CAST({c} AS DECIMAL(20,0))"),
        TypeRule(
            ("hugeint",),
            "decimal(38,0)",
            _DIGITS,
            select="CAST({c} AS DECIMAL(38,0))",
            guard=f"({{c}} NOT BETWEEN -{_TOP} AND {_TOP})",
        ),
        TypeRule(
            ("uhugeint",),
            "decimal(38,0)",
            _DIGITS,
            select="CAST({c} AS DECIMAL(38,0))",
            guard=f"({{c}} > {_TOP})",
        ),
        TypeRule(("bignum", "varint"), "", "it may have any number of digits"),
        TypeRule(("float",), "float", "NaN and infinities too"),
        TypeRule(("double",), "double", "NaN and infinities too"),
        TypeRule(("decimal",), "decimal({p},{s})", ""),
        TypeRule(("varchar", "json"), "string", ""),
        TypeRule(("blob",), "binary", "", text="lower(hex({c}))"),
        TypeRule(
            ("date",),
            "date",
            _FINITE,
            select="({c} - DATE '1970-01-01')",
            wire="int",
            finish=FINISH["date"],
            guard=_DAYS,
            inside="{c}",
        ),
        TypeRule(
            ("timestamp", "timestamp_s", "timestamp_ms"),
            "timestamp_ntz",
            _FINITE,
            select=_MICROS,
            wire="bigint",
            finish=FINISH["timestamp_ntz"],
            guard=_YEARS,
            inside="{c}",
        ),
        TypeRule(
            ("timestamp_ns",),
            "timestamp_ntz",
            f"a moment between two microseconds stops the batch; {_FINITE}",
            select=_MICROS,
            wire="bigint",
            finish=FINISH["timestamp_ntz"],
            guard="(NOT isfinite({c}) OR epoch_ns({c}) % 1000 <> 0)",
            inside="{c}",
        ),
        TypeRule(
            ("timestamp with time zone",),
            "timestamp",
            _FINITE,
            select=_MICROS,
            wire="bigint",
            finish=FINISH["timestamp"],
            guard=_YEARS_TZ,
            inside="{c}",
        ),
        TypeRule(
            (
                *("time", "time_ns", "time with time zone", "interval", "uuid", "bit", "enum"),
                *("list", "array", "struct", "map", "union"),
            ),
            "string",
            "the database's own text",
            select="CAST({c} AS VARCHAR)",
        ),
    ),
)
