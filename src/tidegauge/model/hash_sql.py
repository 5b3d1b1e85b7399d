"""SQL of `model.canonical.hash_text` in each database that computes it."""

from __future__ import annotations

from tidegauge.model.canonical import DIGITS
from tidegauge.model.engines import Engine

_SQL = {
    Engine.MYSQL: f"CAST(CONV(LEFT(MD5({{text}}), {DIGITS}), 16, 10) AS SIGNED)",
    Engine.POSTGRESQL: f"('x' || substr(md5({{text}}), 1, {DIGITS}))::bit({4 * DIGITS})::bigint",
    Engine.DUCKDB: f"CAST('0x' || left(md5({{text}}), {DIGITS}) AS BIGINT)",
}


def hash_in_sql(engine: Engine, text: str) -> str:
    """SQL of the hash of the text that the SQL `text` gives; NULL for NULL."""
    return _SQL[engine].format(text=text)
