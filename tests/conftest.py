"""Servers that many tests share; each makes its own database, bucket or ledger inside."""

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
from tidegauge.spark.jars import Needs
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
"""Contract suites that hold every engine to its whole promise in `make test`. The others show there what is
built on that promise, on engines of each kind that cost little."""
CHEAP, DEAR = {"sqlite", "postgres", "postgresql"}, {"delta", "duckdb", "mariadb", "redshift", "snowflake"}

# How long an example takes is the machine's affair.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A test has the mark of its folder. `shown_on("sqlite")`: cases whose id has none of these words are
    further ones, for `make test-long`."""
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
    _order(items)
    nowhere = [name for name, somewhere in shown.items() if not somewhere]
    if nowhere and not any("[" in word for word in config.args):
        raise pytest.UsageError(f"no case has a word that `shown_on` names: {nowhere}")


def pytest_collection_finish() -> None:
    """What was collected stays: it need not be looked through again and again for what can go."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish() -> None:
    gc.unfreeze()  # else some libraries take what is left at the end for a leak


def _order(items: list[pytest.Item]) -> None:
    """File by file: busy ones and contract tests side by side, and at the end the quick ones."""
    folders: dict[str, dict[Path, None]] = {}
    for item in items:
        folders.setdefault(item.path.relative_to(TESTS).parts[0], {})[item.path] = None
    busy = [path for folder in BUSY for path in folders.get(folder, ())]
    groups = [busy, [*folders.get("contract", ())]]
    places = {path: number / len(group) for group in groups for number, path in enumerate(group)}
    items.sort(key=lambda item: places.get(item.path, 1.0))


def _words(item: pytest.Item) -> set[str]:
    """Those of a case's id; none for a test without cases."""
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
    """What a test calls a secret is a word like any other in the next."""
    before = {*secret._known}, {*secret._open}
    yield
    for now, then in zip((secret._known, secret._open), before, strict=True):
        now.intersection_update(then)


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MariaDB]:
    """One for each test process: what is open on it is seen in all its databases, and holds bounds back; and
    the server renews that list only when nobody has asked for a while."""
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
    """Snowflake's connector reaches fakesnow: a DuckDB inside this process, empty at first."""
    import fakesnow

    # Statements that it does not know and whose effect is not seen here.
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
    """Where a ledger can be made, on each kind of store in turn; nothing is there yet.

    The same documents in the other place, a folder or S3: `document_ledger_address` and `store_address`.
    """
    return _ledger_address(request, tmp_path)


@pytest.fixture(params=[*SQL, "json", "delta"])
def store_address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """As `ledger_address`, once for each kind of store: for what stands above the ledger."""
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
    # An address holds no keys: they come by the usual AWS chain.
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3.secret_key)
    return f"s3a://{s3.create_bucket()}/ops/ledger?endpoint={s3.endpoint}&region={s3.region}"


@pytest.fixture(scope="session")
def _postgres_database(postgres: Postgres) -> str:
    return postgres.create_database()


@pytest.fixture
def _postgres_ledger(postgres: Postgres, _postgres_database: str) -> str:
    # Emptied, not made anew: a database of PostgreSQL is three hundred files.
    with postgres.connect(_postgres_database) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
    return postgres.address(_postgres_database)


@pytest.fixture(scope="session")
def spark() -> SparkSession:
    """The one session of a test process, as a run opens it beside others. Commands that are tested from
    outside open their own."""
    join_java(**shared_java())
    return open_session(SparkSettings(), list(Needs))


@pytest.fixture(params=["sqlite", "mysql", "postgresql", "duckdb"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A source of its own, on each database in turn."""
    match request.param:
        case "sqlite":
            return sqlite_place(tmp_path)
        case "mysql":
            return mysql_place(request.getfixturevalue("mariadb"))
        case "duckdb":
            return duckdb_place(tmp_path)
        case _:
            return postgresql_place(request.getfixturevalue("postgres"))
