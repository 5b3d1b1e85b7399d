"""However events are cut into windows, shuffled, replayed and crashed: one history comes out."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidegauge.model.delta_flow import DeltaTable, TableRef
from tidegauge.model.mode import Mode
from tidegauge.model.plan import Tag
from tidegauge.outputs.delta import scd2
from tidegauge.outputs.delta.commit import tag_commits
from tidegauge.outputs.delta.scd2 import added_columns, apply_scd2
from tidegauge.outputs.delta.session import configure
from tidegauge.spark.session import sibling

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STORIES, KEYS, EVENTS, ROUNDS = 8, 5, 80, 6
START = datetime(2025, 1, 1, tzinfo=UTC)

Row = tuple[datetime, datetime | None, bool, str | None, int | None]


@dataclass(frozen=True)
class Event:
    sequence: datetime | None
    version: int
    change: str
    state: str | None = None
    note: int | None = None

    @property
    def commit(self) -> datetime:
        return START + timedelta(minutes=self.version)


def _story(dice: random.Random) -> list[Event]:
    """One key's life: few values, so that most come again; ties; deletes of both kinds; late and early."""
    events = []
    for _ in range(EVENTS):
        version = dice.randrange(EVENTS)
        # Around the commit's time: before it, as is usual, or after it where clocks differ.
        sequence = START + timedelta(minutes=version + dice.choice([-30, -9, -6, -3, -2, -1, 0, 1, 4]))
        kind = dice.random()
        if kind < 0.75:
            events.append(
                Event(sequence, version, "insert", dice.choice(["a", "b", None]), dice.randrange(9))
            )
        else:
            events.append(Event(sequence if kind < 0.87 else None, version, "delete"))
    # In one commit and at one moment one upsert at the most: which of two counts is another test's.
    seen = {(one.version, one.sequence): one for one in events if one.change != "delete"}
    return [*seen.values(), *{one for one in events if one.change == "delete"}]


def _history(events: Iterable[Event]) -> list[Row]:
    """What a sort of all events gives."""
    updated = {one.version for one in events if one.change != "delete"}
    own: dict[datetime, Event] = {}
    for one in sorted(events, key=lambda one: (one.version, one.change != "delete")):
        if one.sequence is not None:
            own[one.sequence] = one
    line = dict(own)
    for one in sorted(events, key=lambda one: one.version):
        if one.sequence is None and one.version not in updated:
            earlier = [
                moment
                for moment, other in own.items()
                if other.change != "delete" and other.version < one.version
            ]
            moment = max([one.commit, *earlier])
            if moment not in line or line[moment].version < one.version:
                line[moment] = one
    rows: list[Row] = []
    standing: Event | None = None
    last = -1

    def end(moment: datetime) -> None:
        if standing is not None:
            rows[-1] = (rows[-1][0], moment, False, *rows[-1][3:])

    for moment, one in sorted(line.items()):
        if one.change != "delete":
            last = one.version
            if standing is None or standing.state != one.state:
                end(moment)
                rows.append((moment, None, True, one.state, one.note))
                standing = one
        elif one.sequence is not None or last <= one.version:
            end(moment)
            standing = None
    return rows


def _table(picks: list[tuple[int, int, Event]]) -> pa.Table:
    """(shuffle, key, event) as the rows of a change."""
    stamp = pa.timestamp("us", tz="UTC")
    return pa.table(
        {
            "shuffle": pa.array([shuffle for shuffle, _, _ in picks], pa.int32()),
            "key": pa.array([f"k{key}" for _, key, _ in picks], pa.string()),
            "seen": pa.array([one.sequence for _, _, one in picks], stamp),
            "state": pa.array([one.state for _, _, one in picks], pa.string()),
            "note": pa.array([one.note for _, _, one in picks], pa.int32()),
            "_change_type": pa.array([one.change for _, _, one in picks], pa.string()),
            "_commit_version": pa.array([one.version for _, _, one in picks], pa.int64()),
            "_commit_timestamp": pa.array([one.commit for _, _, one in picks], stamp),
        }
    )


def _rounds(dice: random.Random) -> list[list[int]]:
    """Which versions come in which round: each once at least, in any order, some again and again."""
    rounds: list[list[int]] = [[] for _ in range(ROUNDS)]
    straight = dice.random() < 0.2
    cuts = sorted(dice.sample(range(1, EVENTS), ROUNDS - 1))
    for version in range(EVENTS):
        in_turn = sum(version >= cut for cut in cuts)
        rounds[in_turn if straight else dice.randrange(ROUNDS)].append(version)
    for number in range(1, ROUNDS):
        if dice.random() < 0.5:
            rounds[number] += dice.choice(rounds[:number])
    return rounds


class Killed(Exception):
    pass


@pytest.mark.long
@pytest.mark.parametrize("shuffles", [24, 200])
def test_d5_d6_d8_any_shuffle_replay_and_crash_gives_one_history(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shuffles: int
) -> None:
    dice = random.Random(20251115)
    stories = [[_story(dice) for _ in range(KEYS)] for _ in range(STORIES)]
    by_version: list[list[dict[int, list[Event]]]] = [
        [defaultdict(list) for _ in range(KEYS)] for _ in range(STORIES)
    ]
    for number, story in enumerate(stories):
        for key, events in enumerate(story):
            for event in events:
                by_version[number][key][event.version].append(event)
    batches: list[list[tuple[int, int, Event]]] = [[] for _ in range(ROUNDS)]
    for shuffle in range(shuffles):
        for number, versions in enumerate(_rounds(dice)):
            for version in versions:
                for key in range(KEYS):
                    found = by_version[shuffle % STORIES][key][version]
                    batches[number] += [(shuffle, key, event) for event in found]

    location = str(tmp_path / "history")
    output = DeltaTable(
        TableRef(path=location),
        Mode.SCD2,
        key=("shuffle", "key"),
        sequence_by="seen",
        track=("state",),
    )
    session = sibling(spark)
    configure(session)
    for number, batch in enumerate(batches):
        file = str(tmp_path / f"{number}.parquet")
        pq.write_table(_table(batch), file)
        rows = session.read.parquet(file)
        if number == 0:
            _create(spark, location, rows, output)

        def apply(rows: DataFrame = rows, tag: Tag = Tag("p", "f", 1, number + 1)) -> None:
            with tag_commits(session, tag, "{}"):
                apply_scd2(session, f"delta.`{location}`", location, rows, output)

        if number in (2, 4):
            # Killed when the kept events are written and the history is not.
            with monkeypatch.context() as patch:
                patch.setattr(scd2, "_merge", _kill)
                with pytest.raises(Killed):
                    apply()
        apply()
        if number == 3:
            # Killed when all was written and nobody knew: the same batch with the same tag.
            apply()

    table = spark.read.format("delta").load(location).orderBy("shuffle", "key", "valid_from")
    got: dict[tuple[int, str], list[Row]] = defaultdict(list)
    for row in table.toArrow().to_pylist():
        assert row["seen"] == row["valid_from"]
        shown = (row["valid_from"], row["valid_to"], row["is_current"], row["state"], row["note"])
        got[row["shuffle"], row["key"]].append(shown)
    wanted = [[_history(events) for events in story] for story in stories]
    for shuffle in range(shuffles):
        for key in range(KEYS):
            assert got[shuffle, f"k{key}"] == wanted[shuffle % STORIES][key], (shuffle, key)


def _create(spark: SparkSession, location: str, rows: DataFrame, output: DeltaTable) -> None:
    schema = rows.drop("_change_type", "_commit_version", "_commit_timestamp").schema
    for field in added_columns(rows.schema, output):
        schema.add(field)
    empty = spark.createDataFrame([], schema).write.format("delta")
    empty.option("delta.enableDeletionVectors", "true").save(location)


def _kill(*_: object) -> None:
    raise Killed
