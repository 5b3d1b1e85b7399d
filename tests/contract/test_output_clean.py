"""A lake table whose committed batches are cleaned away: its manifests say so, and no reader is misled."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from tests.contract.test_output import FOLDER, WINDOW, data, publish
from tests.contract.test_output import lake as lake
from tests.contract.test_output import output as output
from tests.support.output_parts import committed_files, tag
from tidegauge.errors import OutputDisagrees
from tidegauge.model.spec import Lake
from tidegauge.outputs.lake import files
from tidegauge.outputs.lake.files import clean, survey
from tidegauge.outputs.lake.manifest import EARLIER, LOADED, BatchNumber, load, refuse_removed
from tidegauge.outputs.lake.output import LakeOutput
from tidegauge.outputs.lake.table import load_committed
from tidegauge.storage.store import open_store

AHEAD = timedelta(seconds=-5)


def there(lake: Lake) -> list[str]:
    return sorted(entry.path.removeprefix(f"{FOLDER}/") for entry in open_store(lake).list(f"{FOLDER}/data"))


def test_a_batch_that_is_cleaned_away_keeps_its_manifest_which_says_so(
    output: LakeOutput, lake: Lake
) -> None:
    receipts = [publish(output, seq, data(lake, f"data/{seq}/part-0.parquet")) for seq in (1, 2, 3)]
    wanted = {BatchNumber(0, 1): LOADED, BatchNumber(0, 2): LOADED}
    assert clean(lake, FOLDER, batches=wanted, reason="spring") == (), "they are too young"
    would = clean(lake, FOLDER, older_than=AHEAD, batches=wanted, preview=True)
    assert [(one.path, one.why) for one in would] == [
        ("data/1/part-0.parquet", LOADED),
        ("data/2/part-0.parquet", LOADED),
    ]
    assert len(there(lake)) == 3
    gone = clean(lake, FOLDER, older_than=AHEAD, batches=wanted, reason="spring")
    assert [one.path for one in gone] == [one.path for one in would]
    assert there(lake) == ["data/3/part-0.parquet"]
    # What was committed is committed, to the letter.
    assert [output.receipt(tag(seq)) for seq in (1, 2, 3)] == receipts
    assert output.lacks((0, 3)) is None
    found = survey(lake, FOLDER)
    assert [one.seq for one in found.removed] == [1, 2]
    assert (found.missing, found.leftovers) == ((), ())
    assert [one.seq for one in committed_files(lake, FOLDER)] == [3]
    with pytest.raises(OutputDisagrees, match=r"batch 1 of epoch 0, and 1 more, were cleaned away.*spring"):
        refuse_removed("here", load_committed(lake, FOLDER), "so")
    body = json.loads(open_store(lake).get(f"{FOLDER}/_tidegauge/0/1.json") or b"")
    assert body["removed"]["reason"] == "spring"
    assert body["files"][0]["path"] == "data/1/part-0.parquet", (
        "a stranger looks for it, and does not find it"
    )
    assert clean(lake, FOLDER, older_than=AHEAD, batches=wanted, reason="again") == ()
    manifest = load(open_store(lake), FOLDER, 0, 1)
    assert manifest is not None
    assert manifest.removed is not None
    assert manifest.removed.reason == "spring"


def test_what_was_marked_and_not_deleted_goes_the_next_time(
    output: LakeOutput, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seq in (1, 2):
        publish(output, seq, data(lake, f"data/{seq}/part-0.parquet"))

    def fall(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(files, "_of_batches", fall)
        with pytest.raises(KeyboardInterrupt):
            clean(lake, FOLDER, older_than=AHEAD, batches={BatchNumber(0, 1): LOADED}, reason="spring")
    assert len(there(lake)) == 2
    with pytest.raises(OutputDisagrees, match="cleaned away"):
        refuse_removed("here", load_committed(lake, FOLDER), "so")
    [left] = clean(lake, FOLDER)
    assert (left.path, left.why) == ("data/1/part-0.parquet", "cleaned before")
    assert there(lake) == ["data/2/part-0.parquet"]


def test_two_who_clean_at_once_do_it_once(output: LakeOutput, lake: Lake) -> None:
    publish(output, 1, data(lake, "data/1/part-0.parquet"))
    store = open_store(lake)

    class Late:
        """Somebody else has marked the batch between the reading and the replacing of its manifest."""

        def replace(self, path: str, body: bytes, token: str | None) -> str | None:
            clean(lake, FOLDER, older_than=AHEAD, batches={BatchNumber(0, 1): LOADED}, reason="first")
            return store.replace(path, body, token)

        def __getattr__(self, name: str) -> object:
            return getattr(store, name)

    clean(lake, FOLDER, older_than=AHEAD, batches={BatchNumber(0, 1): LOADED}, reason="late", store=Late())  # type: ignore[arg-type]
    manifest = load(store, FOLDER, 0, 1)
    assert manifest is not None
    assert manifest.removed is not None
    assert manifest.removed.reason == "first"
    assert there(lake) == []


def test_an_epoch_that_was_cleaned_away_cannot_be_continued(output: LakeOutput, lake: Lake) -> None:
    publish(output, 1, data(lake, "data/1/part-0.parquet"))
    output.open_epoch("shop", "shop.orders", 1, None, "a fresh start")
    publish(output, 1, data(lake, "data/2/part-0.parquet"), epoch=1)
    assert output.lacks((0, 1)) is None
    clean(lake, FOLDER, older_than=AHEAD, batches={BatchNumber(0, 1): EARLIER}, reason="spring")
    assert there(lake) == ["data/2/part-0.parquet"]
    assert "cleaned away" in (output.lacks((0, 1)) or "")
    assert output.lacks((1, 1)) is None
    assert WINDOW.windows == load_committed(lake, FOLDER)[0].windows
