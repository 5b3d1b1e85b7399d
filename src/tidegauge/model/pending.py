"""What a watermark remembers for the next plan of its input: one stored text with one of three meanings.

For a database: the points that become safe to read once the transactions that were open have ended. For an
input of a Delta flow: by which transform the target was made, or that the watermark was set back. For a
table that is read by a column: what the table was like (`plan.by_column`). Code between the writer and the
reader of the text only passes it on.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar


def describe_waiting(rows: int) -> str:
    """Describe rows that the last look at the source found, and that no run may read yet."""
    waits = "1 row waits for its time" if rows == 1 else f"{rows:,} rows wait for their time"
    return f"{waits}: dated past the source's clock, or too young"


@dataclass(frozen=True)
class Pending:
    text: str

    SET_BACK: ClassVar[str] = "set back"
    """The text for a Delta target that holds data of a later version than its watermark says."""

    @classmethod
    def of_points(cls, points: Sequence[object], waiting: int = 0) -> Pending:
        """Make the text for a database: cursor points as JSON values, and how many rows lie in the future."""
        body = {"points": points, "waiting": waiting} if waiting else points
        return cls(json.dumps(body, ensure_ascii=False))

    @classmethod
    def of_target(cls, made_by: object) -> Pending:
        """Make the text that names the transform that made a Delta target."""
        return cls(str(made_by))

    @property
    def points(self) -> list[object]:
        """The points of a database's cursor; empty if the text has another meaning."""
        found = self._body.get("points") if isinstance(self._body, dict) else self._body
        return found if isinstance(found, list) else []

    @property
    def waiting(self) -> int:
        """How many rows waited when the last plan looked; in a database those dated in the future."""
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
        """The transform that made the target; None if the watermark was set back. Any other text counts as a
        transform, even an unknown one: then the target does not count as made by the present transform."""
        return None if self.is_set_back else self.text
