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
        parts.append("| type | arrives as | |\n|---|---|---|")
        for rule in rules.rules:
            names = ", ".join(f"`{name}`" if name else "none declared" for name in rule.types)
            condition = f" {rule.condition}" if rule.condition else ""
            arrives = f"`{rule.arrives}`" if rule.arrives else "error at plan time"
            arrives = arrives.replace("{p}", "p").replace("{s}", "s")
            parts.append(f"| {names}{condition} | {arrives} | {rule.remark.replace('|', chr(92) + '|')} |")
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

`timestamp` is an instant, `timestamp_ntz` the digits of a clock without a zone. Both travel as whole
microseconds since 1970, so that no zone setting of a session, a driver or a machine can shift them. Years
from 1 to 9999 are held; anything outside stops the batch.
"""

if __name__ == "__main__":
    sys.stdout.write(markdown())
