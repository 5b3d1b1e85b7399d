"""The page `docs/types.md`: how the types of every engine arrive, from the rules that the readers follow.

`python -m tidegauge.sources.types_page` prints it.
"""

from __future__ import annotations

import sys

from tidegauge.sources.engines import ENGINES


def markdown() -> str:
    parts = [_INTRODUCTION]
    for rules in sorted((engine.rules for engine in ENGINES.values()), key=lambda rules: rules.title):
        parts.append(f"## {rules.title}\n")
        parts.extend(f"{remark}\n" for remark in rules.remarks)
        kept = any(rule.kept for rule in rules.rules)
        parts.append("| type | arrives as | |" + " in a target of the same kind |" * kept)
        parts.append("|---|---|---|" + "---|" * kept)
        for rule in rules.rules:
            names = ", ".join(f"`{name}`" if name else "none declared" for name in rule.types)
            condition = f" {rule.condition}" if rule.condition else ""
            arrives = f"`{rule.arrives}`" if rule.arrives else "error at plan time"
            arrives = arrives.replace("{p}", "p").replace("{s}", "s")
            remark = rule.remark.replace("|", chr(92) + "|")
            parts.append(f"| {names}{condition} | {arrives} | {remark} |" + f" {rule.kept} |" * kept)
        parts.append("")
    return "\n".join(parts)


_INTRODUCTION = """\
# How column types arrive

<!-- made by `python -m tidegauge.sources.types_page`; the rules are in `src/tidegauge/sources/*/types.py` -->

A value arrives exactly as it is in the source, or not at all. A column whose type cannot be held exactly
stops the plan; a single value that cannot be held stops the batch, before any of its rows is visible. Both
errors name the column and the way out. `types:` says how a column shall arrive instead:

- `string`: the database's own text for the value; works for every type (bytes become hexadecimal digits);
- `decimal(p,s)`: for numbers, and for text that holds numbers; a value that would be rounded stops the batch;
- `timestamp`, `timestamp_ntz`, `date`: for text in ISO 8601, in UTC where it names a zone.

It names a column, or a type of the source, which means every column of that type that is not named itself:
`types: {numeric: string, total: "decimal(20,4)"}`, on a sync for all of its tables. A plan that finds columns
which it cannot hold names all of them, and the one line that settles it.

From PostgreSQL into PostgreSQL, and from MySQL or MariaDB into MySQL or MariaDB, in one stage, a type that
Spark does not have arrives as it is: the text travels, or the bytes, and the target declares what the last
column of its table says. A text column that an earlier version made stays one. Through a lake, and into Delta
tables, it is text, or an error, as the tables say. MariaDB's `json` is a `longtext`, and arrives as one.

`timestamp` is an instant, `timestamp_ntz` the digits of a clock without a zone. Both travel as whole
microseconds since 1970, so that no zone setting of a session, a driver or a machine can shift them. Years
from 1 to 9999 are held; anything outside stops the batch.
"""

if __name__ == "__main__":
    sys.stdout.write(markdown())
