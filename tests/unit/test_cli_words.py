"""What the words of the command line mean, before anything is opened."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.support.project import here, refused
from tidegauge.cli.options import one_stage
from tidegauge.cli.progress import show
from tidegauge.errors import ConfigError, LimitReached, SourceError, Stopped
from tidegauge.model.plan import Draft
from tidegauge.model.spec import Stage
from tidegauge.model.state import State
from tidegauge.operations.status import is_wanted
from tidegauge.run.report import FlowReport, RunReport


@pytest.mark.parametrize(
    ("stage", "backup", "redshift", "meant"),
    [
        (None, False, False, None),
        (Stage.LOAD, False, False, Stage.LOAD),
        (None, True, False, Stage.EXTRACT),
        (None, False, True, Stage.LOAD),
        (Stage.LOAD, False, True, Stage.LOAD),
    ],
)
def test_document_002s_words_name_a_stage(
    stage: Stage | None, backup: bool, redshift: bool, meant: Stage | None
) -> None:
    assert one_stage(stage, {"--backup-only": backup, "--redshift-only": redshift}) is meant


@pytest.mark.parametrize(
    ("stage", "backup", "redshift"),
    [(None, True, True), (Stage.LOAD, True, False), (Stage.EXTRACT, False, True), (Stage.LOAD, True, True)],
)
def test_words_that_contradict_each_other_are_refused(
    stage: Stage | None, backup: bool, redshift: bool
) -> None:
    with pytest.raises(ConfigError, match="exclude each other"):
        one_stage(stage, {"--backup-only": backup, "--redshift-only": redshift})


@pytest.mark.parametrize(
    ("flow", "word", "meant"),
    [
        ("shop.orders/load", "shop.orders", True),
        ("shop.orders/load", "orders", True),
        ("shop.orders/load", "orders/load", True),
        ("shop.orders/load", "shop.*", True),
        ("shop.orders/load", "shop.orders/extract", False),
        ("shop.orders/load", "order", False),
        ("shop.orders", "orders", True),
    ],
)
def test_a_table_means_both_its_stages(flow: str, word: str, meant: bool) -> None:
    assert is_wanted(flow, [word]) is meant


def test_a_limit_that_was_reached_is_no_failure() -> None:
    stopped = FlowReport("a", State.PLANNED, 0.1, error=LimitReached("stopped at the limit of 4 rows"))
    report = RunReport("r", (stopped,))
    assert (report.state, stopped.ok, stopped.to_json()["error"]) == (State.PLANNED, True, None)
    assert stopped.to_json()["notes"] == ["stopped at the limit of 4 rows"]
    signalled = FlowReport("a", State.PLANNED, 0.1, error=Stopped("stopped as asked"))
    assert RunReport("r", (signalled,)).state is State.PLANNED
    assert signalled.to_json()["error"] is not None
    failed = FlowReport("b", State.FAILED, 0.1, error=SourceError("gone"))
    assert RunReport("r", (stopped, failed)).state is State.FAILED


def test_only_what_a_limit_left_is_shown_below_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    notes = ("stops at the limit: 2 of 9 rows", "credit_limit: no index")
    draft = Draft("shop", "a", (), (), notes=notes, limit_notes=notes[:1])
    show(RunReport("r", (FlowReport("a", State.SUCCESS, 0.1, draft=draft),)))
    shown = capsys.readouterr()
    assert "a: stops at the limit: 2 of 9 rows" in shown.out + shown.err
    assert "credit_limit" not in shown.out + shown.err


def test_s3clean_is_a_second_name_that_help_does_not_list() -> None:
    assert here("s3clean", "list", "--help").out == here("files", "list", "--help").out.replace(
        "tidegauge files", "tidegauge s3clean"
    )
    assert " s3clean  " not in here("--help").out


def test_a_script_without_a_reason_is_told_so_before_anything_is_looked_at() -> None:
    refused(here("backfill", "-t", "x", "--to", "2025-01-01"), "reason", code=2)


@pytest.mark.parametrize("error", [ConfigError("gone"), RuntimeError("gone")])
def test_with_json_what_anything_else_prints_goes_to_stderr(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def chatter(*_: object) -> None:
        thread = threading.Thread(target=print, args=("from a thread",))
        thread.start()
        thread.join()
        print("chatter")
        raise error

    monkeypatch.setattr("tidegauge.config.find.find_project", chatter)
    ran = here("status", "--json")
    assert "gone" in ran.json["error"]["message"]
    assert ran.err.startswith("from a thread\nchatter\nerror: ")
    assert here("status").out == "from a thread\nchatter\n"


@pytest.mark.parametrize(("answer", "flag"), [("say('done')", ""), ("print_json({})", "--json")])
def test_an_answer_that_finds_no_room_is_one_sentence(answer: str, flag: str) -> None:
    program = f"from tidegauge.cli import main, output; main.app = lambda: output.{answer}; main.main()"
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-c", program, flag]
        ran = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert ran.returncode == 1
    assert ran.stderr.startswith("error: stdout cannot be written: No space left on device\n hint: ")
    assert "Traceback" not in ran.stderr
