"""`files clean` killed half-way: what is left says what is gone, the next call ends it, no row is lost."""

from __future__ import annotations

import pytest

from tests.crash.dying import Death, run
from tests.crash.houses import Build
from tests.support.nursery import Nursery
from tests.support.project import until

SYNC = "tables: [t], cursor: version, batch_rows: 3, parallel: 1"
FILES = "tidegauge.outputs.lake.files"
STORE = {"local": "tidegauge.storage.local:LocalFiles", "s3": "tidegauge.storage.s3:S3Objects"}
CLEAN = (
    "files",
    "clean",
    "--loaded",
    "--earlier-epochs",
    "--older-than",
    "0s",
    "--reason",
    "r",
    "--yes",
    "--json",
)
DEATHS = {
    "before the first mark": (f"{FILES}:_mark", "before", 1),
    "after the second mark": (f"{FILES}:_mark", "after", 2),
    "before a manifest is replaced": ("{store}.replace", "before", 2),
    "after a manifest is replaced": ("{store}.replace", "after", 1),
    "before the files go": ("{store}.delete", "before", 1),
    "when the files are gone": ("{store}.delete", "after", 1),
}


@pytest.mark.shown_on(
    "local-before the first mark",
    "local-after the second mark",
    "local-before the files go",
    "s3-after a manifest is replaced",
)
@pytest.mark.parametrize(("place", "side", "times"), DEATHS.values(), ids=DEATHS)
@pytest.mark.parametrize("lake", ["local", "s3"])
def test_a_cleaning_killed_anywhere_is_ended_by_the_next_and_loses_no_row(
    build: Build, nursery: Nursery, lake: str, place: str, side: str, times: int
) -> None:
    house = build("sqlite", lake, "duckdb").write(SYNC)
    house.change(7, 0)
    assert nursery.run(house.file).code == 0
    where = place.format(store=STORE[lake])

    def dies() -> bool:
        died = run(nursery, Death((where,), side, times), None, *CLEAN, "--project", house.file)
        assert died.code in (0, -9), died
        return died.code == -9

    # S3 counts in seconds: a batch of this second is not old yet, and then there is nothing to die at.
    until(dies)
    # A load that goes on is not disturbed, and one that has to begin again does not take a part for all.
    house.change(2, 3)
    assert nursery.run(house.file).code == 0
    assert house.landed() == house.source()

    def all_is_gone() -> bool:
        assert nursery.command(*CLEAN, "--project", house.file).code == 0
        return not any(name.endswith(".parquet") for name in house.lake.names("t"))

    # All was loaded, so all can go.
    until(all_is_gone)
    again = nursery.command(
        "run", "--stage", "load", "--full-refresh", "--reason", "r", "--yes", "--project", house.file
    )
    assert again.code == 1, again
    assert house.landed() == house.source()
    house.change(1, 1)
    assert nursery.run(house.file).code == 0
    assert house.landed() == house.source()
