"""The pages as files that need no server: a whole site, or one run in one file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tidegauge.dashboard.audit import MOST, AuditFilter, make_audit_page
from tidegauge.dashboard.fleet import FleetFilter, make_fleet_page
from tidegauge.dashboard.flow_page import make_flow_page
from tidegauge.dashboard.gap_map import make_gap_page
from tidegauge.dashboard.graph_page import make_graph_page
from tidegauge.dashboard.links import FileLinks, NoLinks
from tidegauge.dashboard.proofs import make_proof_page
from tidegauge.dashboard.render import render, static_files
from tidegauge.dashboard.run_pages import make_run_page, make_runs_page
from tidegauge.dashboard.snapshot import FleetSnapshots
from tidegauge.model.spec import Project
from tidegauge.run.report import RunReport

_RUNS = 50
"""How many of the newest runs get a page of their own."""


def make_site(project: Project) -> Iterator[tuple[str, str]]:
    """Yields the name and the text of every file."""
    snapshots = FleetSnapshots(project)
    snapshot, runs = snapshots.read(), make_runs_page(snapshots)
    kept = [(run.pipeline, run.run_id) for run in runs.runs[:_RUNS]]
    links = FileLinks(frozenset(kept))

    def page(template: str, section: str, value: object, **more: Any) -> str:
        shared: dict[str, Any] = {"project": project.pipeline, "section": section, "written": snapshot.at}
        return render(template, links, page=value, **shared, **more)

    yield from static_files().items()
    whole = make_fleet_page(snapshot, FleetFilter(), rows=len(snapshot.flows) or 1)
    yield links.fleet(), page("fleet.html", "flows", whole)
    yield links.runs(), page("runs.html", "runs", runs)
    yield (
        links.proofs(),
        page("proofs.html", "proofs", make_proof_page(snapshots, rows=len(snapshot.flows) or 1)),
    )
    yield (
        links.history(),
        page("history.html", "history", make_audit_page(snapshots, AuditFilter(), rows=MOST)),
    )
    graph = make_graph_page(snapshots)
    address = {flow.flow: links.flow(flow.pipeline, flow.flow) for flow in snapshot.flows}
    yield links.graph(), page("graph.html", "graph", graph, address=lambda flow: address.get(flow, ""))
    for seen in snapshot.flows:
        # None if `tidegauge forget` dropped the flow after the snapshot.
        if (flow := make_flow_page(snapshots, seen.pipeline, seen.flow)) is not None:
            yield links.flow(seen.pipeline, seen.flow), page("flow.html", "flows", flow, actions=())
        if (gaps := make_gap_page(snapshots, seen.pipeline, seen.flow)) is not None:
            yield links.gaps(seen.pipeline, seen.flow), page("gaps.html", "flows", gaps)
    for name in kept:
        if (run := make_run_page(snapshots, *name)) is not None:
            yield links.run(*name), page("run.html", "runs", run)
            yield links.run_json(*name), json.dumps(run.to_json(), ensure_ascii=False, indent=2) + "\n"


def make_run_file(project: Project, report: RunReport) -> str:
    """The page of one run as one file, with its stylesheet inside."""
    page = make_run_page(FleetSnapshots(project), project.pipeline, report.run_id)
    return render(
        "run.html" if page else "nothing.html",
        NoLinks(),
        layout="alone.html",
        page=page,
        project=project.pipeline,
        section="",
        written=page.at if page else None,
        style=static_files()["style.css"],
        told=report,
        document=json.dumps(report.to_json(), ensure_ascii=False, indent=2),
    )
