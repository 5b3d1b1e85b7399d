"""The engines that hash rows themselves."""

from __future__ import annotations

from collections.abc import Mapping

from tidegauge.compare.blocks.duckdb import DuckdbHash
from tidegauge.compare.blocks.mysql import MysqlHash
from tidegauge.compare.blocks.postgresql import PostgresqlHash
from tidegauge.compare.blocks.sqlite import SqliteHash
from tidegauge.compare.blocks.words import HashSql
from tidegauge.model.engines import Engine

WORDS: Mapping[Engine, HashSql] = {
    Engine.MYSQL: MysqlHash(),
    Engine.POSTGRESQL: PostgresqlHash(),
    Engine.DUCKDB: DuckdbHash(),
    Engine.SQLITE: SqliteHash(),
}
