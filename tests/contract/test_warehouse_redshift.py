"""What is Redshift's own, on the stand-in: COPY by manifest, credentials, types, conflicts."""

from __future__ import annotations

import io
import json
import logging
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support import every_type
from tests.support.servers import Redshift
from tests.support.warehouses import (
    ORDERS,
    Loader,
    Yard,
    batch_to,
    counts,
    files_of,
    flow_of,
    layout_of,
    loader,
    make,
    no_spark,
    read_batch,
    tag_of,
)
from tidegauge.errors import OutputDisagrees, OutputError, OutputUnreachable
from tidegauge.model.batch_data import BatchRows, LakeFile
from tidegauge.model.mode import Mode
from tidegauge.model.secret import Secret
from tidegauge.model.spec import Lake
from tidegauge.model.table import Field, Layout
from tidegauge.outputs.warehouse.redshift import copy as redshift_copy
from tidegauge.outputs.warehouse.redshift import warehouse as engine
from tidegauge.outputs.warehouse.warehouse import WarehouseColumn, WriteConflict

ROW = (1, "a", Decimal("1.00"), 1)


@pytest.fixture
def yard(request: pytest.FixtureRequest, tmp_path: Path) -> Yard:
    return make("redshift", request, tmp_path)


@pytest.fixture
def said(yard: Yard, redshift: Redshift) -> Callable[[], list[str]]:
    """What was said to the server since the test began."""
    assert yard.database.database
    before = len(redshift.statements(yard.database.database))
    return lambda: redshift.statements(str(yard.database.database))[before:]


def landed(yard: Yard, layout: Layout = ORDERS, *splits: list[tuple[Any, ...]]) -> BatchRows:
    return yard.land(read_batch(layout, *splits))


def with_keys(yard: Yard, access_key: str, secret_key: str) -> Yard:
    """The same, with keys of its own in place of a role."""
    keys = Secret(access_key), Secret(secret_key)
    database = replace(yard.database, iam_role=None, access_key=keys[0], secret_key=keys[1])
    return replace(yard, database=database)


def test_rows_come_by_copy_and_no_row_by_itself(yard: Yard, said: Callable[[], list[str]]) -> None:
    many = [(number, f"row {number}", None, number) for number in range(5000)]
    assert counts(loader(yard).rows(ORDERS, many)) == (5000, 5000, 0, 0)
    copies = [sql for sql in said() if sql.startswith("COPY")]
    assert len(copies) == 1
    assert "/shop.orders/_tidegauge/copy/" in copies[0]
    assert copies[0].endswith("FORMAT AS PARQUET MANIFEST")
    written = [sql for sql in said() if sql.startswith("INSERT") and "VALUES" in sql]
    assert all("tidegauge_commits" in sql for sql in written)


def test_files_without_keys_in_common_come_in_one_copy(yard: Yard, said: Callable[[], list[str]]) -> None:
    loader(yard).rows(ORDERS, [ROW], [(2, "b", None, 2)], [(3, "c", None, 3)])
    assert sum(sql.startswith("COPY") for sql in said()) == 1


def test_d8_of_a_key_in_several_files_the_last_counts_however_they_are_grouped(
    yard: Yard, said: Callable[[], list[str]]
) -> None:
    first = landed(yard, ORDERS, [ROW], [(2, "b", None, 2)])
    second = landed(yard, ORDERS, [(1, "later", None, 2)])
    third = landed(yard, ORDERS, [(2, "twice", None, 3)], [(3, "c", None, 3), (2, "last", None, 4)])
    parts = (first, second, third)
    batch_data = BatchRows(
        ORDERS,
        rows=6,
        files=tuple(file for part in parts for file in part.files),
        splits=tuple(one for part in parts for one in part.splits),
    )
    assert counts(loader(yard).load(batch_data)) == (6, 3, 0, 0)
    assert yard.contents("orders", ["id", "name"]) == [(1, "later"), (2, "last"), (3, "c")]
    # All at once; then by attempt, of which the third has a key twice; then its two files.
    assert sum(sql.startswith("COPY") for sql in said()) == 1 + 3 + 2


def test_the_manifest_is_gone_afterwards_also_when_copy_failed(yard: Yard, redshift: Redshift) -> None:
    client = redshift.s3.client()
    loader(yard).rows(ORDERS, [ROW])
    batch_data = landed(yard, layout_of(("id", "bigint"), ("name", "string")), [(1, "x" * 70_000)])
    with pytest.raises(OutputError):
        yard.output(flow_of(yard, "other", name="other")).stage(batch_data, no_spark)
    bucket = batch_data.files[0].lake.path.removeprefix("s3a://").partition("/")[0]
    names = [one["Key"] for one in client.list_objects_v2(Bucket=bucket)["Contents"]]
    assert not [name for name in names if "_tidegauge" in name]


def test_a_value_that_is_too_long_is_told_by_column_and_row(yard: Yard) -> None:
    layout = layout_of(("id", "bigint"), ("Näme", "string"))
    batch_data = landed(yard, layout, [(1, "ok"), (2, "é" * 40_000)])
    with pytest.raises(OutputError) as caught:
        yard.output(flow_of(yard)).stage(batch_data, no_spark)
    assert "column Näme of row 2" in str(caught.value)
    assert "éé" in str(caught.value)
    assert "String length exceeds DDL length" in str(caught.value)
    assert yard.contents("orders", ["id"]) == []
    assert yard.staging_tables() == []


def test_d4_files_that_are_gone_or_changed_stop_the_batch(yard: Yard, redshift: Redshift) -> None:
    batch_data = landed(yard, ORDERS, [ROW], [(2, "b", None, 2)])
    file = batch_data.files[1]
    bucket, _, top = file.lake.path.removeprefix("s3a://").partition("/")
    key = f"{top}/{file.path}"
    client = redshift.s3.client()
    body = client.get_object(Bucket=bucket, Key=key)["Body"].read()
    client.put_object(Bucket=bucket, Key=key, Body=body + b"x")
    with pytest.raises(OutputDisagrees, match="bytes"):
        yard.output(flow_of(yard)).stage(batch_data, no_spark)
    client.delete_object(Bucket=bucket, Key=key)
    with pytest.raises(OutputDisagrees, match="part-00001"):
        yard.output(flow_of(yard)).stage(batch_data, no_spark)
    assert yard.contents("orders", ["id"]) == []


def test_d4_a_leftover_beside_the_files_is_not_loaded(yard: Yard, redshift: Redshift) -> None:
    batch_data = landed(yard, ORDERS, [ROW])
    file = batch_data.files[0]
    bucket, _, top = file.lake.path.removeprefix("s3a://").partition("/")
    client = redshift.s3.client()
    source = {"Bucket": bucket, "Key": f"{top}/{file.path}"}
    client.copy_object(Bucket=bucket, Key=f"{top}/{file.path}.leftover.parquet", CopySource=source)
    assert counts(loader(yard).load(batch_data)) == (1, 1, 0, 0)


def test_a_file_with_other_rows_than_its_manifest_says_disagrees(yard: Yard) -> None:
    batch_data = landed(yard, ORDERS, [ROW])
    lying = replace(batch_data, rows=None, files=(replace(batch_data.files[0], rows=7),))
    with pytest.raises(OutputDisagrees, match=r"copied 1 rows .* have 7"):
        yard.output(flow_of(yard)).stage(lying, no_spark)


def test_columns_of_a_file_that_the_layout_does_not_name_are_left_out(yard: Yard) -> None:
    batch_data = landed(yard, ORDERS, [ROW])
    narrow = layout_of(("at", "bigint"), ("id", "bigint"))
    assert counts(loader(yard).load(replace(batch_data, layout=narrow))) == (1, 1, 0, 0)
    assert yard.contents("orders", ["id", "at"]) == [(1, 1)]


def test_rows_that_lie_in_no_lake_on_s3_are_refused_with_the_way_out(yard: Yard, tmp_path: Path) -> None:
    elsewhere = replace(yard, land=lambda batch_data: batch_data)
    output = elsewhere.output(flow_of(yard))
    with pytest.raises(OutputError) as caught:
        output.stage(read_batch(ORDERS, [ROW]), no_spark)
    assert "via:" in str(caught.value.hint)
    with pytest.raises(OutputError) as caught:
        output.stage(files_of(tmp_path / "lake", ORDERS, [ROW]), no_spark)
    assert "s3a://" in str(caught.value.hint)


def test_copy_reads_with_the_role_else_the_keys_else_those_of_the_lake(
    yard: Yard, said: Callable[[], list[str]]
) -> None:
    loader(yard).rows(ORDERS, [ROW])
    assert "IAM_ROLE 'arn:" in next(sql for sql in said() if sql.startswith("COPY"))
    lake_keys = replace(yard, database=replace(yard.database, iam_role=None))
    Loader(lake_keys, flow_of(lake_keys, "two", name="two")).rows(ORDERS, [ROW])
    assert sum("ACCESS_KEY_ID 'test-access-key'" in sql for sql in said()) == 1
    own_keys = with_keys(yard, "wrong-access-key-1", "wrong-secret-key-1")
    with pytest.raises(OutputUnreachable) as caught:
        Loader(own_keys, flow_of(own_keys, "three", name="three")).rows(ORDERS, [ROW])
    assert not caught.value.retryable
    assert "iam_role" in str(caught.value.hint)
    assert any("wrong-access-key-1" in sql for sql in said())


def test_without_role_and_keys_the_error_says_what_to_set(yard: Yard) -> None:
    bare = replace(yard, database=replace(yard.database, iam_role=None))
    batch_data = landed(yard, ORDERS, [ROW])
    keyless = replace(batch_data.files[0].lake, access_key=None, secret_key=None)
    with pytest.raises(OutputError) as caught:
        redshift_copy._access(engine.Redshift(bare.database), replace(batch_data.files[0], lake=keyless))
    assert "iam_role" in str(caught.value.hint)


def test_e3_keys_are_in_no_message_and_no_log(yard: Yard, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    broken = with_keys(yard, "canary-access-key", "canary-secret-key")
    with pytest.raises(OutputError) as caught:
        loader(broken).rows(ORDERS, [ROW])
    told = f"{caught.value} {caught.value.hint} {caught.value.detail} {caplog.text}"
    assert "canary" not in told


def test_every_type_arrives_as_it_was(yard: Yard, redshift: Redshift) -> None:
    # A text of 100,000 bytes is more than Redshift holds.
    rows = [tuple(map(_cut, row)) for row in every_type.ROWS]
    orders = loader(yard)
    orders.rows(every_type.LAYOUT, rows)
    assert yard.database.database
    with redshift.postgres.connect(yard.database.database) as connection:
        found = connection.execute(f"SELECT * FROM {yard.at('orders')} ORDER BY id").fetchall()
    for row, expected in zip(found, rows, strict=True):
        assert every_type.bits(row) == every_type.bits(expected)
    # The same once more, against what is there now: nothing differs from itself.
    assert counts(orders.rows(every_type.LAYOUT, rows)) == (len(rows), 0, 0, 0)


def _cut(value: Any) -> Any:
    return value[:65_535] if isinstance(value, str) and len(value) > 65_535 else value


def test_infinities_and_nan_differ_from_nothing_but_others(yard: Yard) -> None:
    layout = layout_of(("id", "bigint"), ("f", "float"), ("d", "double"))
    rows = [(number, value, value) for number, value in enumerate(every_type.NOT_A_NUMBER)]
    orders = loader(yard)
    assert counts(orders.rows(layout, rows)) == (3, 3, 0, 0)
    assert counts(orders.rows(layout, rows)) == (3, 0, 0, 0)


def test_a_target_is_declared_with_its_keys(yard: Yard, said: Callable[[], list[str]]) -> None:
    orders = loader(yard, distkey="id", sortkey=("at", "id"))
    orders.rows(ORDERS, [ROW])
    made = next(sql for sql in said() if sql.startswith("CREATE TABLE") and '."orders"' in sql)
    assert 'PRIMARY KEY ("id")' in made
    assert made.endswith('DISTKEY("id") SORTKEY("at", "id")')
    assert '"name" VARCHAR(65535)' in made


def test_a_distkey_that_is_no_column_is_refused(yard: Yard) -> None:
    with pytest.raises(OutputError, match=r"distkey: other.* names no column"):
        loader(yard, distkey="other").rows(ORDERS, [ROW])


def test_names_keep_their_case(yard: Yard) -> None:
    layout = layout_of(("id", "bigint"), ("Mixed", "string"), ("mixed", "string"), cursor=None)
    loader(yard).rows(layout, [(1, "upper", "lower")])
    assert yard.contents("orders", ["Mixed", "mixed"]) == [("upper", "lower")]


def test_a_name_longer_than_redshift_has_is_refused(yard: Yard) -> None:
    layout = layout_of(("id", "bigint"), ("ä" * 64, "string"), cursor=None)
    with pytest.raises(OutputError, match="127 bytes"):
        loader(yard).rows(layout, [(1, "x")])


@pytest.mark.parametrize(
    ("declared", "field", "becomes"),
    [
        ("VARCHAR(10)", Field("name", "string", "varchar(20)"), "varchar(80)"),
        ("VARCHAR(100)", Field("name", "string", "varchar(20)"), "varchar(100)"),
        ("VARCHAR(10)", Field("name", "string", "text"), "varchar(65535)"),
        ("INTEGER", Field("name", "bigint", "bigint"), "bigint"),
        ("DECIMAL(10,2)", Field("name", "decimal(12,4)", "decimal(12,4)"), "numeric(12,4)"),
    ],
)
def test_a_narrow_column_is_made_wider_and_keeps_its_values(
    yard: Yard, declared: str, field: Field, becomes: str
) -> None:
    house = yard.house()
    yard.run(
        house.create(
            yard.table("orders"), [WarehouseColumn("id", "BIGINT"), WarehouseColumn("name", declared)]
        )
    )
    yard.run(f"INSERT INTO {yard.at('orders')} VALUES (7, 1)")
    layout = layout_of(("id", "bigint"), (field.name, field.type, field.source_type), cursor=None)
    value: Any = "2" if field.type == "string" else Decimal("2") if "decimal" in field.type else 2
    loader(yard).rows(layout, [(1, value)])
    session = house.connect()
    held = {one.name: one.source_type for one in house.columns(session, yard.table("orders")) or ()}
    session.close()
    assert held["name"] == becomes
    assert [(int(one), float(name)) for one, name in yard.contents("orders", ["id", "name"])] == [
        (1, 2.0),
        (7, 1.0),
    ]


def test_a_view_is_no_target(yard: Yard) -> None:
    yard.run(f"CREATE VIEW {yard.at('orders')} AS SELECT 1 AS id")
    with pytest.raises(OutputError, match="view"):
        loader(yard).rows(ORDERS, [ROW])


def test_loads_of_two_tables_at_once_do_not_violate_each_other(yard: Yard) -> None:
    flows = [flow_of(yard, f"t{number}", name=f"t{number}") for number in range(3)]
    failures: list[BaseException] = []

    def load(number: int) -> None:
        try:
            one = Loader(yard, flows[number])
            for turn in range(3):
                one.rows(ORDERS, [(turn, "x", None, turn)])
        except BaseException as error:
            failures.append(error)

    # The commits' table is made by the first of them.
    Loader(yard, flow_of(yard, "first", name="first")).rows(ORDERS, [ROW])
    threads = [threading.Thread(target=load, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    for number in range(3):
        assert len(yard.contents(f"t{number}", ["id"])) == 3


def test_error_1023_is_a_conflict_that_is_tried_again(yard: Yard) -> None:
    loader(yard).rows(ORDERS, [ROW])
    first, second = yard.house().connect(), yard.house().connect()
    first.rows(f"SELECT * FROM {yard.at('orders')}")
    second.run(f"UPDATE {yard.at('orders')} SET \"name\" = 'second'")
    second.commit()
    with pytest.raises(WriteConflict, match="Serializable isolation violation") as caught:
        first.run(f"UPDATE {yard.at('orders')} SET \"name\" = 'first'")
    assert caught.value.retryable
    first.close()
    second.close()


def test_a_table_that_two_make_at_once_is_a_conflict_that_is_tried_again(yard: Yard) -> None:
    made = f"CREATE TABLE IF NOT EXISTS {yard.at('orders')} (id int)"
    first, second = yard.house().connect(), yard.house().connect()
    first.run(made)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(second.run, made)
        time.sleep(0.5)
        first.commit()
        with pytest.raises(WriteConflict) as caught:
            waiting.result(60)
    assert caught.value.retryable
    first.close()
    second.close()


def test_a_held_target_is_waited_for_only_so_long(yard: Yard) -> None:
    orders = loader(yard)
    orders.rows(ORDERS, [ROW])
    output = yard.output(orders.flow, patience=0.5)
    staged = output.stage(yard.land(read_batch(ORDERS, [(2, "b", None, 2)])), no_spark)
    with yard.hold(yard, yard.table("orders")), pytest.raises(OutputUnreachable) as caught:
        output.commit(tag_of(orders.flow, 2), batch_to(2), staged, layout=ORDERS, run_id="r")
    assert caught.value.retryable
    assert "orders" in str(caught.value)
    output.commit(tag_of(orders.flow, 2), batch_to(2), staged, layout=ORDERS, run_id="r")
    assert len(yard.contents("orders", ["id"])) == 2


@pytest.mark.parametrize("taking_effect", [True, False])
def test_b3_a_commit_whose_answer_is_lost_is_asked_for(
    yard: Yard, redshift: Redshift, taking_effect: bool
) -> None:
    orders = loader(yard)
    orders.rows(ORDERS, [ROW])
    output = yard.output(orders.flow)
    staged = output.stage(yard.land(read_batch(ORDERS, [(2, "b", None, 2)])), no_spark)
    redshift.lose_next_commit(taking_effect=taking_effect)
    with pytest.raises(OutputUnreachable):
        output.commit(tag_of(orders.flow, 2), batch_to(2), staged, layout=ORDERS, run_id="r")
    found = output.receipt(tag_of(orders.flow, 2))
    assert (found is not None) == taking_effect
    assert len(yard.contents("orders", ["id"])) == (2 if taking_effect else 1)


def test_an_unreachable_server_is_named_without_the_password(yard: Yard) -> None:
    broken = replace(yard, database=replace(yard.database, port=1, password=Secret("hush hush")))
    with pytest.raises(OutputUnreachable, match=r"Redshift at 127\.0\.0\.1:1") as caught:
        broken.output(flow_of(yard)).prepare()
    assert "hush" not in f"{caught.value} {caught.value.hint}"
    refused = replace(yard, database=replace(yard.database, password=Secret("hush hush")))
    with pytest.raises(OutputUnreachable, match="cannot be reached") as caught:
        refused.output(flow_of(yard)).prepare()
    assert "hush" not in f"{caught.value} {caught.value.hint}"


def test_overwrite_and_history_work_through_copy(yard: Yard) -> None:
    over = loader(yard, mode=Mode.OVERWRITE)
    over.rows(ORDERS, [ROW, (2, "b", None, 2)])
    assert counts(over.rows(ORDERS, [(2, "bb", None, 3)])) == (1, 0, 1, 1)
    history = Loader(yard, flow_of(yard, "history", name="history", mode=Mode.SCD2))
    history.rows(ORDERS, [ROW])
    assert counts(history.rows(ORDERS, [(1, "z", None, 5)])) == (1, 1, 1, 0)
    shown = yard.contents("history", ["name", "valid_from", "valid_to", "is_current"], ["valid_from"])
    assert shown == [("a", 1, 5, 0), ("z", 5, None, 1)]


def test_a_parquet_type_that_copy_does_not_take_is_named(yard: Yard, redshift: Redshift) -> None:
    batch_data = landed(yard, ORDERS, [ROW])
    lake: Lake = batch_data.files[0].lake
    out = io.BytesIO()
    pq.write_table(pa.table({"id": pa.array([1], pa.uint64())}), out)
    bucket, _, top = lake.path.removeprefix("s3a://").partition("/")
    path = "shop.orders/data/odd/part-0.parquet"
    redshift.s3.client().put_object(Bucket=bucket, Key=f"{top}/{path}", Body=out.getvalue())
    odd = replace(batch_data, rows=1, files=(LakeFile(lake, path, 1, out.tell()),))
    with pytest.raises(OutputError, match="uint64"):
        yard.output(flow_of(yard)).stage(odd, no_spark)


def test_what_the_manifest_says_can_be_read_by_anyone(
    yard: Yard, redshift: Redshift, monkeypatch: Any
) -> None:
    batch_data = landed(yard, ORDERS, [ROW], [(2, "b", None, 2)])
    with redshift_copy._manifest(batch_data.files) as address:
        bucket, _, key = address.removeprefix("s3://").partition("/")
        body = json.loads(redshift.s3.client().get_object(Bucket=bucket, Key=key)["Body"].read())
    assert [entry["mandatory"] for entry in body["entries"]] == [True, True]
    assert [entry["meta"]["content_length"] for entry in body["entries"]] == [
        one.bytes for one in batch_data.files
    ]
    assert all(entry["url"].startswith("s3://") for entry in body["entries"])


DOOMED = """
import json, os, signal, sys
from tests.support.warehouses import ORDERS, Heap, Loader, Yard, flow_of
from tidegauge.model.batch_data import BatchRows, LakeFile
from tidegauge.model.secret import Secret
from tidegauge.model.spec import Database, Engine, Lake
from tidegauge.outputs.warehouse.commits import Commits
from tidegauge.outputs.warehouse.redshift.session import RedshiftSession

told = json.loads(sys.stdin.read())
password, keys = Secret(told["password"]), [Secret(key) for key in told["keys"]]
database = Database("dw", Engine.REDSHIFT, password=password, options={"ssl": "disable"}, **told["database"])
lake = Lake("lake", *told["lake"], *keys)
files = tuple(LakeFile(lake, *file) for file in told["files"])
data = BatchRows(ORDERS, rows=1, files=files, splits=(Heap(ORDERS, ()),))
yard = Yard("redshift", database, told["database"]["schema"], None)
record, commit = Commits.record, RedshiftSession.commit

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

def recorded(self, session, *rest):
    record(self, session, *rest)
    if told["when"] == "rows written":
        die()
    def ends():
        if told["when"] == "committed":
            commit(session)
        die()
    session.commit = ends

Commits.record = recorded
loading = Loader(yard, flow_of(yard), seq=1)
loading.load(data)
"""


@pytest.mark.parametrize("when", ["rows written", "commit", "committed"])
def test_b13_d7_a_killed_loader_leaves_all_or_nothing(yard: Yard, when: str) -> None:
    orders = loader(yard)
    orders.rows(ORDERS, [ROW])
    batch_data = landed(yard, ORDERS, [(2, "b", None, 2)])
    lake, database = batch_data.files[0].lake, yard.database
    assert database.password
    assert lake.access_key
    assert lake.secret_key
    told = {
        "when": when,
        "password": database.password.reveal(),
        "keys": [lake.access_key.reveal(), lake.secret_key.reveal()],
        "lake": [lake.path, lake.endpoint, lake.region],
        "files": [[file.path, file.rows, file.bytes] for file in batch_data.files],
        "database": {
            name: getattr(database, name)
            for name in ("host", "port", "database", "user", "schema", "iam_role")
        },
    }
    top = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", DOOMED],
        input=json.dumps(told),
        text=True,
        cwd=top,
        capture_output=True,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    receipt = yard.output(orders.flow).receipt(tag_of(orders.flow, 2))
    assert (receipt is not None) == (when == "committed")
    assert len(yard.contents("orders", ["id"])) == (2 if when == "committed" else 1)
    # Whoever comes next ends it, once.
    assert counts(orders.load(batch_data)) == (1, 1, 0, 0)
    assert yard.contents("orders", ["id"]) == [(1,), (2,)]
