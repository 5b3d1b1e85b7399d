"""The address of each page: on the server, or as a file beside the others."""

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
    """Gives templates the address of each page; empty if there is no such page."""

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
        """The page where an operator acts on a flow of the project; without a flow, where forms are sent."""

    def action(self, name: str) -> str: ...

    def events(self) -> str:
        """The address of the server-sent events."""


@dataclass(frozen=True)
class ServedLinks:
    root: str
    """The prefix that a proxy serves the pages under; empty, or with a slash only at its beginning."""
    own: str
    """The project's pipeline, which addresses leave out."""
    version: str
    """Tidegauge's version, which makes browsers fetch static files anew after an upgrade."""
    acts: bool = False
    """Whether viewers may act on flows."""

    def fleet(self, asked: FleetFilter | None = None) -> str:
        return self._make_address("/", asked.to_query() if asked else {})

    def flow(self, pipeline: str, flow: str) -> str:
        return self._make_address("/flow", self._named(pipeline, name=flow))

    def gaps(self, pipeline: str, flow: str) -> str:
        return self._make_address("/gaps", self._named(pipeline, name=flow))

    def runs(self) -> str:
        return self._make_address("/runs")

    def run(self, pipeline: str, run_id: str) -> str:
        return self._make_address("/run", self._named(pipeline, id=run_id))

    def run_json(self, pipeline: str, run_id: str) -> str:
        return self._make_address("/run.json", self._named(pipeline, id=run_id))

    def history(self, asked: AuditFilter | None = None) -> str:
        return self._make_address("/history", asked.to_query() if asked else {})

    def graph(self, focus: str = "") -> str:
        return self._make_address("/graph", {"focus": focus} if focus else {})

    def proofs(self, asked: ProofFilter | None = None) -> str:
        return self._make_address("/proofs", asked.to_query() if asked else {})

    def static(self, name: str) -> str:
        return self._make_address(f"/static/{name}", {"v": self.version})

    def act(self, flow: str = "", kind: str = "") -> str:
        if not self.acts:
            return ""
        return self._make_address("/act", {"name": flow, "do": kind} if flow else {})

    def action(self, name: str) -> str:
        return self._make_address("/action", {"id": name}) if self.acts else ""

    def events(self) -> str:
        return self._make_address("/events")

    def _named(self, pipeline: str, **words: str) -> dict[str, str]:
        """The parameters of an address, with the pipeline unless it is the project's own."""
        return words if pipeline == self.own else {**words, "pipeline": pipeline}

    def _make_address(self, path: str, query: dict[str, str] | None = None) -> str:
        return f"{self.root}{path}" + (f"?{urlencode(query)}" if query else "")


@dataclass(frozen=True)
class FileLinks:
    """Links between pages that are files in one folder."""

    runs_kept: frozenset[tuple[str, str]] = frozenset()
    """The runs that have a file, each with its pipeline."""

    def fleet(self, asked: FleetFilter | None = None) -> str:
        return "" if asked is not None and asked.to_query() else "index.html"

    def flow(self, pipeline: str, flow: str) -> str:
        return _make_file_name("flow", pipeline, flow)

    def gaps(self, pipeline: str, flow: str) -> str:
        return _make_file_name("gaps", pipeline, flow)

    def runs(self) -> str:
        return "runs.html"

    def run(self, pipeline: str, run_id: str) -> str:
        return _make_file_name("run", pipeline, run_id) if (pipeline, run_id) in self.runs_kept else ""

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
    """Links of a page that is a single file: none."""

    def _nowhere(self, *_: object) -> str:
        return ""

    fleet = flow = gaps = runs = run = run_json = history = graph = proofs = static = events = _nowhere
    act = action = _nowhere


def _make_file_name(kind: str, *names: str) -> str:
    """A file name that every file system takes: the last name as far as possible, and a hash of all names."""
    word = re.sub(r"[^A-Za-z0-9._-]+", "-", names[-1]).strip("-.")[:60]
    mark = hashlib.sha256("\0".join(names).encode()).hexdigest()[:10]
    return f"{kind}-{word}-{mark}.html"
