"""Which columns and rows leave a source, and what a mask makes of a value: the same on every engine."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from tests.support.servers import Postgres
from tests.support.snowflake_server import SnowflakeServer
from tests.support.source_parts import Place, asked, postgresql_place, snowflake_place
from tidegauge.errors import ConfigError, TidegaugeError
from tidegauge.errors import Place as Where
from tidegauge.model.columns import ColumnChoice, ColumnMask, MaskKind, RowFilter
from tidegauge.model.plan import Batch
from tidegauge.model.position import RowPosition, Value, ValueKind, Window
from tidegauge.model.secret import Secret, mask
from tidegauge.model.spec import Engine, NullCursor, ReadMethod
from tidegauge.model.table import SourceTable
from tidegauge.sources.direct import DirectReader, find_jdbc_reason
from tidegauge.sources.keys import read_keys
from tidegauge.sources.open import open_source

SALT = "it's a {salt} of \\ ours, ünd"
WORDS = ["ann@example.org", "", "  O'Brien  ", "Zoë ☃ 𝄞", None, "a\\b{}%s"]
EVERY = RowPosition(Value(ValueKind.INT, "99"))


def filled(place: Place) -> Place:
    number = {Engine.SNOWFLAKE: "NUMBER(12,2)"}.get(place.engine, "DECIMAL(12,2)")
    padded = " CHARACTER SET utf8mb4" if place.engine is Engine.MYSQL else ""
    place.run(
        f"CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, email varchar(40){padded}, ssn bigint,"
        f" amount {number}, born date, note varchar(20))"
    )
    back = "\\\\\\\\" if place.engine in (Engine.MYSQL, Engine.SNOWFLAKE) else "\\\\"
    for at, word in enumerate(WORDS):
        text = (
            "NULL"
            if word is None
            else "'" + word.replace("'", "''").replace("\\", back[: len(back) // 2]) + "'"
        )
        born = "NULL" if word is None else "'1999-01-31'"
        ssn = "NULL" if word is None else str(at - 2)
        place.run(f"INSERT INTO t VALUES ({at}, {at}, {text}, {ssn}, {at}.5, {born}, 'secret {at}')")
    return place


@pytest.fixture
def home(place: Place) -> Place:
    return filled(place)


def named(place: Place, name: str) -> str:
    return name.upper() if place.engine is Engine.SNOWFLAKE else name


def described(place: Place, **options: Any) -> SourceTable:
    source = open_source(place.database)
    try:
        return source.describe(place.table(named(place, "t")), asked(named(place, "n"), **options))
    finally:
        source.close()


def arrived(place: Place, **options: Any) -> list[dict[str, Any]]:
    """As the reader gives them to an output, by id."""
    source_table = described(place, **options)
    batch = Batch((Window(None, EVERY),), rows=6)
    splits = DirectReader(place.database).batch_data(source_table, batch).splits
    table = pa.Table.from_batches([part for split in splits for part in split.batches()])
    rows = [{name.lower(): value for name, value in row.items()} for row in table.to_pylist()]
    return sorted(rows, key=lambda row: int(row["id"]))


def sha256(text: str | None, salt: str = "") -> str | None:
    return None if text is None else hashlib.sha256((salt + text).encode()).hexdigest()


def hashed(pattern: str, salt: str | None = None) -> ColumnMask:
    return ColumnMask(pattern, MaskKind.SHA256, salt=Secret(salt) if salt else None)


def check_hashes(place: Place) -> None:
    masks = (hashed("EMAIL", SALT), hashed("s?n"), hashed("amount"), hashed("born", SALT))
    rows = arrived(place, mask=masks, columns=ColumnChoice(exclude=("NOTE",)))
    assert [row["email"] for row in rows] == [sha256(word, SALT) for word in WORDS]
    whole = place.engine is Engine.SQLITE  # where a DECIMAL is whatever was written
    for at, (row, word) in enumerate(zip(rows, WORDS, strict=True)):
        there = word is not None
        assert row["ssn"] == (sha256(str(at - 2)) if there else None)
        assert row["amount"] == sha256(f"{at}.5" if whole else f"{at}.50")
        assert row["born"] == (sha256("1999-01-31", SALT) if there else None)
        assert "note" not in row


def test_a_hash_is_the_same_digits_on_every_engine(home: Place) -> None:
    check_hashes(home)


def test_a_hash_is_the_same_digits_on_snowflake(snowflake: SnowflakeServer) -> None:
    check_hashes(filled(snowflake_place(snowflake)))


def test_null_keeps_the_type_and_a_text_takes_the_place_of_values_only(home: Place) -> None:
    masks = (
        ColumnMask("ssn", MaskKind.NULL),
        ColumnMask("born", MaskKind.NULL),
        ColumnMask("amount", MaskKind.NULL),
        ColumnMask("email", MaskKind.TEXT, "*'*\\"),
    )
    plain, source_table = described(home), described(home, mask=masks)
    for name in ("ssn", "born", "amount"):
        kinds = [
            next(one.arrives for one in each.columns if one.name == name) for each in (plain, source_table)
        ]
        assert kinds[0] == kinds[1]
    rows = arrived(home, mask=masks)
    assert [(row["ssn"], row["born"], row["amount"]) for row in rows] == [(None, None, None)] * 6
    assert [row["email"] for row in rows] == [None if word is None else "*'*\\" for word in WORDS]


@pytest.mark.parametrize(
    "choice", [ColumnChoice(include=("id", "N", "e*")), ColumnChoice(exclude=("[!ine]*",))]
)
def test_columns_are_chosen_by_pattern_also_those_that_come_later(home: Place, choice: ColumnChoice) -> None:
    home.run("ALTER TABLE t ADD COLUMN zzz int")
    home.run("ALTER TABLE t ADD COLUMN extra int")
    wanted = {"id", "n", "email", "extra"} | ({"note"} if choice.exclude else set())
    source_table = described(home, columns=choice)
    assert {column.name for column in source_table.columns} == wanted
    assert any("left out by `columns`: " in note and "zzz" in note for note in source_table.notes)


PLACE = Where("tidegauge.yml", 7, 5)
KEY = {
    "excluded key": {"columns": ColumnChoice(exclude=("i?",), place=PLACE)},
    "key not included": {"columns": ColumnChoice(include=("n", "note"), place=PLACE)},
    "excluded cursor": {"columns": ColumnChoice(exclude=("N",), place=PLACE)},
    "hashed key": {"mask": (ColumnMask("id", MaskKind.SHA256, place=PLACE),)},
    "null cursor": {"mask": (ColumnMask("*", MaskKind.NULL, place=PLACE),)},
    "hashed float": {"mask": (ColumnMask("f", MaskKind.SHA256, place=PLACE),)},
}


@pytest.mark.parametrize("options", KEY.values(), ids=KEY)
def test_what_orders_the_table_can_be_neither_left_out_nor_masked(
    home: Place, options: dict[str, Any]
) -> None:
    home.run("ALTER TABLE t ADD COLUMN f real")
    with pytest.raises(ConfigError) as caught:
        described(home, **options)
    assert caught.value.place == PLACE
    assert caught.value.hint


def test_part_of_a_cursor_expression_counts_as_the_cursor(home: Place) -> None:
    source = open_source(home.database)
    try:
        with pytest.raises(ConfigError, match="cursor"):
            source.describe(
                home.table("t"),
                asked(
                    "coalesce(ssn, n)", columns=ColumnChoice(exclude=("ssn",)), null_cursor=NullCursor.EXCLUDE
                ),
            )
    finally:
        source.close()


def test_a_misspelt_name_is_a_risk_that_is_said(home: Place) -> None:
    notes = described(home, mask=(hashed("emial"), hashed("shoe_size"))).notes
    assert [note for note in notes if note.startswith("risk")] == [
        "risk: `mask` names the column emial, and there is only email"
    ]


def test_a_column_that_cannot_be_held_may_be_left_out(postgres: Postgres) -> None:
    home = filled(postgresql_place(postgres))
    home.run("ALTER TABLE t ADD COLUMN free numeric")
    assert "free" not in {one.name for one in described(home, columns=ColumnChoice(exclude=("fr*",))).columns}
    column = described(home, mask=(ColumnMask("free", MaskKind.NULL),)).columns[-1]
    assert (column.name, column.arrives) == ("free", "string")


def test_only_rows_of_the_filter_are_counted_cut_read_and_compared(home: Place) -> None:
    rule = RowFilter("email IS NOT NULL AND (ssn < 0 OR ssn > 1)")
    wanted = [at for at, word in enumerate(WORDS) if word is not None and not 0 <= at - 2 <= 1]
    source = open_source(home.database)
    try:
        source_table = source.describe(home.table("t"), asked("n", where=rule))
        survey = source.survey(source_table, None, 1, None)
        assert [int(cut.position.cursor.text) for cut in survey.cuts] == wanted
        assert source.count(source_table, None, EVERY) == len(wanted)
    finally:
        source.close()
    assert [row["id"] for row in arrived(home, where=rule)] == wanted
    found = [one for part in read_keys(home.database, source_table) for one in part["id"].to_pylist()]
    assert sorted(found) == wanted
    after = RowPosition(Value(ValueKind.INT, "2"))
    found = [
        one for part in read_keys(home.database, source_table, after=after) for one in part["id"].to_pylist()
    ]
    assert sorted(found) == [at for at in wanted if at > 2]


def test_rows_without_a_cursor_obey_the_filter(home: Place) -> None:
    home.run("CREATE TABLE u (id int PRIMARY KEY, n int, a int)")
    for row in ("1, NULL, 1", "2, NULL, 2", "3, 5, 1", "4, 6, 2"):
        home.run(f"INSERT INTO u VALUES ({row})")
    source = open_source(home.database)
    try:
        options = asked("n", where=RowFilter("a = 1"), null_cursor=NullCursor.INCLUDE)
        source_table = source.describe(home.table("u"), options)
        survey = source.survey(source_table, None, 10, None)
    finally:
        source.close()
    assert (survey.rows_null, [cut.rows for cut in survey.cuts]) == (1, [1])
    batch = Batch((Window(EVERY, EVERY),), rows=1, nulls=True)
    splits = DirectReader(home.database).batch_data(source_table, batch).splits
    assert [one for split in splits for part in split.batches() for one in part["id"].to_pylist()] == [1]


@pytest.mark.parametrize("wrong", ["no_such_column = 1", "no_such_function(email) = 1", "email = = 1"])
def test_a_wrong_filter_is_an_error_of_the_file(home: Place, wrong: str) -> None:
    with pytest.raises(ConfigError, match="`where`") as caught:
        described(home, where=RowFilter(wrong, PLACE))
    assert caught.value.place == PLACE


def test_sqlite_hashes_in_this_process_or_not_at_all(home: Place) -> None:
    source_table = described(home, mask=(hashed("email"),), read=ReadMethod.JDBC)
    if home.engine is Engine.SQLITE:
        with pytest.raises(ConfigError, match="no sha256"):
            find_jdbc_reason(source_table, home.database)
    elif home.engine is not Engine.DUCKDB:
        assert find_jdbc_reason(source_table, home.database) is None


def test_e3_an_error_that_quotes_the_statement_does_not_show_the_salt(home: Place) -> None:
    source_table = described(home, mask=(hashed("email", SALT),))
    [select] = {one.select for one in source_table.columns if one.name == "email"}
    home.run("DROP TABLE t")
    assert SALT not in mask(select)
    assert SALT.encode().hex() not in mask(select)
    assert "***" in mask(select)
    splits = (
        DirectReader(home.database).batch_data(source_table, Batch((Window(None, EVERY),), rows=6)).splits
    )
    with pytest.raises(TidegaugeError) as caught:
        list(_read(splits))
    assert "{salt}" not in mask(str(caught.value))


def _read(splits: Any) -> Iterator[pa.RecordBatch]:
    for split in splits:
        yield from split.batches()
