"""The results of measurements, and the JSON files that keep them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Result:
    """One measured value against a reference. The goal is met when `ratio <= goal`; lower is better."""

    name: str
    ours: float
    reference: float
    goal: float | None
    """The largest ratio that meets the goal; None if there is no goal."""
    unit: str
    against: str
    """What the reference is, in words."""
    more: Mapping[str, Any] = field(default_factory=dict)
    """Further facts of the same measurement."""

    @property
    def ratio(self) -> float:
        return self.ours / self.reference

    @property
    def met(self) -> bool | None:
        return None if self.goal is None else self.ratio <= self.goal

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "ours": round(self.ours, 4),
            "reference": round(self.reference, 4),
            "ratio": round(self.ratio, 3),
            "goal": self.goal,
            "met": self.met,
            "unit": self.unit,
            "against": self.against,
            **self.more,
        }


def keep(folder: Path, part: str, body: Mapping[str, Any]) -> Path:
    """Write the part's results to a file, replacing those of an earlier run; return the file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{part}.json"
    path.write_text(json.dumps(body, indent=2, ensure_ascii=False) + "\n")
    return path


def document(
    command: str, versions: Mapping[str, str], results: Sequence[Result], **more: Any
) -> dict[str, Any]:
    return {
        "command": command,
        "versions": dict(versions),
        "results": [one.to_json() for one in results],
        **more,
    }


def kept(folder: Path) -> dict[str, dict[str, Any]]:
    """Read each part's last results, by the part's name."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}
