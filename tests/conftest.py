"""Servers that many tests share; each test makes its own database, bucket or ledger there."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tests.support.servers import (
    S3,
    MariaDB,
    Postgres,
    Redshift,
    start_mariadb,
    start_redshift,
)
from tests.support.shared_servers import SharedServers, shared_java, shared_postgres, shared_s3
from tests.support.snowflake_server import SnowflakeServer, start_snowflake
from tests.support.source_parts import Place, duckdb_place, mysql_place, postgresql_place, sqlite_place
from tidegauge.model import secret
from tidegauge.model.spec import SparkSettings
from tidegauge.spark.jars import JarSet
from tidegauge.spark.pyspark_private import join_java
from tidegauge.spark.session import open_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


TESTS = Path(__file__).parent
BUSY = ("crash", "integration", "spark")
"""Folders whose tests keep the machine busy; contract tests often wait for a server."""

ON_EVERY_ENGINE = {
    "test_blocks",
    "test_ledger",
    "test_ledger_migrations",
    "test_ledger_open",
    "test_ledger_races",
    "test_source",
    "test_warehouse",
    "test_warehouse_crash",
    "test_written_before",
}
"""Contract suites that test every engine fully in `make test`. The others test what is built on these
promises, in `make test` only on the fast engines of each kind."""
CHEAP, DEAR = {"sqlite", "postgres", "postgresql"}, {"delta", "duckdb", "mariadb", "redshift", "snowflake"}

# No deadline for a single example: a busy machine may be slow.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark each test with the name of its folder. Of a test marked `shown_on("sqlite")`, mark the cases whose
    id has none of these words as `long`, for `make test-long`."""
    shown: dict[str, bool] = {}
    on_cheap = {item.nodeid.partition("[")[0] for item in items if not CHEAP.isdisjoint(_words(item))}
    for item in items:
        folder = item.path.relative_to(TESTS).parts[0]
        item.add_marker(folder)
        mark = item.get_closest_marker("shown_on")
        name, words = item.nodeid.partition("[")[0], _words(item)
        if mark is None and folder == "contract" and item.path.stem not in ON_EVERY_ENGINE:
            if name in on_cheap and CHEAP.isdisjoint(words) and not DEAR.isdisjoint(words):
                item.add_marker("long")
            continue
        if mark is None or not words:
            continue
        shown[name] = shown.get(name, False) or not words.isdisjoint(mark.args)
        if words.isdisjoint(mark.args):
            item.add_marker("long")
    _sort_by_file(items)
    nowhere = [name for name, somewhere in shown.items() if not somewhere]
    if nowhere and not any("[" in word for word in config.args):
        raise pytest.UsageError(f"no case has a word that `shown_on` names: {nowhere}")


def pytest_collection_finish() -> None:
    """Exclude the collected tests from garbage collection: they stay until the end."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish() -> None:
    gc.unfreeze()  # otherwise some libraries report the objects that are left at the end as a leak


def _sort_by_file(items: list[pytest.Item]) -> None:
    """Sort by file: mix the busy folders and the contract tests, and put the quick tests last."""
    folders: dict[str, dict[Path, None]] = {}
    for item in items:
        folders.setdefault(item.path.relative_to(TESTS).parts[0], {})[item.path] = None
    busy = [path for folder in BUSY for path in folders.get(folder, ())]
    groups = [busy, [*folders.get("contract", ())]]
    places = {path: number / len(group) for group in groups for number, path in enumerate(group)}
    items.sort(key=lambda item: places.get(item.path, 1.0))


def _words(item: pytest.Item) -> set[str]:
    """Find the words of a case's id; none for a test without cases."""
    callspec = getattr(item, "callspec", None)
    return {callspec.id, *callspec.id.split("-")} if callspec is not None else set()


_shared = pytest.StashKey[SharedServers]()


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput") and not config.option.collectonly:
        config.stash[_shared] = SharedServers()


def pytest_unconfigure(config: pytest.Config) -> None:
    if _shared in config.stash:
        config.stash[_shared].close()


@pytest.fixture(autouse=True)
def _forget_secrets() -> Iterator[None]:
    """Remove a test's secrets from the known ones, so that later tests' output is not masked."""
    before = {*secret._known}, {*secret._open}
    yield
    for now, then in zip((secret._known, secret._open), before, strict=True):
        now.intersection_update(then)


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MariaDB]:
    """One server for each test process: an open transaction is seen in all its databases and holds bounds
    back, and the server renews its list of transactions only when nobody has asked for a while."""
    with start_mariadb() as server:
        yield server


@pytest.fixture(scope="session")
def postgres() -> Postgres:
    return shared_postgres()


@pytest.fixture(scope="session")
def s3() -> S3:
    return shared_s3()


@pytest.fixture(scope="session")
def redshift(postgres: Postgres, s3: S3) -> Iterator[Redshift]:
    with start_redshift(postgres, s3) as server:
        yield server


@pytest.fixture
def fake_snowflake() -> Iterator[None]:
    """Snowflake's connector reaches fakesnow, an empty DuckDB inside this process."""
    import fakesnow

    # Statements that fakesnow does not know and whose effect no test needs.
    idle = [r"ALTER SESSION SET LOCK_TIMEOUT", r"DROP STAGE"]
    with fakesnow.patch(nop_regexes=idle):
        yield


@pytest.fixture(scope="session")
def snowflake() -> Iterator[SnowflakeServer]:
    """Snowflake's own connector reaches fakesnow's server, from any process."""
    with start_snowflake() as server:
        yield server


SQL = ["sqlite", "postgres", "mariadb"]
DOCUMENTS = ["json", "json-s3", "delta", "delta-s3"]


@pytest.fixture(params=[*SQL, "json", "delta-s3"])
def ledger_address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An address where a ledger can be created, on each kind of store in turn; nothing is there yet.

    JSON on S3 and Delta in a folder are in `document_ledger_address` and `store_address`.
    """
    return _ledger_address(request, tmp_path)


@pytest.fixture(params=[*SQL, "json", "delta"])
def store_address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Like `ledger_address`, with a single place for each kind of store: for code that only uses a ledger."""
    return _ledger_address(request, tmp_path)


@pytest.fixture(params=SQL)
def sql_ledger_address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return _ledger_address(request, tmp_path)


@pytest.fixture(params=DOCUMENTS)
def document_ledger_address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return _ledger_address(request, tmp_path)


def _ledger_address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    store, _, where = request.param.partition("-")
    match store:
        case "sqlite":
            return f"sqlite:///{tmp_path / 'made' / 'later' / 'ledger.db'}"
        case "postgres":
            address: str = request.getfixturevalue("_postgres_ledger")
            return address
        case "mariadb":
            server: MariaDB = request.getfixturevalue("mariadb")
            return server.address(server.create_database())
    if where == "s3":
        place: str = request.getfixturevalue("_s3_ledger")
        return f"{store}:{place}"
    return f"{store}:{tmp_path / 'made' / 'later' / 'ledger é'}"


@pytest.fixture
def _s3_ledger(s3: S3, monkeypatch: pytest.MonkeyPatch) -> str:
    # An address holds no keys: they come from the usual AWS chain.
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3.secret_key)
    return f"s3a://{s3.create_bucket()}/ops/ledger?endpoint={s3.endpoint}&region={s3.region}"


@pytest.fixture(scope="session")
def _postgres_database(postgres: Postgres) -> str:
    return postgres.create_database()


@pytest.fixture
def _postgres_ledger(postgres: Postgres, _postgres_database: str) -> str:
    # Emptied, not created again: a new PostgreSQL database is three hundred files.
    with postgres.connect(_postgres_database) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
    return postgres.address(_postgres_database)


@pytest.fixture(scope="session")
def spark() -> SparkSession:
    """The one session of a test process, in the Java that test processes share. Commands that are tested in
    other processes open their own."""
    join_java(**shared_java())
    return open_session(SparkSettings(), list(JarSet))


@pytest.fixture(params=["sqlite", "mysql", "postgresql", "duckdb"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A new, empty source database, on each engine in turn."""
    match request.param:
        case "sqlite":
            return sqlite_place(tmp_path)
        case "mysql":
            return mysql_place(request.getfixturevalue("mariadb"))
        case "duckdb":
            return duckdb_place(tmp_path)
        case _:
            return postgresql_place(request.getfixturevalue("postgres"))
