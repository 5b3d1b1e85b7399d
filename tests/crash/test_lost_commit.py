"""The connection to the warehouse is lost when COMMIT was sent: the outcome is asked for, not guessed."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from tests.crash.houses import Build, House
from tests.crash.losing import Fate, start_losing
from tests.support.nursery import Nursery
from tests.support.servers import MariaDB, Postgres, Redshift
from tidegauge.config.load import load_project
from tidegauge.model.spec import Stage
from tidegauge.observe.events import RunEvent, StepBegun
from tidegauge.run.options import RunOptions
from tidegauge.run.report import FlowReport
from tidegauge.run.run import run
from tidegauge.run.steps import Step


@pytest.fixture
def three_batches(build: Build, nursery: Nursery, request: pytest.FixtureRequest) -> House:
    target = request.node.callspec.params["target"]
    house = build("sqlite", "s3" if target == "redshift" else "local", target)
    house.write("tables: [t], cursor: version, batch_rows: 4")
    house.change(12, 0)
    extracted = nursery.run(house.file, stage="extract")
    assert extracted.code == 0, extracted
    return house


def load(house: House, *, losing: object = None) -> FlowReport:
    """Load in this process; `losing` is called when the second batch is about to be published."""
    published = 0

    def tell(event: RunEvent) -> None:
        nonlocal published
        if isinstance(event, StepBegun) and event.step == Step.PUBLISH:
            published += 1
            if published == 2 and callable(losing):
                losing()

    order = RunOptions(stage=Stage.LOAD)
    [*_, report] = run(load_project(house.file), order, tell=tell, stop=threading.Event()).flows
    return report


def check(house: House, runs: list[str]) -> None:
    """All rows once, each batch under one tag, and by whom it was committed."""
    assert house.landed() == house.source()
    commits = house.commits()
    assert [(one["seq"], one["rows"], one["inserted"]) for one in commits] == [
        (1, 4, 4),
        (2, 4, 4),
        (3, 4, 4),
    ]
    assert [one["run_id"] for one in commits] == runs
    assert house.heads() == [(0, 3, 0)]
    assert house.marks()[house.load] == (0, 3)
    assert house.tally() == (12, 3)


@pytest.mark.shown_on("postgresql")
@pytest.mark.parametrize("fate", Fate)
@pytest.mark.parametrize("target", ["postgresql", "mysql"])
def test_b3_a_commit_whose_answer_is_lost_is_asked_for(
    three_batches: House, target: str, fate: Fate, request: pytest.FixtureRequest
) -> None:
    house = three_batches
    server: MariaDB | Postgres = request.getfixturevalue("mariadb" if target == "mysql" else "postgres")
    with start_losing(server.host, server.port) as proxy:
        through = house.target.connection.replace(f"port: {server.port}", f"port: {proxy.port}")
        house.target = replace(house.target, connection=through)
        house.write("tables: [t], cursor: version, batch_rows: 4")
        first = load(house, losing=lambda: proxy.lose_next_commit(fate))
        assert proxy.lost == 1
        if fate is Fate.TAKEN:
            assert first.error is None, first.error
            check(house, [first.receipts[0].run_id] * 3)
            return
        assert first.error is not None
        assert first.error.retryable, first.error
        assert len(house.commits()) == (1 if fate is Fate.LOST else 2)
        assert house.marks()[house.load] == (0, 1)
        proxy.answer_again()
        second = load(house)
        # The load that was taken up has ended; that there is nothing more is the last report.
        assert second.error is None, second.error
        mine = [one["run_id"] for one in house.commits()]
        assert len(set(mine)) == 2
        began = first.receipts[0].run_id
        check(house, [began, mine[2], mine[2]] if fate is Fate.LOST else [began, began, mine[2]])


@pytest.mark.parametrize("takes_effect", [True, False])
@pytest.mark.parametrize("target", ["redshift"])
def test_b3_a_commit_whose_answer_is_lost_is_asked_for_in_redshift(
    three_batches: House, target: str, takes_effect: bool, redshift: Redshift
) -> None:
    house = three_batches
    first = load(house, losing=lambda: redshift.lose_next_commit(taking_effect=takes_effect))
    began = first.receipts[0].run_id
    if takes_effect:
        assert first.error is None, first.error
        check(house, [began] * 3)
        return
    assert first.error is not None
    assert len(house.commits()) == 1
    second = load(house)
    assert second.error is None, second.error
    mine = [one["run_id"] for one in house.commits()]
    check(house, [began, mine[2], mine[2]])
