"""Where each page is: at an address of the server, or in a file beside the others."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import urlencode

from tidegauge.dashboard.audit import AuditFilter
from tidegauge.dashboard.fleet import FleetFilter
from tidegauge.dashboard.proofs import ProofFilter


class Links(Protocol):
    """What templates ask for an address. Empty: there is no such page."""

    def fleet(self, asked: FleetFilter | None = None) -> str: ...

    def flow(self, pipeline: str, flow: str) -> str: ...

    def gaps(self, pipeline: str, flow: str) -> str: ...

    def runs(self) -> str: ...

    def run(self, pipeline: str, run_id: str) -> str: ...

    def run_json(self, pipeline: str, run_id: str) -> str: ...

    def history(self, asked: AuditFilter | None = None) -> str: ...

    def graph(self, focus: str = "") -> str: ...

    def proofs(self, asked: ProofFilter | None = None) -> str: ...

    def static(self, name: str) -> str: ...

    def act(self, flow: str = "", kind: str = "") -> str:
        """Where an operator acts on a flow of the project; without one, where the form goes to."""

    def action(self, name: str) -> str: ...

    def events(self) -> str:
        """Of the server-sent events."""


@dataclass(frozen=True)
class ServedLinks:
    root: str
    """The prefix that a proxy serves it under; empty, or with a slash at its beginning only."""
    own: str
    """The project's pipeline, which need not be named."""
    version: str
    """So that a browser fetches files anew that another version has."""
    acts: bool = False
    """Viewers may act."""

    def fleet(self, asked: FleetFilter | None = None) -> str:
        return self._to("/", asked.to_query() if asked else {})

    def flow(self, pipeline: str, flow: str) -> str:
        return self._to("/flow", self._named(pipeline, name=flow))

    def gaps(self, pipeline: str, flow: str) -> str:
        return self._to("/gaps", self._named(pipeline, name=flow))

    def runs(self) -> str:
        return self._to("/runs")

    def run(self, pipeline: str, run_id: str) -> str:
        return self._to("/run", self._named(pipeline, id=run_id))

    def run_json(self, pipeline: str, run_id: str) -> str:
        return self._to("/run.json", self._named(pipeline, id=run_id))

    def history(self, asked: AuditFilter | None = None) -> str:
        return self._to("/history", asked.to_query() if asked else {})

    def graph(self, focus: str = "") -> str:
        return self._to("/graph", {"focus": focus} if focus else {})

    def proofs(self, asked: ProofFilter | None = None) -> str:
        return self._to("/proofs", asked.to_query() if asked else {})

    def static(self, name: str) -> str:
        return self._to(f"/static/{name}", {"v": self.version})

    def act(self, flow: str = "", kind: str = "") -> str:
        if not self.acts:
            return ""
        return self._to("/act", {"name": flow, "do": kind} if flow else {})

    def action(self, name: str) -> str:
        return self._to("/action", {"id": name}) if self.acts else ""

    def events(self) -> str:
        return self._to("/events")

    def _named(self, pipeline: str, **words: str) -> dict[str, str]:
        return words if pipeline == self.own else {**words, "pipeline": pipeline}

    def _to(self, path: str, query: dict[str, str] | None = None) -> str:
        return f"{self.root}{path}" + (f"?{urlencode(query)}" if query else "")


@dataclass(frozen=True)
class FileLinks:
    """All pages are in one folder."""

    runs_kept: frozenset[tuple[str, str]] = frozenset()
    """The runs that have a file, each with its pipeline."""

    def fleet(self, asked: FleetFilter | None = None) -> str:
        return "" if asked is not None and asked.to_query() else "index.html"

    def flow(self, pipeline: str, flow: str) -> str:
        return _file("flow", pipeline, flow)

    def gaps(self, pipeline: str, flow: str) -> str:
        return _file("gaps", pipeline, flow)

    def runs(self) -> str:
        return "runs.html"

    def run(self, pipeline: str, run_id: str) -> str:
        return _file("run", pipeline, run_id) if (pipeline, run_id) in self.runs_kept else ""

    def run_json(self, pipeline: str, run_id: str) -> str:
        return self.run(pipeline, run_id).replace(".html", ".json")

    def history(self, asked: AuditFilter | None = None) -> str:
        return "" if asked is not None and asked.to_query() else "history.html"

    def graph(self, focus: str = "") -> str:
        return "" if focus else "graph.html"

    def proofs(self, asked: ProofFilter | None = None) -> str:
        return "" if asked is not None and asked.to_query() else "proofs.html"

    def static(self, name: str) -> str:
        return name

    def act(self, flow: str = "", kind: str = "") -> str:  # noqa: ARG002 - nobody is there to act
        return ""

    def action(self, name: str) -> str:  # noqa: ARG002
        return ""

    def events(self) -> str:
        return ""


class NoLinks:
    """Of a page that stands alone."""

    def _nowhere(self, *_: object) -> str:
        return ""

    fleet = flow = gaps = runs = run = run_json = history = graph = proofs = static = events = _nowhere
    act = action = _nowhere


def _file(kind: str, *names: str) -> str:
    """Readable as far as any file system lets it be, and never the same for two."""
    word = re.sub(r"[^A-Za-z0-9._-]+", "-", names[-1]).strip("-.")[:60]
    mark = hashlib.sha256("\0".join(names).encode()).hexdigest()[:10]
    return f"{kind}-{word}-{mark}.html"
