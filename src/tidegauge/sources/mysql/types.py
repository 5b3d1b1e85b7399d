"""How MySQL's and MariaDB's types arrive."""

from __future__ import annotations

from tidegauge.sources.types import FINISH, CatalogueColumn, TypeRule, TypeRules, is_wide

_ZERO = "({c} < '0001-01-01' OR MONTH({c}) = 0 OR DAYOFMONTH({c}) = 0)"
_ZERO_REMARK = (
    "a zero date, such as `0000-00-00` or `2025-00-15`, stops the batch, or is NULL with `zero_dates: null`"
)
_MICROS = "TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', {c})"


def _bits(native: CatalogueColumn) -> int:
    return native.precision or 1


def _type(native: CatalogueColumn) -> str:
    return native.type


RULES = TypeRules(
    title="MySQL and MariaDB",
    text="CAST({c} AS CHAR)",
    decimal_guard="({c} <> ROUND({c}, {s}) OR ABS({c}) >= {top})",
    sha256="SHA2(CONCAT({salt}, CONVERT({t} USING utf8mb4)), 256)",
    digits="CAST({c} + 0 AS CHAR)",  # a column that is declared with ZEROFILL would show its zeros
    rules=(
        TypeRule(("tinyint",), "tinyint", "`tinyint(1)` and `boolean` too: 2 stays 2"),
        TypeRule(("tinyint unsigned", "smallint"), "smallint", ""),
        TypeRule(("smallint unsigned", "mediumint", "mediumint unsigned", "int"), "int", ""),
        TypeRule(("int unsigned", "bigint"), "bigint", ""),
        TypeRule(("bigint unsigned",), "decimal(20,0)", "up to 2^64 − 1"),
        TypeRule(
            ("bit",),
            "bigint",
            "as a number",
            select="({c} + 0)",
            when=lambda native: _bits(native) < 64,
            condition="of up to 63 bits",
        ),
        TypeRule(("bit",), "decimal(20,0)", "as a number", select="({c} + 0)", condition="of 64 bits"),
        TypeRule(("year",), "int", "", select="({c} + 0)"),
        TypeRule(
            ("decimal", "decimal unsigned"),
            "decimal({p},{s})",
            "",
            when=lambda native: not is_wide(native),
            condition="of up to 38 digits",
        ),
        TypeRule(
            ("decimal", "decimal unsigned"),
            "",
            "it has more than 38 digits",
            condition="of more digits",
            through=lambda native: f"decimal({native.precision},{native.scale})",
            kept="itself",
        ),
        TypeRule(
            ("float", "float unsigned"),
            "float",
            "all its bits, which MySQL's own text does not show",
            select="({c} + 0e0)",
            wire="double",
            finish="CAST({} AS float)",
            inside="{c}",
        ),
        TypeRule(("double", "double unsigned"), "double", ""),
        TypeRule(
            ("date",),
            "date",
            _ZERO_REMARK,
            select="(TO_DAYS({c}) - 719528)",
            wire="int",
            finish=FINISH["date"],
            guard=_ZERO,
            safe_for_all=True,
            zero_dates=True,
            inside="{c}",
        ),
        TypeRule(
            ("datetime",),
            "timestamp_ntz",
            _ZERO_REMARK,
            select=_MICROS,
            wire="bigint",
            finish=FINISH["timestamp_ntz"],
            guard=_ZERO,
            safe_for_all=True,
            zero_dates=True,
            inside="{c}",
        ),
        TypeRule(
            ("timestamp",),
            "timestamp",
            _ZERO_REMARK,
            select=_MICROS,
            wire="bigint",
            finish=FINISH["timestamp"],
            guard="({c} < '1970-01-01')",
            safe_for_all=True,
            zero_dates=True,
            inside="{c}",
        ),
        TypeRule(
            ("time",),
            "string",
            "`-838:59:59.000000`: it is a span, and may pass 24 hours",
            select="CAST({c} AS CHAR)",
            through=lambda native: f"time({native.scale})" if native.scale else "time",
            kept="itself",
        ),
        # Spark pads what the driver calls a CHAR, ENUM and SET among them; CONCAT hides that it is one.
        TypeRule(("char",), "string", "without its padding, as MySQL shows it", select="CONCAT({c})"),
        TypeRule(("varchar", "tinytext", "text", "mediumtext", "longtext"), "string", ""),
        TypeRule(("enum", "set"), "string", "the words, not the numbers", select="CONCAT({c})"),
        TypeRule(
            ("json",),
            "string",
            "the database's own text",
            select="CAST({c} AS CHAR)",
            through=_type,
            kept="itself",
        ),
        TypeRule(
            ("uuid", "inet4", "inet6"), "string", "", select="CAST({c} AS CHAR)", through=_type, kept="itself"
        ),
        TypeRule(
            ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"),
            "binary",
            "",
            text="LOWER(HEX({c}))",
        ),
        TypeRule(
            (
                "geometry",
                "point",
                "linestring",
                "polygon",
                "multipoint",
                "multilinestring",
                "multipolygon",
                "geometrycollection",
            ),
            "",
            "Parquet has no such type; `string` gives its well-known text",
            text="ST_AsText({c})",
            # The bytes as the server keeps them, with the reference system (SRID).
            raw="UNHEX(HEX({c}))",
            through=_type,
            kept="itself",
        ),
    ),
)
