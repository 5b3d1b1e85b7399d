"""What a watermark remembers for the next plan of its input: one stored text with one of three meanings.

Of a database it is the points that become safe to read once the transactions end that were open. Of an input
of a Delta flow it is by which transform the target was made, or that the watermark was set back. Of a
table that is read by a column it is what the table was like (`plan.columns`). Whoever
stands between those who write it and those who read it only carries the text.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar


def describe_waiting(rows: int) -> str:
    """Of rows that the last look at a source has found, and that no run may read yet."""
    waits = "1 row waits for its time" if rows == 1 else f"{rows:,} rows wait for their time"
    return f"{waits}: dated past the source's clock, or too young"


@dataclass(frozen=True)
class Pending:
    text: str

    SET_BACK: ClassVar[str] = "set back"
    """The text that says: what is in a Delta target is of a later version than its watermark says."""

    @classmethod
    def of_points(cls, points: Sequence[object], waiting: int = 0) -> Pending:
        """Points of a database's cursor, as JSON can hold them; and how many rows wait in the future."""
        body = {"points": points, "waiting": waiting} if waiting else points
        return cls(json.dumps(body, ensure_ascii=False))

    @classmethod
    def of_target(cls, made_by: object) -> Pending:
        """By which transform a Delta target was made."""
        return cls(str(made_by))

    @property
    def points(self) -> list[object]:
        """Empty where the text says something else."""
        found = self._body.get("points") if isinstance(self._body, dict) else self._body
        return found if isinstance(found, list) else []

    @property
    def waiting(self) -> int:
        """Rows that wait for their time, as the last plan saw them: of a database those in the future."""
        found = self._body.get("waiting") if isinstance(self._body, dict) else 0
        return found if isinstance(found, int) else 0

    @property
    def _body(self) -> object:
        try:
            return json.loads(self.text)
        except ValueError:
            return None

    @property
    def is_set_back(self) -> bool:
        return self.text == self.SET_BACK

    @property
    def made_by(self) -> str | None:
        """None where the watermark was set back. Any other text is a transform, if only an unknown one: then
        the target is not taken for what the present one made."""
        return None if self.is_set_back else self.text
