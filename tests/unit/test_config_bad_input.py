"""Every mistake in a project file: the class, the line, the column and the nearest word.

`▲` in a text marks where the error must point, and is taken out before the file is written.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegauge.config.load import load_project
from tidegauge.errors import ConfigError

HEAD = """\
pipeline: shop
connections:
  app: {type: sqlite, path: shop.db}
  db: {type: postgresql, host: localhost, database: shop, user: reader}
  lake: {type: parquet, path: lake}
  app2: {type: sqlite, path: shop.db}
  bucket: {type: parquet, path: s3a://bucket/raw}
  duck: {type: duckdb, path: dw.duckdb}
  dw: {type: redshift, host: localhost, database: dw, user: loader}
  snow: {type: snowflake, account: a, database: d, user: u}
"""
SYNC = HEAD + "sync:\n  - {from: app, to: lake, tables: orders, cursor: updated_at, "
DELTA = HEAD + "  tables: {type: delta, path: t}\nsync:\n  - {from: app, to: tables, tables: a, cursor: c, "
WAREHOUSE = HEAD + "sync:\n  - {from: app, to: duck, tables: orders, cursor: updated_at, "


def refused(folder: Path, marked: str) -> ConfigError:
    text = marked.replace("▲", "", 1)
    before = marked[: marked.index("▲")]
    file = folder / "tidegauge.yml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load_project(file)
    error = caught.value
    assert error.place is not None
    assert error.place.file == str(file)
    expected = (before.count("\n") + 1, len(before) - before.rfind("\n"))
    assert (error.place.line, error.place.column) == expected, str(error)
    assert error.exit_code == 2
    assert str(error).startswith(f"{file}:{expected[0]}:{expected[1]}: ")
    return error


def connection(body: str) -> str:
    return f"pipeline: shop\nconnections:\n  app: {body}\n"


CASES = {
    # the top
    "unknown key": ("▲pipelin: shop\npipeline: x\n", "unknown key `pipelin`", "`pipeline`"),
    "far key": ("pipeline: x\n▲zzz: 1\n", "unknown key `zzz`", "`connections`"),
    "missing pipeline": ("▲lease: 60s\n", "`pipeline` is missing", "pipeline"),
    "null pipeline": ("pipeline: ▲null\n", "`pipeline` needs a value", None),
    "blank pipeline": ("pipeline: ▲' '\n", "`pipeline` must not be empty", None),
    "list pipeline": ("pipeline: ▲[a]\n", "`pipeline` must be text, not a list", None),
    "control pipeline": ('pipeline: ▲"a\\nb"\n', "`pipeline` holds a control character", None),
    "whole tables": (
        "pipeline: x\nconnections: {a: {type: sqlite, path: a}, b: {type: duckdb, path: b}}\n"
        "sync:\n  - {from: a, to: b, tables: t, cursor: c, without_cursor: ▲snapshots}\n",
        "`snapshots` is not known here",
        "did you mean `snapshot`?",
    ),
    "bad lease": ("pipeline: x\nlease: ▲1 minute\n", "`1 minute` is not a duration", "1h30m"),
    "short lease": ("pipeline: x\nlease: ▲2s\n", "`lease` must be at least 3s", None),
    "sync no list": ("pipeline: x\nsync: ▲{from: a}\n", "`sync` must be a list", None),
    "connections list": ("pipeline: x\nconnections: ▲[a]\n", "`connections` must be a mapping", None),
    "spark key": ("pipeline: x\nspark: {▲mastr: local}\n", "unknown key `mastr`", "`master`"),
    "spark text": ("pipeline: x\nspark: ▲local\n", "`spark` must be a mapping", None),
    "spark conf list": ("pipeline: x\nspark: {conf: {a.b: ▲[1]}}\n", "`a.b` must be text", None),
    # the ledger
    "ledger scheme": ("pipeline: x\nledger: ▲sqlit:///a.db\n", "`sqlit`", "`sqlite`"),
    "ledger postgres": ("pipeline: x\nledger: ▲postgres://h/d\n", "`postgres`", "`postgresql`"),
    "ledger mariadb": ("pipeline: x\nledger: ▲mariadb://h/d\n", "`mariadb`", "`mysql`"),
    "ledger driver": ("pipeline: x\nledger: ▲mysql+pymysql://h/d\n", "`mysql+pymysql`", "`mysql`"),
    "ledger delta": ("pipeline: x\nledger: ▲'delta:'\n", "names no folder", "delta:PATH"),
    "ledger bucket": ("pipeline: x\nledger: ▲'json:s3a://'\n", "names no bucket", "s3a://BUCKET"),
    "ledger s3": ("pipeline: x\nledger: ▲json:s3://b/p\n", "not `s3://`", "s3a://"),
    "ledger s3 option": (
        "pipeline: x\nledger: ▲json:s3a://b/p?regoin=x\n",
        "`regoin` is not allowed",
        "region",
    ),
    "ledger no scheme": ("pipeline: x\nledger: ▲ledger.db\n", "scheme", "sqlite:///PATH"),
    "ledger memory": ("pipeline: x\nledger: ▲'sqlite:///:memory:'\n", "forget", None),
    "ledger no file": ("pipeline: x\nledger: ▲sqlite://a.db\n", "names no file", "sqlite:///PATH"),
    "ledger folder": ("pipeline: x\nledger: ▲sqlite:///a/\n", "names a folder", None),
    "ledger no database": ("pipeline: x\nledger: ▲mysql://h\n", "names no database", None),
    "ledger host": ("pipeline: x\nledger: ▲mysql://a%20b/d\n", "neither a host name", None),
    "ledger port": ("pipeline: x\nledger: ▲mysql://h:99999/d\n", "cannot be read", None),
    "ledger option": (
        "pipeline: x\nledger: ▲mysql://h/d?local_infile=1\n",
        "`local_infile` is not allowed",
        "`ssl_ca`",
    ),
    "ledger list": ("pipeline: x\nledger: ▲[a]\n", "`ledger` must be text", None),
    # connections
    "no type": (connection("{path: a}").replace("app:", "▲app:"), "`type` is missing", "`sqlite`"),
    "type typo": (connection("{type: ▲postgrsql}"), "unknown type `postgrsql`", "`postgresql`"),
    "type postgres": (connection("{type: ▲postgres}"), "unknown type `postgres`", "`postgresql`"),
    "mariadb": (connection("{type: ▲mariadb}"), "unknown type `mariadb`", "MariaDB is type `mysql`"),
    "duckdb memory": (connection("{type: duckdb, path: ▲':memory:'}"), "in memory", "file"),
    "duckdb database": (
        connection("{type: duckdb, ▲database: a, path: a}"),
        "does not belong here",
        "`path`",
    ),
    "redshift host": (
        connection("{type: redshift, database: d, user: u}").replace("app:", "▲app:"),
        "`host` is missing",
        "host",
    ),
    "redshift role": (
        connection('{type: redshift, host: h, database: d, user: u, iam_role: ▲"a\' b"}'),
        "not the ARN of a role",
        "arn:aws:iam::",
    ),
    "redshift half a key": (
        connection("{type: redshift, host: h, database: d, user: u, ▲access_key: '${env:PATH}'}"),
        "`access_key` is of no use without `secret_key`",
        "secret_key",
    ),
    "redshift two ways": (
        connection(
            "{type: redshift, host: h, database: d, user: u, iam_role: default,"
            " ▲access_key: '${env:PATH}', secret_key: '${env:PATH}'}"
        ),
        "both say how COPY reads the lake",
        "one of them",
    ),
    "redshift ssl": (
        connection("{type: redshift, host: h, database: d, user: u, options: {ssl: ▲require}}"),
        "`require` is not known",
        "`verify-ca`",
    ),
    "snowflake account": (
        connection("{type: snowflake, account: ▲a/b, database: d, user: u}"),
        "not the identifier of an account",
        "ORGANISATION-ACCOUNT",
    ),
    "snowflake address": (
        connection("{type: snowflake, account: ▲a.snowflakecomputing.com, database: d, user: u}"),
        "not the identifier of an account",
        "without",
    ),
    "snowflake host": (
        connection("{type: snowflake, account: a, ▲host: h, database: d, user: u}"),
        "`host` does not belong here",
        "`account`",
    ),
    "delta without a path": (connection("{type: delta}").replace("app:", "▲app:"), "`path` is missing", None),
    "delta endpoint": (
        connection("{type: delta, path: lake, ▲endpoint: http://localhost:1}"),
        "`endpoint` belongs to an `s3a://` path",
        None,
    ),
    "type list": (connection("{type: ▲[a]}"), "`type` must be text", None),
    "connection text": (connection("▲sqlite"), "`app` must be a mapping", None),
    "connection key": (
        connection("{type: mysql, ▲hots: h, database: d, user: u}"),
        "unknown key `hots`",
        "`host`",
    ),
    "mysql schema": (
        connection("{type: mysql, host: h, database: d, user: u, ▲schema: s}"),
        "`schema` does not belong here",
        "`database`",
    ),
    "no user": (
        connection("{type: mysql, host: h, database: d}").replace("app:", "▲app:"),
        "`user` is missing",
        "user",
    ),
    "memory": (connection("{type: sqlite, path: ▲':memory:'}"), "in memory", None),
    "sqlite url": (connection("{type: sqlite, path: ▲http://a/b}"), "`http:`", None),
    "port text": (connection("{type: mysql, host: h, port: ▲x, database: d, user: u}"), "`port`", None),
    "port big": (connection("{type: mysql, host: h, port: ▲65536, database: d, user: u}"), "65536", None),
    "port zero": (connection("{type: mysql, host: h, port: ▲0, database: d, user: u}"), "1 to 65535", None),
    "port float": (connection("{type: mysql, port: ▲1.5, database: d, user: u}"), "1 to 65535", None),
    "user control": (connection('{type: mysql, database: d, user: ▲"a\\0b"}'), "control character", None),
    "s3": (connection("{type: parquet, path: ▲s3://b/p}"), "begin with `s3a://`, not `s3://`", "s3a://"),
    "s3n": (connection("{type: parquet, path: ▲s3n://b/p}"), "begin with `s3a://`", "s3a://"),
    "hdfs": (connection("{type: parquet, path: ▲hdfs://b/p}"), "`hdfs:` are not supported", "s3a://"),
    "no bucket": (connection("{type: parquet, path: ▲s3a:///p}"), "names no bucket", "s3a://bucket/prefix"),
    "dots": (connection("{type: parquet, path: ▲s3a://bucket/../c}"), "`..` part", None),
    "file host": (connection("{type: parquet, path: ▲file://host/c}"), "cannot name a host", "file:///"),
    "local endpoint": (
        connection("{type: parquet, path: lake, ▲endpoint: http://localhost:1}"),
        "`endpoint` belongs to an `s3a://` path",
        None,
    ),
    "endpoint": (
        connection("{type: parquet, path: s3a://b1/p, endpoint: ▲localhost:9000}"),
        "not the address of an S3 service",
        "https://HOST",
    ),
    # syncs
    "sync text": (HEAD + "sync:\n  - ▲orders\n", "must be a mapping", None),
    "sync key": (SYNC + "▲setle: 30s}\n", "unknown key `setle`", "`settle`"),
    "sync expect": (SYNC + "expect: {id: ▲notnull}}\n", "`notnull` is no check", "`not_null`"),
    "expect in a lake": (SYNC + "▲expect: {id: not_null}}\n", "`to` is a lake", "`via`"),
    "expect in an override": (
        WAREHOUSE + "expect: {id: not_null}, override: {o: {expect: {n: {▲ranje: 1}}}}}\n",
        "unknown key `ranje`",
        "`range`",
    ),
    "expect unique in a history": (
        WAREHOUSE + "mode: scd2, ▲expect: {id: unique}}\n",
        "`id: unique` has no meaning in mode `scd2`",
        None,
    ),
    "foreign key that drops": (
        WAREHOUSE + "▲expect: {foreign_key: {columns: a, table: b, action: drop}}}\n",
        "nothing would remember which",
        "quarantine",
    ),
    "foreign key by a path": (
        WAREHOUSE + "expect: {foreign_key: {columns: a, path: ▲b}}}\n",
        "looked up in the warehouse",
        "`table`",
    ),
    "foreign key of a Delta table": (
        DELTA + "▲expect: {foreign_key: {columns: a, table: b}}}\n",
        "`to` has Delta tables",
        "a flow that reads",
    ),
    "no from": (HEAD + "sync:\n  - ▲{to: lake, tables: a, cursor: c}\n", "`from` is missing", "from"),
    "no to": (HEAD + "sync:\n  - ▲{from: app, tables: a, cursor: c}\n", "`to` is missing", "to"),
    "no tables": (HEAD + "sync:\n  - ▲{from: app, to: lake, cursor: c}\n", "`tables` is missing", None),
    "no cursor": (HEAD + "sync:\n  - ▲{from: app, to: lake, tables: a}\n", "`cursor` is missing", "override"),
    "override without cursor": (
        HEAD + "sync:\n  - {from: app, to: lake, tables: a, override: {b: {cursor: c}, ▲d: {key: e}}}\n",
        "`cursor` is missing for `d`",
        "override",
    ),
    "from unknown": (
        HEAD + "sync:\n  - {from: ▲ap, to: lake, tables: a, cursor: c}\n",
        "there is no connection `ap`",
        "`app`",
    ),
    "to unknown": (
        HEAD + "sync:\n  - {from: app, to: ▲laek, tables: a, cursor: c}\n",
        "there is no connection `laek`",
        "`lake`",
    ),
    "from a lake": (
        HEAD + "sync:\n  - {from: ▲lake, to: lake, tables: a, cursor: c}\n",
        "`from` names a database",
        "`app`",
    ),
    "from a warehouse": (
        HEAD + "sync:\n  - {from: ▲dw, to: lake, tables: a, cursor: c}\n",
        "`dw` is of type `redshift`, which is written to and not read from",
        "`app`",
    ),
    "via a database": (
        HEAD + "sync:\n  - {from: app, via: ▲db, to: duck, tables: a, cursor: c}\n",
        "`via` names a connection of type `parquet`",
        "`lake`",
    ),
    "via a database alone": (
        HEAD + "sync:\n  - {from: app, via: ▲db, tables: a, cursor: c}\n",
        "`via` names a connection of type `parquet`",
        "`lake`",
    ),
    "a lake behind a lake": (
        HEAD + "sync:\n  - {from: app, via: lake, to: ▲bucket, tables: a, cursor: c}\n",
        "`to` is a lake behind a lake",
        "`to: bucket`",
    ),
    "delta tables with history": (
        DELTA + "▲mode: scd2}\n",
        "mode `scd2` is for warehouses and for `flows:`, and `to` has Delta tables",
        "`merge`",
    ),
    "delta tables with marks": (
        DELTA + "▲deletes: soft}\n",
        "deletes `soft` marks rows of a warehouse, and `to` has Delta tables",
        "`hard`",
    ),
    "delta tables that grow by what is read again": (
        DELTA + "mode: append, ▲lookback: 1h}\n",
        "`lookback` reads rows again, and mode `append` would add them a second time",
        "`merge`",
    ),
    "delta tables with columns of ours": (
        DELTA + "▲metadata_columns: true}\n",
        "`metadata_columns` needs a warehouse",
        "each commit of the table names its run",
    ),
    "via delta": (
        HEAD
        + "  tables: {type: delta, path: t}\nsync:\n  - {from: app, via: ▲tables, tables: a, cursor: c}\n",
        "`tables` is of type `delta`; `via` names a connection of type `parquet`",
        "`to: tables`",
    ),
    "redshift without via": (
        HEAD + "sync:\n  - {from: app, to: ▲dw, tables: a, cursor: c}\n",
        "Redshift is loaded from S3, so `to` needs a `via`",
        "`via: bucket`",
    ),
    "redshift via a folder": (
        HEAD + "sync:\n  - {from: app, via: ▲lake, to: dw, tables: a, cursor: c}\n",
        "`via` is the local folder of `lake`",
        "`via: bucket`",
    ),
    "onto itself": (
        HEAD + "sync:\n  - {from: db, to: db, tables: ▲a, cursor: c}\n",
        "`a` would be written onto itself",
        "rename",
    ),
    "onto itself under another name": (
        HEAD + "sync:\n  - {from: app, via: lake, to: app2, tables: [▲'a*'], cursor: c}\n",
        "`a*` would be written onto itself",
        "rename",
    ),
    "onto itself by its schema": (
        HEAD + "sync:\n  - {from: db, to: db, tables: [x.a, ▲'public.*'], cursor: c, rename: '{table}'}\n",
        "`public.*` would be written onto itself",
        "rename",
    ),
    "append lookback": (
        WAREHOUSE + "mode: append, ▲lookback: 1h}\n",
        "mode `append` would add them a second time",
        "mode `merge`",
    ),
    "append nulls": (
        WAREHOUSE + "mode: append, ▲null_cursor: include}\n",
        "mode `append` would add them each time",
        "null_cursor `exclude`",
    ),
    "append deletes": (
        WAREHOUSE + "mode: append, ▲deletes: soft}\n",
        "mode `append` keeps many rows for one",
        "mode `merge`",
    ),
    "append in an override": (
        WAREHOUSE + "lookback: 1h, override: {a: {▲mode: append}, b: {mode: scd2}}}\n",
        "`lookback` reads rows again",
        "mode `merge`",
    ),
    "scd2 hard deletes": (
        WAREHOUSE + "mode: scd2, ▲deletes: hard}\n",
        "would delete the history",
        "deletes `soft`",
    ),
    "scd2 nulls": (WAREHOUSE + "mode: scd2, ▲null_cursor: include}\n", "`valid_from`", "mode `merge`"),
    "overwrite deletes": (
        WAREHOUSE + "mode: overwrite, ▲deletes: hard}\n",
        "replaces the whole table, and so undoes deletes `hard`",
        "mode `merge`",
    ),
    "overwrite nulls": (
        WAREHOUSE + "mode: overwrite, ▲null_cursor: include}\n",
        "would leave nothing but those",
        "mode `merge`",
    ),
    "distkey elsewhere": (WAREHOUSE + "▲distkey: id}\n", "`distkey` belongs to Redshift", "remove"),
    "sortkey in a lake": (SYNC + "▲sortkey: [id]}\n", "`sortkey` belongs to Redshift", "remove"),
    "hybrid elsewhere": (WAREHOUSE + "▲hybrid: true}\n", "`hybrid` belongs to Snowflake", "remove"),
    "hybrid append": (
        HEAD + "sync:\n  - {from: app, to: snow, tables: a, cursor: c, mode: append, ▲hybrid: true}\n",
        "a hybrid table has one row for each key",
        "mode `merge`",
    ),
    "deletes in a lake": (SYNC + "▲deletes: soft}\n", "deletes `soft` needs a warehouse", "`via` and `to`"),
    "metadata in a lake": (SYNC + "▲metadata_columns: true}\n", "needs a warehouse", "manifests"),
    "flag": (WAREHOUSE + "metadata_columns: ▲yes}\n", "`yes`", "`true`"),
    "share": (WAREHOUSE + "deletes_limit: ▲30}\n", "`30` is not a share", "`30%`"),
    "bare one": (WAREHOUSE + "deletes_limit: ▲1}\n", "`1` is not a share", "`30%`"),
    "big share": (WAREHOUSE + "deletes_limit: ▲130%}\n", "from 0% to 100%", None),
    "drift": (WAREHOUSE + "drift: ▲evolv}\n", "`evolv`", "`evolve`"),
    "read": (WAREHOUSE + "read: ▲odbc}\n", "`odbc`", "`jdbc`"),
    "deletes": (WAREHOUSE + "deletes: ▲yes}\n", "`yes`", "`soft`"),
    "empty tables": (HEAD + "sync:\n  - {from: app, to: lake, cursor: c, tables: ▲[]}\n", "empty", None),
    "table twice": (HEAD + "sync:\n  - {from: app, to: lake, cursor: c, tables: [a, ▲a]}\n", "twice", None),
    "table a list": (HEAD + "sync:\n  - {from: app, to: lake, cursor: c, tables: [▲[a]]}\n", "text", None),
    "settle": (SYNC + "settle: ▲30 s}\n", "`30 s` is not a duration", "`30s`"),
    "lookback": (SYNC + "lookback: ▲-5m}\n", "`-5m` is not a duration", "`5m`"),
    "batch rows": (SYNC + "batch_rows: ▲0}\n", "of 1 or more", None),
    "parallel": (SYNC + "parallel: ▲65}\n", "from 1 to 64", None),
    "null cursor": (SYNC + "null_cursor: ▲includ}\n", "`includ`", "`include`"),
    "zero dates": (SYNC + "zero_dates: ▲nul}\n", "`nul`", "`null`"),
    "merge": (SYNC + "▲mode: merge}\n", "mode `merge` needs a warehouse", "every version of a row"),
    "merge in an override": (
        SYNC + "override: {a: {▲mode: merge}}}\n",
        "mode `merge` needs a warehouse",
        "every version of a row",
    ),
    "partitions": (
        WAREHOUSE + "mode: ▲replace_partitions}\n",
        "`replace_partitions` is a mode of `flows:`",
        "`merge`",
    ),
    "mode typo": (SYNC + "mode: ▲apend}\n", "`apend`", "`append`"),
    "open transactions": (SYNC + "open_transactions: ▲ignore}\n", "`wait`", "ignore_after"),
    "open transactions key": (
        SYNC + "open_transactions: {▲ignore: 1h}}\n",
        "unknown key `ignore`",
        "`ignore_after`",
    ),
    "ignore after": (SYNC + "open_transactions: {ignore_after: ▲1w}}\n", "`1w` is not a duration", "`7d`"),
    "types": (SYNC + "types: {price: ▲strin}}\n", "`strin`", "`string`"),
    "types decimal": (SYNC + "types: {price: ▲'decimal(39,2)'}}\n", "decimal(39,2)", "1 to 38"),
    "types scale": (SYNC + "types: {price: ▲'decimal(4,5)'}}\n", "decimal(4,5)", "0 to p"),
    "rename": (SYNC + "rename: ▲'{tabel}_x'}\n", "`{tabel}`", "`{table}`"),
    "tags": (SYNC + "tags: [daily, ▲a b]}\n", "`a b`", "words"),
    "override key": (SYNC + "override: {a.b: {▲cursr: x}}}\n", "unknown key `cursr`", "`cursor`"),
    "override text": (SYNC + "override: {a.b: ▲x}}\n", "`a.b` must be a mapping", None),
    "override mode": (SYNC + "override: {a.b: {▲tables: x}}}\n", "unknown key `tables`", None),
    "override value": (SYNC + "override: {a.b: {settle: ▲soon}}}\n", "`soon` is not a duration", "`30s`"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_mistake_is_named_with_its_place_and_the_nearest_word(tmp_path: Path, case: str) -> None:
    marked, message, hint = CASES[case]
    error = refused(tmp_path, marked)
    assert message in error.message
    assert "\n" not in error.message
    if hint is not None:
        assert hint in (error.hint or "")


@pytest.mark.parametrize(
    "host",
    [
        "a/b",
        "a?b=c",
        "a#b",
        "a&b",
        "u@h",
        "h:3306",
        "a b",
        "h,g",
        "(host=x)",
        "fe80::1%a&b",
        "-h",
        "999.1.1.1",
        ".",
        "é",
    ],
)
def test_a_host_that_could_end_early_in_a_url_is_refused(tmp_path: Path, host: str) -> None:
    error = refused(tmp_path, connection(f'{{type: mysql, host: ▲"{host}", database: d, user: u}}'))
    assert "neither a host name nor an IP address" in error.message


def test_several_mistakes_are_reported_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "tidegauge.yml"
    file.write_text(
        "pipeline: shop\nleese: 60s\nconnections:\n"
        "  app: {type: mysql, host: h, port: x, database: d, user: u}\n"
        "sync:\n  - {from: ap, to: lake, tables: a, cursor: c, settle: soon}\n"
    )
    with pytest.raises(ConfigError) as caught:
        load_project(file)
    first, second, third = caught.value.message.split("\n")
    assert first == "unknown key `leese`"
    assert caught.value.hint == "did you mean `lease`?"
    assert second == f"  {file}:4:37: `port` must be a whole number from 1 to 65535"
    assert third.startswith(f"  {file}:6:56: `soon` is not a duration (write it as `30s`")


def test_many_mistakes_are_cut_short(tmp_path: Path) -> None:
    file = tmp_path / "tidegauge.yml"
    file.write_text("pipeline: shop\n" + "".join(f"bad{n}: 1\n" for n in range(9)))
    with pytest.raises(ConfigError) as caught:
        load_project(file)
    lines = caught.value.message.split("\n")
    assert len(lines) == 6
    assert lines[-1] == "  and 4 more"


def test_a_broken_connection_is_not_called_unknown_too(tmp_path: Path) -> None:
    error = refused(
        tmp_path,
        "pipeline: x\nconnections:\n  app: {type: sqlite, ▲pth: a, path: b}\n"
        "  lake: {type: parquet, path: l}\nsync:\n  - {from: app, to: lake, tables: a, cursor: c}\n",
    )
    assert "\n" not in error.message
