"""A good project file becomes the frozen values that every other room reads."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from tidegauge.config.load import load_project
from tidegauge.errors import Place
from tidegauge.ledger.address import parse
from tidegauge.model.ledger_address import OPTIONS
from tidegauge.model.mode import Mode
from tidegauge.model.secret import Secret
from tidegauge.model.spec import (
    Database,
    DeleteMode,
    Drift,
    Engine,
    Lake,
    NullCursor,
    Project,
    ReadMethod,
    SparkSettings,
    Sync,
)

FULL = """\
pipeline: settlement
ledger: sqlite:///state/ledger.db
lease: 90s
spark: {master: "local[2]", conf: {spark.sql.ansi.enabled: true, spark.executor.cores: 2}}
connections:
  app:
    type: mysql
    host: db.internal
    port: 3307
    database: settlement
    user: reader
    password: "${env:APP_PASSWORD}"
    options: {connect_timeout: 5s, SSL: verify-ca, ssl_ca: certs/ca.pem}
  pg: {type: postgresql, host: "::1", database: d, user: u}
  shop: {type: sqlite, path: data/shop.db}
  lake: {type: parquet, path: s3a://company-lake/raw/, endpoint: "http://localhost:9000/", region: eu-1,
         access_key: "${env:S3_KEY}", secret_key: "${env:S3_SECRET}"}
  local: {type: parquet, path: lake}
sync:
  - from: app
    to: lake
    tables: ["settlement.*"]
    exclude: settlement.tmp_*
    cursor: update_at
    key: id
    settle: 1h30m
    lookback: 0
    initial: 2025-01-01 00:00:00
    batch_rows: 10_000
    parallel: 4
    null_cursor: include
    open_transactions: {ignore_after: 1h}
    types: {price: "decimal(20, 4)", on: string}
    zero_dates: null
    rename: "{schema}_{table}"
    mode: append
    tags: [daily, core]
    override:
      settlement.partner_info: {cursor: modified_at, key: [partner_id, region], rename: partners}
      settlement.claims: {cursor: "coalesce(modified_at, created_at)", initial: null, open_transactions: wait}
  - {from: shop, via: local, tables: orders, override: {orders: {cursor: id}}}
"""


def load(folder: Path, text: str) -> Project:
    file = folder / "tidegauge.yml"
    file.write_text(text, encoding="utf-8")
    return load_project(file)


@pytest.fixture
def full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    for name in ("APP_PASSWORD", "S3_KEY", "S3_SECRET"):
        monkeypatch.setenv(name, f"value-of-{name}")
    return load(tmp_path, FULL)


def test_the_smallest_project_has_the_defaults(tmp_path: Path) -> None:
    project = load(tmp_path, "pipeline: shop\n")
    assert project == Project(
        pipeline="shop",
        file=tmp_path / "tidegauge.yml",
        ledger=f"sqlite:///{tmp_path}/.tidegauge/ledger.db",
        lease=timedelta(seconds=60),
        spark=SparkSettings(),
        connections={},
        syncs=(),
    )
    assert project.root == tmp_path


def test_the_top_is_read(full: Project, tmp_path: Path) -> None:
    assert full.pipeline == "settlement"
    assert full.ledger == f"sqlite:///{tmp_path}/state/ledger.db"
    assert full.lease == timedelta(seconds=90)
    assert full.spark == SparkSettings(
        "local[2]", {"spark.sql.ansi.enabled": "true", "spark.executor.cores": "2"}
    )


def test_connections_are_read_with_their_places(full: Project, tmp_path: Path) -> None:
    file = str(tmp_path / "tidegauge.yml")
    assert full.connections["app"] == Database(
        "app",
        Engine.MYSQL,
        host="db.internal",
        port=3307,
        database="settlement",
        user="reader",
        password=Secret("value-of-APP_PASSWORD"),
        options={"connect_timeout": "5", "ssl": "verify-ca", "ssl_ca": f"{tmp_path}/certs/ca.pem"},
        place=Place(file, 6, 3),
    )
    assert full.connections["pg"] == Database(
        "pg",
        Engine.POSTGRESQL,
        host="::1",
        port=5432,
        database="d",
        user="u",
        schema="public",
        place=Place(file, 14, 3),
    )
    assert full.connections["shop"] == Database(
        "shop", Engine.SQLITE, path=tmp_path / "data/shop.db", place=Place(file, 15, 3)
    )
    assert full.connections["lake"] == Lake(
        "lake",
        "s3a://company-lake/raw",
        endpoint="http://localhost:9000",
        region="eu-1",
        access_key=Secret("value-of-S3_KEY"),
        secret_key=Secret("value-of-S3_SECRET"),
        place=Place(file, 16, 3),
    )
    assert full.connections["local"] == Lake("local", f"{tmp_path}/lake", place=Place(file, 18, 3))


def test_a_sync_is_read_with_its_place(full: Project, tmp_path: Path) -> None:
    sync = full.syncs[0]
    file = str(tmp_path / "tidegauge.yml")
    assert sync.source is full.connections["app"]
    assert (sync.via, sync.to) == (None, full.connections["lake"])
    assert sync.tables == ("settlement.*",)
    assert sync.exclude == ("settlement.tmp_*",)
    assert sync.tags == ("daily", "core")
    assert sync.place == Place(file, 20, 5)
    options = sync.options
    assert options.cursor == "update_at"
    assert options.key == ("id",)
    assert options.settle == timedelta(hours=1, minutes=30)
    assert options.lookback == timedelta(0)
    assert options.initial == "2025-01-01 00:00:00"
    assert options.batch_rows == 10_000
    assert options.parallel == 4
    assert options.null_cursor is NullCursor.INCLUDE
    assert options.ignore_transactions_after == timedelta(hours=1)
    assert options.types == {"price": "decimal(20,4)", "on": "string"}
    assert options.zero_dates == "null"
    assert options.rename == "{schema}_{table}"
    assert options.place == Place(file, 20, 5)


def test_an_override_keeps_what_it_does_not_name(full: Project, tmp_path: Path) -> None:
    partner = full.syncs[0].per_table["settlement.partner_info"]
    assert (partner.cursor, partner.key, partner.rename) == (
        "modified_at",
        ("partner_id", "region"),
        "partners",
    )
    assert partner.settle == timedelta(hours=1, minutes=30)
    assert partner.initial == "2025-01-01 00:00:00"
    assert partner.place == Place(str(tmp_path / "tidegauge.yml"), 39, 7)


def test_null_in_an_override_brings_back_the_default(full: Project) -> None:
    claims = full.syncs[0].per_table["settlement.claims"]
    assert claims.cursor == "coalesce(modified_at, created_at)"
    assert claims.initial is None
    assert claims.ignore_transactions_after is None
    assert claims.key == ("id",)


def test_via_alone_is_to_and_a_sync_may_leave_its_cursor_to_the_overrides(full: Project) -> None:
    sync = full.syncs[1]
    assert (sync.via, sync.to) == (None, full.connections["local"])
    assert sync.options.mode is Mode.APPEND
    assert sync.options.cursor == ""
    assert sync.per_table["orders"].cursor == "id"


def test_a_sync_has_the_defaults_of_the_reference(tmp_path: Path) -> None:
    text = (
        "pipeline: x\nconnections: {a: {type: sqlite, path: a.db}, b: {type: parquet, path: b}}\n"
        "sync: [{from: a, to: b, tables: t, cursor: c}]\n"
    )
    options = load(tmp_path, text).syncs[0].options
    assert options.key == ()
    assert options.settle == timedelta(seconds=30)
    assert options.lookback == timedelta(0)
    assert (options.initial, options.rename, options.ignore_transactions_after) == (None, None, None)
    assert (options.batch_rows, options.parallel) == (2_000_000, 2)
    assert options.null_cursor is NullCursor.FAIL
    assert (options.types, options.zero_dates) == ({}, "fail")
    assert (options.drift, options.read, options.deletes) == (Drift.EVOLVE, ReadMethod.AUTO, DeleteMode.NONE)
    assert (options.deletes_limit, options.metadata_columns, options.hybrid) == (0.3, False, False)
    assert (options.distkey, options.sortkey) == (None, ())


WAREHOUSES = """\
pipeline: settlement
connections:
  app: {type: mysql, host: db.internal, database: settlement, user: reader}
  lake: {type: parquet, path: s3a://company-lake/raw}
  dw: {type: redshift, host: dw.internal, database: dw, user: loader, password: "${env:DW_PASSWORD}",
       iam_role: "arn:aws:iam::1:role/load", options: {ssl: disable, connect_timeout: 5s}}
  keyed: {type: redshift, host: dw.internal, port: 5440, database: dw, user: u, schema: raw,
          access_key: "${env:S3_KEY}", secret_key: "${env:S3_SECRET}"}
  duck: {type: duckdb, path: out/dw.duckdb}
  snow: {type: snowflake, account: ORG-ACC.eu-west-1, user: u, password: "${env:DW_PASSWORD}", database: D,
         warehouse: W, role: R, options: {host: localhost, port: 1234, protocol: http}}
  pg: {type: postgresql, database: d, user: u}
  archive: {type: postgresql, database: d, user: u, schema: archive}
"""


def sync_of(folder: Path, monkeypatch: pytest.MonkeyPatch, entry: str) -> Sync:
    return _warehouses(folder, monkeypatch, f"  - {entry}\n").syncs[0]


def _warehouses(folder: Path, monkeypatch: pytest.MonkeyPatch, entries: str = "") -> Project:
    for name in ("DW_PASSWORD", "S3_KEY", "S3_SECRET"):
        monkeypatch.setenv(name, f"value-of-{name}")
    return load(folder, WAREHOUSES + (f"sync:\n{entries}" if entries else ""))


def test_warehouses_are_read_with_their_defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = _warehouses(tmp_path, monkeypatch).connections
    file = str(tmp_path / "tidegauge.yml")
    assert found["dw"] == Database(
        "dw",
        Engine.REDSHIFT,
        host="dw.internal",
        port=5439,
        database="dw",
        user="loader",
        password=Secret("value-of-DW_PASSWORD"),
        schema="public",
        iam_role="arn:aws:iam::1:role/load",
        options={"ssl": "disable", "connect_timeout": "5"},
        place=Place(file, 5, 3),
    )
    keyed = found["keyed"]
    assert isinstance(keyed, Database)
    assert (keyed.port, keyed.schema, keyed.iam_role) == (5440, "raw", None)
    assert (keyed.access_key, keyed.secret_key) == (Secret("value-of-S3_KEY"), Secret("value-of-S3_SECRET"))
    assert found["duck"] == Database(
        "duck", Engine.DUCKDB, path=tmp_path / "out/dw.duckdb", schema="main", place=Place(file, 9, 3)
    )
    assert found["snow"] == Database(
        "snow",
        Engine.SNOWFLAKE,
        account="ORG-ACC.eu-west-1",
        database="D",
        user="u",
        password=Secret("value-of-DW_PASSWORD"),
        schema="PUBLIC",
        warehouse="W",
        role="R",
        options={"host": "localhost", "port": "1234", "protocol": "http"},
        place=Place(file, 10, 3),
    )


def test_a_sync_has_one_stage_or_two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = "".join(
        f"  - {{from: app, {ends}, tables: t, cursor: c}}\n"
        for ends in (
            "via: lake, to: dw",
            "to: pg",
            "to: duck",
            "to: lake",
            "via: lake",
            "via: lake, to: snow",
        )
    )
    project = _warehouses(tmp_path, monkeypatch, entries)
    made = [(sync.via and sync.via.name, sync.to.name, sync.options.mode) for sync in project.syncs]
    assert made == [
        ("lake", "dw", Mode.MERGE),
        (None, "pg", Mode.MERGE),
        (None, "duck", Mode.MERGE),
        (None, "lake", Mode.APPEND),
        (None, "lake", Mode.APPEND),
        ("lake", "snow", Mode.MERGE),
    ]


def test_how_rows_land_is_said_on_the_sync_and_in_overrides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync = sync_of(
        tmp_path,
        monkeypatch,
        "{from: app, via: lake, to: dw, tables: ['s.*'], cursor: c, mode: scd2, drift: freeze, read: jdbc,"
        " deletes: soft, deletes_limit: 12.5%, metadata_columns: true, distkey: id, sortkey: [c, id],"
        " override: {s.a: {mode: append, deletes: none, deletes_limit: 0.05}, s.b: {mode: null}}}",
    )
    options = sync.options
    assert (options.mode, options.drift, options.read) == (Mode.SCD2, Drift.FREEZE, ReadMethod.JDBC)
    assert (options.deletes, options.deletes_limit, options.metadata_columns) == (
        DeleteMode.SOFT,
        0.125,
        True,
    )
    assert (options.distkey, options.sortkey, options.hybrid) == ("id", ("c", "id"), False)
    a, b = sync.per_table["s.a"], sync.per_table["s.b"]
    assert (a.mode, a.deletes, a.deletes_limit, a.drift) == (Mode.APPEND, DeleteMode.NONE, 0.05, Drift.FREEZE)
    assert (b.mode, b.deletes, b.sortkey) == (Mode.MERGE, DeleteMode.SOFT, ("c", "id"))


@pytest.mark.parametrize(
    ("written", "share"),
    [("30%", 0.3), ("100%", 1.0), ("0%", 0.0), ("0", 0.0), ("0.07", 0.07), (".5", 0.5), ("1.0", 1.0)],
)
def test_a_limit_is_a_percentage_or_a_share(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: str, share: float
) -> None:
    entry = f"{{from: app, to: pg, tables: t, cursor: c, deletes_limit: {written}}}"
    assert sync_of(tmp_path, monkeypatch, entry).options.deletes_limit == share


@pytest.mark.parametrize(
    "entry",
    [
        "{from: pg, to: pg, tables: LOG, cursor: c, rename: '{table}_REPLICATION'}",
        "{from: pg, to: pg, tables: LOG, cursor: c, override: {LOG: {rename: COPY}}}",
        "{from: pg, to: pg, tables: sales.*, cursor: c}",
        "{from: pg, to: archive, tables: LOG, cursor: c}",
        "{from: pg, to: app, tables: LOG, cursor: c}",
    ],
)
def test_a_replica_may_stand_beside_its_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry: str
) -> None:
    assert sync_of(tmp_path, monkeypatch, entry).tables


@pytest.mark.parametrize(
    ("written", "path"),
    [
        ("lake", "{base}/lake"),
        ("lake/", "{base}/lake"),
        ("/data/lake/", "/data/lake"),
        ("file:lake", "{base}/lake"),
        ("file:/data/lake", "/data/lake"),
        ("file:///data/lake", "/data/lake"),
        ("s3a://bucket", "s3a://bucket"),
        ("s3a://bucket/", "s3a://bucket"),
        ("s3a://bucket/a b/é/", "s3a://bucket/a b/é"),
    ],
)
def test_a_lake_path_is_absolute_and_has_no_slash_at_its_end(tmp_path: Path, written: str, path: str) -> None:
    project = load(tmp_path, f"pipeline: x\nconnections: {{b: {{type: parquet, path: '{written}'}}}}\n")
    lake = project.connections["b"]
    assert isinstance(lake, Lake)
    assert lake.path == path.format(base=tmp_path)


@pytest.mark.parametrize(
    "host", ["localhost", "db-1.internal", "my_db", "10.0.0.1", "::1", "db.internal.", "123db"]
)
def test_host_names_and_addresses_are_taken(tmp_path: Path, host: str) -> None:
    text = f"pipeline: x\nconnections: {{d: {{type: mysql, host: '{host}', database: d, user: u}}}}\n"
    database = load(tmp_path, text).connections["d"]
    assert isinstance(database, Database)
    assert database.host == host


def test_names_of_databases_and_users_may_be_any_text(tmp_path: Path) -> None:
    name = "a b/c?d&e=f#%41`\";--'$é"
    quoted = name.replace("'", "''")
    text = f"pipeline: x\nconnections: {{d: {{type: mysql, database: '{quoted}', user: '{quoted}'}}}}\n"
    database = load(tmp_path, text).connections["d"]
    assert isinstance(database, Database)
    assert (database.database, database.user) == (name, name)


def test_yaml_words_mean_themselves(tmp_path: Path) -> None:
    text = (
        "pipeline: 007\n"
        "connections: {on: {type: mysql, database: yes, user: 1_000}, no: {type: parquet, path: 1:30}}\n"
        "sync: [{from: on, to: no, tables: [off], cursor: 2025-01-01}]\n"
    )
    project = load(tmp_path, text)
    database = project.connections["on"]
    assert isinstance(database, Database)
    assert (project.pipeline, database.database, database.user) == ("007", "yes", "1_000")
    assert project.syncs[0].tables == ("off",)
    assert project.syncs[0].options.cursor == "2025-01-01"


def test_anchors_and_merge_keys_work_and_point_to_where_the_value_is_written(tmp_path: Path) -> None:
    text = (
        "pipeline: x\nconnections:\n  a: &server {type: mysql, host: h, database: d, user: u}\n"
        "  b: {<<: *server, user: v}\n"
    )
    database = load(tmp_path, text).connections["b"]
    assert isinstance(database, Database)
    assert (database.host, database.user) == ("h", "v")


@pytest.mark.parametrize("scheme", ["postgresql", "mysql"])
def test_a_server_ledger_is_taken_as_it_stands(tmp_path: Path, scheme: str) -> None:
    address = f"{scheme}://tide@db.internal:1234/ledger?connect_timeout=5"
    assert load(tmp_path, f"pipeline: x\nledger: {address}\n").ledger == address


def test_the_ledger_takes_every_option_that_configuration_lets_through() -> None:
    for scheme, names in OPTIONS.items():
        for name in names:
            parse(f"{'json:' if scheme == 's3a' else ''}{scheme}://h/d?{name}=http://h")


def test_an_absolute_sqlite_ledger_stays_absolute(tmp_path: Path) -> None:
    assert load(tmp_path, "pipeline: x\nledger: sqlite:////var/l.db\n").ledger == "sqlite:////var/l.db"


def test_a_ledger_of_files_is_relative_to_the_project_file_or_in_a_bucket(tmp_path: Path) -> None:
    for scheme in ("json", "delta"):
        found = load(tmp_path, f"pipeline: x\nledger: {scheme}:state/l\n").ledger
        assert found == f"{scheme}:{tmp_path}/state/l"
        bucket = f"{scheme}:s3a://ops/ledger?endpoint=http://127.0.0.1:9000&region=eu-west-1"
        assert load(tmp_path, f"pipeline: x\nledger: '{bucket}'\n").ledger == bucket
