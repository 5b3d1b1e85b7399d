"""How Snowflake's types arrive."""

from __future__ import annotations

from tidegauge.sources.types import FINISH, CatalogueColumn, TypeRule, TypeRules

_YEARS = "(YEAR({c}) NOT BETWEEN 1 AND 9999)"
_NANOS = "(YEAR({c}) NOT BETWEEN 1 AND 9999 OR DATE_PART(NANOSECOND, {c}) % 1000 <> 0)"
_FINITE = "years before 1 or past 9999 stop the batch"
_BETWEEN = f"a moment between two microseconds stops the batch; {_FINITE}"
_MICROS = "DATE_PART(EPOCH_MICROSECOND, {c})"
_INSTANT = "the instant; the offset it was written with is not kept: as `string` it is"
_STAMP = "YYYY-MM-DD HH24:MI:SS.FF9"


def _is_fine(native: CatalogueColumn) -> bool:
    """Whether a timestamp can be finer than microseconds."""
    return native.scale is None or native.scale > 6


def _moment(name: str, arrives: str, remark: str, text: str, *, fine: bool) -> TypeRule:
    said = f"{remark}; " if remark else ""
    return TypeRule(
        (name,),
        arrives,
        f"{said}{_BETWEEN if fine else _FINITE}",
        select=_MICROS,
        wire="bigint",
        finish=FINISH[arrives],
        guard=_NANOS if fine else _YEARS,
        when=_is_fine if fine else lambda native: not _is_fine(native),
        condition="of more than 6 digits after the second" if fine else "of up to 6 digits after the second",
        text=text,
        inside="{c}",
    )


_NTZ = f"TO_VARCHAR({{c}}, '{_STAMP}')"
_TZ = f"TO_VARCHAR({{c}}, '{_STAMP}TZH:TZM')"

RULES = TypeRules(
    title="Snowflake",
    text="TO_VARCHAR({c})",
    decimal_guard="({c} <> ROUND({c}, {s}) OR ABS({c}) >= {top})",
    sha256="SHA2({salt} || {t}, 256)",
    remarks=("The session's zone is UTC. A timestamp without a stated precision has 9 digits.",),
    rules=(
        TypeRule(
            ("number", "decimal"), "decimal({p},{s})", "`INT`, `BIGINT` and their like are `NUMBER(38,0)`"
        ),
        TypeRule(("float",), "double", "NaN and infinities too"),
        TypeRule(("varchar",), "string", "`TEXT`, `STRING`, `CHAR` too"),
        TypeRule(("binary",), "binary", "", text="LOWER(HEX_ENCODE({c}))"),
        TypeRule(("boolean",), "boolean", ""),
        TypeRule(
            ("date",),
            "date",
            _FINITE,
            select="DATEDIFF(day, CAST('1970-01-01' AS DATE), {c})",
            wire="int",
            finish=FINISH["date"],
            guard=_YEARS,
            inside="{c}",
        ),
        _moment("timestamp_ntz", "timestamp_ntz", "", _NTZ, fine=False),
        _moment("timestamp_ntz", "timestamp_ntz", "", _NTZ, fine=True),
        _moment("timestamp_ltz", "timestamp", "", _TZ, fine=False),
        _moment("timestamp_ltz", "timestamp", "", _TZ, fine=True),
        _moment("timestamp_tz", "timestamp", _INSTANT, _TZ, fine=False),
        _moment("timestamp_tz", "timestamp", _INSTANT, _TZ, fine=True),
        TypeRule(
            ("time",),
            "string",
            "with 9 digits after the second",
            select="TO_VARCHAR({c}, 'HH24:MI:SS.FF9')",
            text="TO_VARCHAR({c}, 'HH24:MI:SS.FF9')",
        ),
        TypeRule(
            ("variant", "object", "array"),
            "string",
            "as JSON",
            select="TO_JSON({c})",
            text="TO_JSON({c})",
        ),
    ),
)
