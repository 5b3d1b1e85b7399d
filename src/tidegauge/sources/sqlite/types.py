"""How SQLite's columns arrive: by the declared type, which is a hint, with a look at every value."""

from __future__ import annotations

from tidegauge.model.canonical import SQL_SHA256
from tidegauge.sources.types import TypeRule, TypeRules

# SQLite shows 15 digits of a float; where they do not give the same float back, 17 do.
_TEXT = (
    "CASE WHEN typeof({c}) = 'real' AND CAST(CAST({c} AS TEXT) AS REAL) <> {c} THEN printf('%!.17g', {c})"
    " ELSE CAST({c} AS TEXT) END"
)

RULES = TypeRules(
    title="SQLite",
    text=f"CASE WHEN typeof({{c}}) = 'blob' THEN LOWER(HEX({{c}})) ELSE {_TEXT} END",
    decimal_guard="",
    sha256=f"{SQL_SHA256}({{salt}} || {{t}})",
    sha256_in_process=True,
    untyped=True,
    remarks=(
        "A column may hold values of any kind, whatever its declared type. A value of another kind than the"
        " one below stops the batch. The words below are looked for inside the declared type, in this order,"
        " as SQLite itself does.",
    ),
    rules=(
        TypeRule(("int", "bool"), "bigint", "integers", guard="(typeof({c}) NOT IN ('integer', 'null'))"),
        TypeRule(("char", "clob", "text"), "string", "text", guard="(typeof({c}) NOT IN ('text', 'null'))"),
        TypeRule(("blob",), "binary", "bytes", guard="(typeof({c}) NOT IN ('blob', 'null'))"),
        TypeRule(("real", "floa", "doub"), "double", "floats", guard="(typeof({c}) NOT IN ('real', 'null'))"),
        TypeRule(
            ("numeric",),
            "string",
            "anything else that is declared, such as `DATETIME`, `DATE`, `DECIMAL`, `NUMERIC`: the value's"
            " text; bytes stop the batch. `types:` can make it a `timestamp`, a `date` or a `decimal(p,s)`",
            select=_TEXT,
            guard="(typeof({c}) = 'blob')",
        ),
        TypeRule(("",), "", "it may be anything; `string` gives each value's text"),
    ),
)
