"""The protocol holds whatever befalls its runners, and the simulation that says so would notice otherwise."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path

import pytest
from simulation.__main__ import main
from simulation.documents import LOGGED
from simulation.many import first_broken, simulate, trace
from simulation.mutations import FIVE, MORE, Mutation
from simulation.world import Fault

from tidegauge.errors import LedgerError
from tidegauge.ledger.document_ledger import DocumentLedger
from tidegauge.ledger.document_store import WriterCameBetween
from tidegauge.ledger.flow_document import drop_moved
from tidegauge.ledger.stored_flow import document_of, stored_flow_of

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("schedules", [2_000, pytest.param(20_000, marks=pytest.mark.long)])
def test_every_invariant_holds_in_thousands_of_schedules(schedules: int) -> None:
    outcome = simulate(range(schedules), jobs=2)
    assert outcome.broken == [], "\n".join(trace(outcome.broken[0].seed))
    assert outcome.tally["schedules"] == schedules
    # None of it would mean much if nothing had happened.
    for fault in Fault:
        assert outcome.tally[fault] > schedules / 10, fault
    for what, least in {
        "taken over": 0.1,
        "race lost, asked again": 0.05,
        "second publish, refused": 0.005,
        "writer of an older epoch, refused": 0.005,
        "published into an older epoch, unseen": 0.0005,
        "override set": 0.1,
        "override reset": 0.05,
        "override undo": 0.01,
    }.items():
        assert outcome.tally[what] > schedules * least, what
    print(f"{outcome.seconds:.1f} s", dict(outcome.tally))


@pytest.mark.long
def test_every_invariant_holds_with_the_ledger_of_documents() -> None:
    outcome = simulate(range(1_000), jobs=2, documents=True)
    assert outcome.broken == [], "\n".join(trace(outcome.broken[0].seed, documents=True))
    assert outcome.tally["schedules"] == 1_000


def test_the_command_simulates_the_ledger_that_was_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    tallies = []
    for option in ([], ["--documents"]):
        assert main(["--schedules", "40", "--jobs", "1", *option]) == 0
        tallies.append([line for line in capsys.readouterr().out.splitlines() if "seconds" not in line])
    assert tallies[0] != tallies[1]


def test_a_ledger_of_documents_that_empties_its_outbox_too_early_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def move(ledger: DocumentLedger, pipeline: str, flows: list[str]) -> None:
        with contextlib.suppress(LedgerError, WriterCameBetween):
            for flow in flows:
                loaded = ledger._documents.load(pipeline, [flow])
                page = document_of(loaded.stored_flows[flow])
                ledger._documents.save(loaded, [stored_flow_of(drop_moved(page, page.numbers))])
                for log, entries in page.pending.items():
                    ledger._documents.append(log, entries)

    monkeypatch.setattr(DocumentLedger, "_move", move)
    outcome = simulate(range(200), documents=True)
    assert LOGGED in {broken.invariant for broken in outcome.broken}


@pytest.mark.parametrize("mutation", [*FIVE, *MORE], ids=lambda mutation: mutation.name)
def test_a_deliberate_fault_in_the_protocol_is_found(mutation: Mutation) -> None:
    with mutation.made():
        broken = first_broken(range(5_000))
        assert broken is not None
        assert broken.invariant == mutation.caught_by
        lines = trace(broken.seed)
        assert lines[-1] == f"VIOLATED  {broken.invariant}: {broken.message}"
    assert first_broken(range(broken.seed, broken.seed + 1)) is None


def test_a_seed_gives_the_same_schedule_in_every_process() -> None:
    command = [sys.executable, "-m", "simulation", "--trace", "--seed", "7"]
    other = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert other.stdout.splitlines() == trace(7)
    assert trace(7) != trace(8)


def test_a_violation_is_told_with_its_seed_and_its_trace(capsys: pytest.CaptureFixture[str]) -> None:
    with FIVE[0].made():
        assert main(["--schedules", "20", "--jobs", "1"]) == 1
        shown = capsys.readouterr().out
        [again] = [line for line in shown.splitlines() if line.startswith("again:")]
        seed = again.split()[-1]
        assert main(["--trace", "--seed", seed]) == 1
        assert capsys.readouterr().out.splitlines()[-1].startswith("VIOLATED  the watermark never passes")
    assert main(["--schedules", "20", "--jobs", "1"]) == 0
    assert "violations" in capsys.readouterr().out
