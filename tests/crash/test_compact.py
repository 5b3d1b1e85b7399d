"""`files compact` killed half-way: every reader finds each row once, and the next call ends it."""

from __future__ import annotations

import json
import os
import signal

import pytest

from tests.crash.dying import Death, Stop, run, start
from tests.crash.houses import Build
from tests.crash.pausing import stands_still
from tests.crash.test_clean import STORE, SYNC
from tests.support.lake import rows
from tests.support.nursery import Nursery
from tests.support.project import here, until

PACK = "tidegauge.outputs.lake.compact"
WRITE = "tidegauge.outputs.lake.splits"
WHY = ("--reason", "r", "--yes", "--json")
COMPACT = ("files", "compact", *WHY)
CLEAN = ("files", "clean", "--older-than", "0s", *WHY)
DEATHS = {
    "before the file is written": (COMPACT, f"{WRITE}:_fill", "before", 1),
    "when the file is written": (COMPACT, f"{WRITE}:_write", "after", 1),
    "before the first manifest": (COMPACT, f"{PACK}:_switch", "before", 1),
    "before a manifest is replaced": (COMPACT, "{store}.replace", "before", 2),
    "after a manifest is replaced": (COMPACT, "{store}.replace", "after", 1),
    "when all is done": (COMPACT, f"{PACK}:_rewrite", "after", 1),
    "before a small file is marked": (CLEAN, "tidegauge.outputs.lake.files:_mark", "before", 2),
    "before the small files go": (CLEAN, "{store}.delete", "before", 1),
    "when the small files are gone": (CLEAN, "{store}.delete", "after", 1),
}


@pytest.mark.shown_on(
    "local-when the file is written",
    "local-before a manifest is replaced",
    "local-before a small file is marked",
    "local-before the small files go",
    "s3-after a manifest is replaced",
)
@pytest.mark.parametrize(("command", "place", "side", "times"), DEATHS.values(), ids=DEATHS)
@pytest.mark.parametrize("lake", ["local", "s3"])
def test_a_compaction_killed_anywhere_loses_no_row_and_doubles_none(
    build: Build, nursery: Nursery, lake: str, command: tuple[str, ...], place: str, side: str, times: int
) -> None:
    house = build("sqlite", lake, "duckdb").write(SYNC)
    house.change(7, 0)
    assert nursery.run(house.file).code == 0
    if command is CLEAN:
        assert nursery.command(*COMPACT, "--project", house.file).code == 0
        look = ("files", "clean", "--older-than", "0s", "--dry-run", "--json", "--project", house.file)
        until(lambda: "replaced by compaction" in nursery.command(*look).out)  # S3 counts whole seconds
    told = rows(house.lake, "t")
    where = place.format(store=STORE[lake])
    died = run(nursery, Death((where,), side, times), None, *command, "--project", house.file)
    assert died.code == -9, died
    assert rows(house.lake, "t") == told
    # A runner goes on, and a load that begins anew finds everything.
    house.change(2, 3)
    assert nursery.run(house.file).code == 0
    assert house.landed() == house.source()
    refill = ("run", "--stage", "load", "--full-refresh", "--reason", "r", "--yes")
    assert nursery.command(*refill, "--project", house.file).code == 0
    assert house.landed() == house.source()
    told = rows(house.lake, "t")
    assert nursery.command(*COMPACT, "--project", house.file).code == 0
    assert rows(house.lake, "t") == told

    def cleaned() -> bool:
        assert nursery.command(*CLEAN, "--project", house.file).code == 0
        return not [name for name in house.lake.names("t") if name.startswith("data/")]

    until(cleaned)
    assert rows(house.lake, "t") == told
    assert len([name for name in house.lake.names("t") if name.startswith("compacted/")]) <= 2
    assert nursery.command(*refill, "--project", house.file).code == 0
    assert house.landed() == house.source()


@pytest.mark.shown_on("local")
@pytest.mark.parametrize("lake", ["local", "s3"])
def test_a_compaction_that_stood_still_while_its_file_was_cleaned_away_names_no_missing_file(
    build: Build, nursery: Nursery, lake: str
) -> None:
    house = build("sqlite", lake, "duckdb").write(SYNC)
    house.change(7, 0)
    assert nursery.run(house.file).code == 0
    told = rows(house.lake, "t")
    where = f"{STORE[lake]}.replace"
    pid = start(nursery, Stop({where: 3}), None, *COMPACT, "--project", house.file)
    until(lambda: stands_still(pid))  # each of its three manifests is about to be replaced
    compacted = [name for name in house.lake.names("t") if name.startswith("compacted/")]
    assert compacted

    def cleaned() -> bool:
        assert here(*CLEAN, "--project", house.file).code == 0
        return not [name for name in house.lake.names("t") if name.startswith("compacted/")]

    until(cleaned)
    os.kill(pid, signal.SIGCONT)
    ended = nursery.end()
    assert ended.code == 0, ended
    assert rows(house.lake, "t") == told
    [listed] = json.loads(nursery.command("files", "list", "--json", "--project", house.file).out)["tables"]
    assert listed["missing"] == []
    # The next one does the work.
    assert nursery.command(*COMPACT, "--project", house.file).code == 0
    assert rows(house.lake, "t") == told
    [listed] = json.loads(nursery.command("files", "list", "--json", "--project", house.file).out)["tables"]
    assert listed["missing"] == []
    assert [name for name in house.lake.names("t") if name.startswith("compacted/")]


@pytest.mark.shown_on("redshift", "postgresql")
@pytest.mark.parametrize(
    ("lake", "target"), [("s3", "redshift"), ("local", "postgresql"), ("local", "mysql"), ("local", "sqlite")]
)
def test_a_load_killed_inside_a_compacted_file_goes_on_there(
    build: Build, nursery: Nursery, lake: str, target: str
) -> None:
    house = build("sqlite", lake, target).write(SYNC)
    house.change(7, 0)
    assert nursery.run(house.file).code == 0
    house.change(0, 4)
    assert nursery.run(house.file).code == 0
    told = rows(house.lake, "t")
    assert nursery.command(*COMPACT, "--project", house.file).code == 0
    small = [name for name in house.lake.names("t") if name.startswith("data/")]
    until(
        lambda: (
            nursery.command(*CLEAN, "--project", house.file).code == 0
            and not any(name.startswith("data/") for name in house.lake.names("t"))
        )
    )
    assert len(small) == 5
    reset = ("watermark", "reset", "--stage", "load", "--select", "*", *WHY)
    assert nursery.command(*reset, "--project", house.file).code == 0
    death = Death(("tidegauge.outputs.warehouse.stage_batch:_load",), "after", 2)
    died = run(nursery, death, None, "run", "--project", house.file)
    assert died.code == -9, died
    house.change(1, 2)
    assert nursery.run(house.file).code == 0
    assert house.landed() == house.source()
    assert rows(house.lake, "t")[: len(told)] == told
    # What Redshift is given of a compacted file lies in the lake for as long as a COPY takes.
    [listed] = json.loads(nursery.command("files", "list", "--json", "--project", house.file).out)["tables"]
    assert (listed["missing"], bool(listed["leftovers"])) == ([], target == "redshift")
