"""Watermarks changed by hand: what is shown first, what is refused, and what the next run then does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import Make
from tests.support.lake import rows
from tests.support.project import Project, Ran, refused, unchanged

WHY = ("--reason", "tried in a test", "--yes")


@pytest.fixture
def project(make: Make) -> Project:
    """Ten orders on ten days, and events with a plain number as cursor."""
    made = make()
    made.database.execute(
        "CREATE TABLE orders (id INTEGER PRIMARY KEY, at TEXT NOT NULL)",
        "CREATE TABLE copies (id INTEGER PRIMARY KEY, at TEXT NOT NULL)",
        "CREATE TABLE events (id INTEGER PRIMARY KEY, word TEXT)",
    )
    days = [(n, f"2025-01-{n:02} 12:00:00") for n in range(1, 11)]
    made.database.insert("orders", days)
    made.database.insert("copies", days)
    made.database.insert("events", [(n, f"word {n}") for n in range(1, 11)])
    return made.write(
        "tables: [orders, copies, events], cursor: at, settle: 1s, override: {events: {cursor: id}}"
    )


@pytest.fixture
def ran(project: Project) -> Project:
    assert project.here("run").code == 0
    return project


def override(project: Project, *words: str, code: int = 0) -> Ran:
    done = project.here("watermark", *words, "--json")
    assert done.code == code, done.said
    return done


def mark(project: Project, flow: str) -> dict[str, Any]:
    marks = project.here("watermark", "list", "--json").json["watermarks"]
    found: dict[str, Any] = next(one for one in marks if one["flow"] == flow)
    return found


def landed(project: Project, table: str = "orders") -> list[int]:
    return sorted(row["id"] for row in rows(project.lake, table))


def run(project: Project, table: str = "orders") -> dict[str, Any]:
    again = project.here("run", "--json", "-t", table)
    assert again.code == 0, again.said
    return again.flow(table)


def test_b15_a_watermark_set_back_reads_the_rows_after_it_again(ran: Project) -> None:
    before = mark(ran, "orders")["position"]
    words = ("set", "-t", "orders", "--timestamp", "2025-01-07 12:00:00")
    with unchanged(ran):
        said = refused(ran.here("watermark", *words, *WHY), "--force", code=2)
        assert "3 rows will be read again" in said
        assert "further row versions" in said
    done = override(ran, *words, *WHY, "--force").json
    assert done["schema"] == "tidegauge/watermark-set/1"
    assert done["done"] is True
    [flow] = done["flows"]
    assert (flow["flow"], flow["from"], flow["rows_skipped"], flow["rows_read_again"]) == (
        "orders", before, 0, 3,
    )  # fmt: skip
    assert (flow["to"], flow["epoch"], flow["error"]) == (
        {"cursor": "2025-01-07 12:00:00", "key": []}, 1, None,
    )  # fmt: skip
    assert mark(ran, "orders")["position"] == flow["to"]
    assert landed(ran) == list(range(1, 11)), "what is in the lake stays"
    assert run(ran)["rows_read"] == 3
    assert landed(ran) == sorted([*range(1, 11), 8, 9, 10])
    verified = ran.here("verify", "-t", "orders", "--json")
    assert verified.code == 0, verified.said
    events = ran.here("history", "--json", "-t", "orders").json["events"]
    [event] = [one for one in events if one["event"] == "set"]
    assert (event["from"], event["to"], event["reason"]) == (before, flow["to"], "tried in a test")
    assert event["actor"]


def test_b15_a_watermark_set_forward_skips_rows_and_says_how_many(project: Project) -> None:
    words = ("set", "-t", "orders", "--timestamp", "2025-01-04T12:00:00")
    [flow] = override(project, *words, *WHY).json["flows"]
    assert (flow["from"], flow["rows_skipped"], flow["rows_read_again"]) == (None, 4, 0)
    assert run(project)["rows_read"] == 6
    assert landed(project) == list(range(5, 11))


def test_b15_a_watermark_in_the_future_needs_force_and_says_what_follows(ran: Project) -> None:
    for flow, words in (
        ("orders", ("--timestamp", "2099-01-01 00:00:00")),
        ("events", ("--position", "1000")),
    ):
        with unchanged(ran):
            said = refused(ran.here("watermark", "set", "-t", flow, *words, *WHY), "--force", code=2)
            assert "in the future" in said
            assert "skipped" in said
    [flow] = override(ran, "set", "-t", "events", "--position", "1000", *WHY, "--force").json["flows"]
    assert flow["to"] == {"cursor": "1000", "key": []}
    ran.database.insert("events", [(11, "below"), (1001, "above")])
    assert run(ran, "events")["rows_read"] == 1


def test_b15_a_dry_run_shows_everything_and_changes_nothing(ran: Project) -> None:
    with unchanged(ran):
        for words in (
            ("set", "-t", "orders", "--timestamp", "2025-01-07 12:00:00"),
            ("reset", "-t", "orders"),
            ("copy", "--from", "orders", "--to", "copies"),
        ):
            shown = override(ran, *words, "--dry-run").json
            assert shown["done"] is False
            assert len(shown["flows"]) == 1
        said = ran.here("watermark", "set", "-t", "orders", "--timestamp", "2025-01-07", "--dry-run")
        assert said.code == 0
        assert "take care: it lies behind the watermark: 4 rows will be read again" in said.out
        assert "nothing was changed" in said.out


def test_b17_after_a_reset_the_next_run_begins_at_the_beginning(ran: Project) -> None:
    with unchanged(ran):
        asked = ran.here("watermark", "reset", "-t", "orders", "--yes")
        refused(asked, "needs a reason", code=2)
        assert f'tidegauge watermark reset -t orders --project {ran.file} --reason "why" --yes' in asked.err
        refused(ran.here("watermark", "reset", "-t", "orders", *WHY[:2]), "--yes", code=2)
        refused(ran.here("watermark", "reset", *WHY), "-t", code=2)
    [flow] = override(ran, "reset", "-t", "orders", *WHY).json["flows"]
    assert (flow["to"], flow["rows_read_again"], flow["epoch"]) == (None, 10, 1)
    assert landed(ran) == [], "readers no longer follow the old epoch"
    ran.database.execute("DELETE FROM orders WHERE id > 5")
    assert run(ran)["rows_read"] == 5
    assert landed(ran) == [1, 2, 3, 4, 5]
    assert ran.here("verify", "-t", "orders").code == 0
    [table] = ran.here("files", "list", "--json", "-t", "orders").json["tables"]
    assert [(one["epoch"], one["rows"]) for one in table["committed"]] == [(1, 5)]
    assert [(one["epoch"], one["rows"]) for one in table["earlier"]] == [(0, 10)]
    assert mark(ran, "copies")["epoch"] == 0


def test_a_reset_still_begins_at_initial(ran: Project) -> None:
    ran.write("tables: [orders], cursor: at, settle: 1s, initial: '2025-01-09'")
    [flow] = override(ran, "reset", "-t", "orders", *WHY).json["flows"]
    assert flow["rows_read_again"] == 2
    assert "initial" in flow["notes"][0]
    assert run(ran)["rows_read"] == 2
    assert landed(ran) == [9, 10]


def test_many_flows_are_reset_by_a_selection(ran: Project) -> None:
    done = override(ran, "reset", "--select", "*", *WHY).json
    assert [flow["flow"] for flow in done["flows"]] == ["copies", "events", "orders"]
    assert {mark(ran, flow)["epoch"] for flow in ("copies", "events", "orders")} == {1}
    again = ran.here("run", "--json")
    assert [flow["rows_read"] for flow in again.json["flows"]] == [10, 10, 10], again.said


def test_undo_brings_position_and_lake_back(ran: Project) -> None:
    before = mark(ran, "orders")["position"]
    override(ran, "reset", "-t", "orders", *WHY)
    ran.database.execute("DELETE FROM orders WHERE id < 4")
    assert run(ran)["rows_read"] == 7
    [flow] = override(ran, "undo", "-t", "orders", *WHY).json["flows"]
    assert (flow["to"], flow["epoch"]) == (before, 2)
    assert mark(ran, "orders")["position"] == before
    assert landed(ran) == list(range(1, 11))
    with unchanged(ran):
        refused(ran.here("watermark", "undo", "-t", "orders", *WHY), "no override to undo", code=2)
    words = [one["event"] for one in ran.here("history", "--json", "-t", "orders").json["events"]]
    assert words[0] == "undo"


def test_a_copy_goes_from_one_flow_to_another(ran: Project) -> None:
    override(ran, "set", "-t", "orders", "--timestamp", "2025-01-06 12:00:00", *WHY, "--force")
    refused(
        ran.here("watermark", "copy", "--from", "orders", "--to", "copies", *WHY), "4 rows", "--force", code=2
    )
    [flow] = override(ran, "copy", "--from", "orders", "--to", "copies", *WHY, "--force").json["flows"]
    assert (flow["flow"], flow["to"]) == ("copies", mark(ran, "orders")["position"])
    assert run(ran, "copies")["rows_read"] == 4
    for words, said in (
        (("--from", "events", "--to", "orders"), "id int"),
        (("--from", "nobody", "--to", "orders"), "no watermark of 'nobody'"),
        (("--from", "orders", "--to", "*s"), "3 flows"),
        (("--from", "orders", "--to", "orders", "--from-pipeline", "none"), "pipeline 'none'"),
    ):
        refused(ran.here("watermark", "copy", *words, *WHY), said, code=2)


def test_a_copy_between_two_pipelines(ran: Project) -> None:
    text = ran.file.read_text()
    ran.file.write_text(
        text.replace("pipeline: test", "pipeline: other").replace("path: lake", "path: lake2")
    )
    [flow] = override(
        ran, "copy", "--from", "orders", "--to", "orders", "--from-pipeline", "test", *WHY
    ).json["flows"]
    assert flow["rows_skipped"] == 10
    assert run(ran)["state"] == "SKIPPED"


def test_an_export_comes_back_exactly(ran: Project, tmp_path: Path) -> None:
    file = tmp_path / "marks.json"
    wrote = ran.here("watermark", "export", file)
    assert wrote.code == 0, wrote.said
    document = json.loads(file.read_text())
    assert document["schema"] == "tidegauge/watermark-export/1"
    for way in ((), ("-",)):
        found = ran.here("watermark", "export", *way).json
        assert document == {**found, "exported_at": document["exported_at"]}
    assert not Path("-").exists()
    same = override(ran, "import", str(file), *WHY).json
    assert (same["flows"], same["done"]) == ([], False)
    kept = {flow: mark(ran, flow)["position"] for flow in ("orders", "copies", "events")}
    override(ran, "reset", "--select", "*", *WHY)
    back = override(ran, "import", str(file), *WHY).json
    assert len(back["flows"]) == 3
    assert {flow: mark(ran, flow)["position"] for flow in kept} == kept
    file.write_text(ran.here("watermark", "get", "-t", "orders", "--json").out)
    override(ran, "reset", "-t", "orders", *WHY)
    [only] = override(ran, "import", str(file), *WHY).json["flows"]
    assert (only["flow"], mark(ran, "orders")["position"]) == ("orders", kept["orders"]), "of get, too"
    assert run(ran)["state"] == "SKIPPED"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ('{"schema": "other"}', "not an export"),
        ('{"schema": "tidegauge/watermark/1", "stages": [{"flow": "a", "watermarks": [{}]}]}', "by hand"),
        ("[]", "not an export"),
        ("{", "is not JSON"),
        ('{"schema": "tidegauge/watermark-export/1", "watermarks": [{"flow": "orders"}]}', "by hand"),
        (
            '{"schema": "tidegauge/watermark-export/1", "watermarks": [{"flow": "orders", "position": 7}]}',
            "by hand",
        ),
        (
            '{"schema": "tidegauge/watermark-export/1", "watermarks": [{"flow": "no", "position": null}]}',
            "no flow of this project",
        ),
        (
            '{"schema": "tidegauge/watermark-export/1", "watermarks":'
            ' [{"flow": "orders", "position": {"cursor": ["int", "7"], "key": []}}]}',
            "at text, id int",
        ),
    ],
)
def test_an_import_that_is_wrong_is_refused(ran: Project, tmp_path: Path, change: str, said: str) -> None:
    file = tmp_path / "marks.json"
    file.write_text(change)
    with unchanged(ran):
        refused(ran.here("watermark", "import", file, *WHY), said, code=2)


@pytest.mark.parametrize(
    ("flow", "words", "said"),
    [
        ("orders", ("--timestamp", "yesterday"), "at is a timestamp, and 'yesterday' is not one"),
        ("orders", ("--timestamp", "2025-13-01"), "'2025-13-01' is not one"),
        ("events", ("--timestamp", "2025-01-01"), "cursor id is a int, not a timestamp"),
        ("events", ("--position", "ten"), "id is a int, and 'ten' is not one"),
        ("events", ("--position", "1.5"), "id is a int, and '1.5' is not one"),
        ("events", ("--position", '{"cursor": 1, "key": [1, 2]}'), "the key has 1 columns (id)"),
        ("events", ("--position", '{"cursor": 1, "keys": [1]}'), "is not a position"),
        ("events", ("--position", "[1]"), "is not a position"),
        ("events", (), "either --timestamp or --position"),
        ("nobody", ("--position", "1"), "nothing is selected by nobody"),
    ],
)
def test_a_position_that_does_not_fit_is_refused_naming_column_and_kind(
    ran: Project, flow: str, words: tuple[str, ...], said: str
) -> None:
    with unchanged(ran):
        refused(ran.here("watermark", "set", "-t", flow, *words, *WHY), said, code=2)


def test_a_position_with_its_key_is_taken_as_json_shows_it(ran: Project) -> None:
    words = ("--position", '{"cursor": "2025-01-03 12:00:00", "key": ["3"]}')
    [flow] = override(ran, "set", "-t", "orders", *words, *WHY, "--force").json["flows"]
    assert flow["rows_read_again"] == 7
    assert flow["to"] == {"cursor": "2025-01-03 12:00:00", "key": ["3"]}
    [flow] = override(ran, "set", "-t", "orders", "--position", "null", *WHY, "--force").json["flows"]
    assert (flow["to"], flow["rows_read_again"]) == (None, 3)
    assert run(ran)["rows_read"] == 10
    assert len(landed(ran)) == 20, "a set continues what was there; a reset does not"


def test_a_source_that_is_down_leaves_only_the_counts_unknown(ran: Project, tmp_path: Path) -> None:
    (tmp_path / "source.db").rename(tmp_path / "away.db")
    [flow] = override(ran, "reset", "-t", "orders", *WHY).json["flows"]
    assert flow["rows_read_again"] is None
    assert "could not be asked" in flow["rows_unknown"]
    assert mark(ran, "orders")["position"] is None
    shown = ran.here("watermark", "undo", "-t", "orders", *WHY)
    assert shown.code == 0, shown.said
    assert "unknown" in shown.out
    refused(ran.here("watermark", "set", "-t", "orders", "--timestamp", "2025-01-01", *WHY), code=1)
    (tmp_path / "away.db").rename(tmp_path / "source.db")
    assert run(ran)["state"] == "SKIPPED"


def test_a_plan_that_was_left_is_superseded_and_shown_before(project: Project) -> None:
    data = project.folder / "lake" / "orders" / "data"
    data.parent.mkdir(parents=True)
    data.write_text("in the way")
    assert project.here("run", "-t", "orders").code == 1
    data.unlink()
    words = ("set", "-t", "orders", "--timestamp", "2025-01-02 12:00:00")
    [flow] = override(project, *words, *WHY).json["flows"]
    assert "0 of 1 batches done" in flow["supersedes"]
    assert run(project)["rows_read"] == 8
    assert landed(project) == list(range(3, 11))


def test_a_folder_that_is_gone_is_refused_before_anything_is_begun_and_a_reset_helps(ran: Project) -> None:
    lake = ran.folder / "lake"
    lake.rename(ran.folder / "gone")
    refused(
        ran.here("watermark", "set", "-t", "orders", "--timestamp", "2025-01-07", *WHY, "--force"),
        "is not in",
        "watermark reset",
    )
    assert mark(ran, "orders")["epoch"] == 0
    override(ran, "reset", "-t", "orders", *WHY)
    assert run(ran)["rows_read"] == 10
    assert landed(ran) == list(range(1, 11))


def test_batches_that_the_ledger_never_knew_are_left_behind_by_a_reset(ran: Project) -> None:
    ran.ledger_file.unlink()
    refused(ran.here("run", "-t", "orders"), "the ledger knows nothing of them", "watermark reset")
    override(ran, "reset", "-t", "orders", *WHY)
    assert run(ran)["rows_read"] == 10
    assert landed(ran) == list(range(1, 11))
