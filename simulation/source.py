"""A source table that grows and changes. Each change gives a row a new position, as an `updated_at` would.

The clock also advances when nothing changes. A row may be dated back: to a position above every row that is
there and not above the clock. The bound does not wait for such a row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from simulation.places import SHAPE, at, number
from simulation.world import Actor, World
from tidegauge.errors import SourceUnreachable
from tidegauge.model.batch_data import BatchRows
from tidegauge.model.plan import Batch
from tidegauge.model.position import RowPosition, Value
from tidegauge.model.spec import TableName, TableOptions
from tidegauge.model.table import Cut, SessionVisibility, SourceTable, Survey


class Table:
    def __init__(self, world: World) -> None:
        self.world = world
        self.rows: dict[int, int] = {}
        """The position of each row, by key."""
        self.top = 0
        self.open: int | None = None
        """The position of a transaction that has not been committed: the bound stays below it."""

    @property
    def bound(self) -> int:
        return self.top if self.open is None else self.open - 1

    def change(self) -> None:
        """Add, change or back-date one row, begin or commit one transaction, or only advance the clock."""
        dice = self.world.random.random()
        if self.open is not None and dice < 0.5:
            self.commit()
            return
        if dice > 0.9 and (free := self._free()):
            place = self.world.random.choice(free)
            self.rows[len(self.rows) + 1] = place
            self.world.say(f"{'source':<22} row {len(self.rows)} is dated back: position {place}")
            return
        self.top += 1
        if dice > 0.85:
            self.world.say(f"{'source':<22} nothing changes until {self.top}")
            return
        if self.open is None and dice < 0.15:
            self.open = self.top
            self.world.say(f"{'source':<22} a transaction takes position {self.top}")
        elif self.rows and dice > 0.65:
            key = self.world.random.choice(tuple(self.rows))
            self.rows[key] = self.top
            self.world.say(f"{'source':<22} row {key} changes: position {self.top}")
        else:
            self.rows[len(self.rows) + 1] = self.top
            self.world.say(f"{'source':<22} row {len(self.rows)}: position {self.top}")

    def _free(self) -> list[int]:
        """Find positions above every row that the clock has reached and no open transaction has taken."""
        newest = max(self.rows.values(), default=0)
        return [place for place in range(newest + 1, self.top + 1) if place != self.open]

    def commit(self) -> None:
        if self.open is not None:
            self.rows[len(self.rows) + 1] = self.open
            self.world.say(f"{'source':<22} row {len(self.rows)} is committed: position {self.open}")
            self.open = None

    def between(self, after: int, upto: int) -> tuple[tuple[int, int], ...]:
        return tuple((key, place) for key, place in self.rows.items() if after < place <= upto)


_LAYOUT = SHAPE.layout


class Frame(BatchRows):
    """The rows of a batch, read from the table only when the output writes them."""

    def __init__(self, table: Table, batch: Batch) -> None:
        super().__init__(_LAYOUT)
        object.__setattr__(self, "found", lambda: self._found(table, batch))

    found: Callable[[], tuple[tuple[int, int], ...]]

    @staticmethod
    def _found(table: Table, batch: Batch) -> tuple[tuple[int, int], ...]:
        [window] = batch.windows
        return table.between(number(window.after), number(window.upto))


class MemorySource:
    """Implements Source and Reader for one actor."""

    def __init__(self, table: Table, actor: Actor) -> None:
        self._table = table
        self._actor = actor

    def tables(self) -> tuple[TableName, ...]:
        return (SHAPE.table,)

    def left_out(self) -> tuple[tuple[TableName, str], ...]:
        return ()

    def with_column(self, name: str) -> frozenset[TableName]:
        return frozenset(self.tables())

    def with_key(self) -> frozenset[TableName]:
        return frozenset(self.tables())

    def survey_whole(self, source_table: SourceTable, step: int | None) -> Survey:
        raise NotImplementedError("its tables have a cursor")

    def identity(self) -> str:
        return SHAPE.source_id.partition("#")[0]

    def describe(self, table: TableName, options: TableOptions) -> SourceTable:
        return SHAPE

    def survey(
        self, source_table: SourceTable, after: RowPosition | None, step: int, pending: str | None
    ) -> Survey:
        fault = self._actor.turn("look at the source")
        if fault is not None:
            raise SourceUnreachable(f"look at the source: {fault}", hint="feigned")
        low, high = number(after), self._table.bound
        if high <= low:
            return Survey(None)
        return Survey(at(high), self._found(low, high, step))

    def cuts(
        self, source_table: SourceTable, after: RowPosition | None, upto: RowPosition, step: int
    ) -> tuple[Cut, ...]:
        found = self._found(number(after), number(upto), step)
        return (*found[:-1], Cut(upto, found[-1].rows)) if found else ()

    def _found(self, low: int, high: int, step: int) -> tuple[Cut, ...]:
        places = sorted(place for _, place in self._table.between(low, high))
        cuts = [Cut(_at(places[end - 1]), step) for end in range(step, len(places), step)]
        if places:
            cuts.append(Cut(_at(places[-1]), len(places) - step * len(cuts)))
        return tuple(cuts)

    def count(self, source_table: SourceTable, after: RowPosition | None, upto: RowPosition) -> int:
        return len(self._table.between(number(after), number(upto)))

    def latest(self, source_table: SourceTable) -> Value | None:
        position = at(self._table.top)
        return position.cursor if position else None

    def find_settled(self, source_table: SourceTable) -> Value | None:
        position = at(self._table.bound)
        return position.cursor if position else None

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        raise AssertionError("a simulated table knows no SQL")

    def outlook(self) -> SessionVisibility:
        return SessionVisibility(self._table.world.now, None)

    def close(self) -> None:
        pass

    def batch_data(self, source_table: SourceTable, batch: Batch) -> BatchRows:
        return Frame(self._table, batch)


def _at(place: int) -> RowPosition:
    position = at(place)
    assert position is not None
    return position
