"""What planning a thousand flows costs, against the driver alone writing the same rows in one commit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tests.support.drafts import ME, draft

from bench.result import Result
from bench.stores import Store, stores
from bench.timing import Stopwatch, in_turns
from tidegauge.ledger.open import Ledger, open_ledger
from tidegauge.model.plan import Draft

FLOWS = 1000
GOAL = 3.0
_TIMES = 7
_NEW = ("flows", "plans", "watermarks", "history")
"""The tables that planning writes to when the ledger does not know a flow yet."""
_KNOWN = ("plans", "history")
"""The tables that planning writes to for a known flow whose inputs have not changed."""


@dataclass(frozen=True)
class Rows:
    """The rows that planning wrote to one table."""

    table: str
    columns: list[str]
    values: list[tuple[Any, ...]]


def measure() -> list[Result]:
    with stores() as found:
        return [_measure_one(store, known=known) for store in found for known in (False, True)]


def _measure_one(store: Store, *, known: bool) -> Result:
    """`known`: the ledger has the flows from an earlier plan, as in every run but the first."""
    ours, theirs = store.place(), store.place()
    open_ledger(theirs.address, create=True).close()
    with open_ledger(ours.address, create=True) as ledger, ours.bare() as reader, theirs.bare() as bare:
        written: list[Rows] = []

        def plan(turn: int) -> float:
            drafts = [draft(f"turn {turn}: table {number}") for number in range(FLOWS)]
            if known:
                # Without batches: flows and watermarks become known, and no plan is left active.
                ledger.plan([replace(one, batches=()) for one in drafts], owner=ME, run_id="before")
            seconds = _plan(ledger, drafts)
            written[:] = [_rows(reader, table, turn) for table in (_KNOWN if known else _NEW)]
            return seconds

        pairs = in_turns(_TIMES, plan, lambda _: _write(bare, written, store.mark))
        count = sum(len(rows.values) for rows in written)
    assert count == FLOWS * len(written), f"{count} rows for {FLOWS} flows in {len(written)} tables"
    return Result(
        name=f"planning {FLOWS:,} {'known' if known else 'new'} flows, {store.name}",
        ours=1000 * pairs.median_ours,
        reference=1000 * pairs.median_reference,
        goal=GOAL,
        unit="ms",
        against=f"the driver alone writes the same {count:,} rows in one commit",
        more={"rows": count, "times": _TIMES, "store": f"{store.name} {store.version}"},
    )


def _plan(ledger: Ledger, drafts: list[Draft]) -> float:
    watch = Stopwatch()
    with watch.running():
        ledger.plan(drafts, owner=ME, run_id="bench")
    return watch.seconds


def _rows(reader: Any, table: str, turn: int) -> Rows:
    cursor = reader.cursor()
    planned = " AND event = 'planned'" if table == "history" else ""
    cursor.execute(f"SELECT * FROM {table} WHERE flow LIKE 'turn {turn}: %'{planned}")
    names = [column[0] for column in cursor.description]
    kept = [place for place, name in enumerate(names) if name != "id"]
    values = [tuple(row[place] for place in kept) for row in cursor.fetchall()]
    cursor.close()
    return Rows(table, [names[place] for place in kept], values)


def _write(bare: Any, written: list[Rows], mark: str) -> float:
    statements = [
        (
            f"INSERT INTO {rows.table} ({', '.join(rows.columns)})"
            f" VALUES ({', '.join([mark] * len(rows.columns))})",
            rows.values,
        )
        for rows in written
    ]
    watch = Stopwatch()
    with watch.running():
        cursor = bare.cursor()
        cursor.execute("BEGIN")
        for statement, values in statements:
            cursor.executemany(statement, values)
        cursor.execute("COMMIT")
        cursor.close()
    return watch.seconds
