"""What the history keeps of comparisons."""

from __future__ import annotations

from tests.support.drafts import ME, nothing_new
from tests.support.servers import Postgres
from tidegauge.compare.frames import Difference
from tidegauge.ledger.open import open_ledger
from tidegauge.operations.proofs import keep_proof

EQUAL = Difference(1200, 1200, 0, 0, 0, (), newer=7, method="blocks")
UNLIKE = Difference(1200, 1199, 2, 1, 0, ())


def test_what_was_compared_is_kept_whatever_came_out(store_address: str) -> None:
    with open_ledger(store_address, create=False) as nothing:
        assert keep_proof(nothing, "shop", "orders", EQUAL) is None
    with open_ledger(store_address, create=True) as ledger:
        ledger.plan([nothing_new()], owner=ME, run_id="run")
        assert keep_proof(ledger, "shop", "orders", EQUAL) is None
        assert keep_proof(ledger, "shop", "orders", UNLIKE) is None
        differs, verified = ledger.history("shop", events=["verified", "differs"])
    assert (verified.event, verified.rows, verified.reason) == (
        "verified",
        1200,
        "equal: source 1,200 rows, target 1,200, 7 newer, by blocks",
    )
    assert (differs.event, differs.reason) == (
        "differs",
        "2 missing, 1 extra: source 1,200 rows, target 1,199, by rows",
    )


def test_a_comparison_holds_where_the_ledger_may_only_be_read(postgres: Postgres) -> None:
    database = postgres.create_database()
    address = postgres.address(database)
    with open_ledger(address, create=True) as ledger:
        ledger.plan([nothing_new()], owner=ME, run_id="run")
    with postgres.connect(database) as connection:
        connection.execute(f"ALTER DATABASE {database} SET default_transaction_read_only = on")
        connection.commit()
    with open_ledger(address, create=False) as ledger:
        said = keep_proof(ledger, "shop", "orders", EQUAL)
        assert said is not None
        assert said.startswith("not kept in the history: ")
        assert ledger.history("shop", events=["verified"]) == []
