from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.lake import LocalLake
from tests.support.project import (
    Database,
    Project,
    duckdb_database,
    mysql_database,
    postgres_database,
    s3_lake,
    snowflake_database,
    sqlite_database,
)

Make = Callable[..., Project]


@pytest.fixture
def make(request: pytest.FixtureRequest, tmp_path: Path, spark: SparkSession) -> Make:
    """A function that makes a project from the named engine into a local folder or a bucket.

    Needs the session's Spark, so that a command in this process does not start one."""

    def project(engine: str = "sqlite", output: str = "local") -> Project:
        database: Database
        if engine == "sqlite":
            database = sqlite_database(tmp_path / "source.db")
        elif engine == "duckdb":
            database = duckdb_database(tmp_path / "source.duckdb")
        elif engine == "snowflake":
            database = snowflake_database(request.getfixturevalue("snowflake"))
        elif engine == "mysql":
            database = mysql_database(request.getfixturevalue("mariadb"))
        else:
            database = postgres_database(request.getfixturevalue("postgres"))
        if output == "local":
            return Project(tmp_path, database, LocalLake(tmp_path / "lake"))
        text, lake = s3_lake(request.getfixturevalue("s3"))
        return Project(tmp_path, database, lake, text)

    return project
