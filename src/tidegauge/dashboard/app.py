"""The web application: one function for each page. It only reads; `action_routes` has the actions."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, RedirectResponse, StreamingResponse
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException

from tidegauge import __version__
from tidegauge.dashboard.access import COOKIE, Access, AccessMiddleware
from tidegauge.dashboard.action_processes import ActionProcesses
from tidegauge.dashboard.audit import AuditFilter, make_audit_page
from tidegauge.dashboard.fleet import FleetFilter, make_fleet_page
from tidegauge.dashboard.flow_page import make_flow_page
from tidegauge.dashboard.gap_map import make_gap_page
from tidegauge.dashboard.graph_page import make_graph_page
from tidegauge.dashboard.links import ServedLinks
from tidegauge.dashboard.live import LedgerWatch
from tidegauge.dashboard.proofs import ProofFilter, make_proof_page
from tidegauge.dashboard.render import STATIC
from tidegauge.dashboard.responses import PageRenderer
from tidegauge.dashboard.run_pages import make_run_page, make_runs_page
from tidegauge.dashboard.session import FormGuard, read_form
from tidegauge.dashboard.snapshot import FleetSnapshots
from tidegauge.errors import LedgerError, TidegaugeError
from tidegauge.model.secret import mask
from tidegauge.model.spec import Project


def make_app(
    project: Project, access: Access | None = None, *, root_path: str = "", acts: bool = False
) -> FastAPI:
    """The web application. `root_path`: the prefix that a proxy serves it under; `acts`: viewers may act.

    Setting `app.state.watch.ended` ends the connections that listen for changes.
    """
    access = access or Access()
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    snapshots = FleetSnapshots(project)
    processes = ActionProcesses(project)
    shower = PageRenderer(snapshots, ServedLinks(root_path, project.pipeline, __version__, acts=acts))
    app.state.watch = watch = LedgerWatch(lambda: (snapshots.pulse(), processes.pulse()))
    app.mount("/static", StaticFiles(directory=STATIC))
    app.add_middleware(AccessMiddleware, access=access, root=root_path)
    _add_fleet(app, shower)
    _add_flows(app, shower, processes)
    _add_runs(app, shower)
    _add_errors(app, shower)
    _add_login(app, shower, access)
    if acts:
        from tidegauge.dashboard.action_routes import add_actions

        add_actions(app, shower, FormGuard(access, root_path), processes)

    @app.get("/events")
    async def events(request: Request) -> Response:
        return StreamingResponse(
            watch.listen(request.is_disconnected),
            media_type="text/event-stream",
            headers={"cache-control": "no-store", "x-accel-buffering": "no"},
        )

    @app.get("/favicon.ico")
    def icon() -> Response:
        return FileResponse(STATIC / "icon.svg", media_type="image/svg+xml")

    return app


def _add_fleet(app: FastAPI, shower: PageRenderer) -> None:
    snapshots = shower.snapshots

    @app.get("/")
    def fleet(
        request: Request,
        text: str = "",
        state: str = "",
        pipeline: str = "",
        tag: str = "",
        sort: str = "lag",
        group: str = "",
        page: int = 1,
    ) -> Response:
        asked = FleetFilter(text, state, pipeline, tag, sort, group, page)
        return shower.show(request, "fleet.html", "flows", make_fleet_page(snapshots.read(), asked))

    @app.get("/graph")
    def graph(request: Request, focus: str = "") -> Response:
        def address(flow: str) -> str:
            return shower.links.flow(snapshots.project.pipeline, flow)

        found = make_graph_page(snapshots, focus)
        return shower.show(request, "graph.html", "graph", found, address=address)

    @app.get("/proofs")
    def proofs(request: Request, page: int = 1) -> Response:
        found = make_proof_page(snapshots, ProofFilter(page))
        return shower.show(request, "proofs.html", "proofs", found)

    @app.get("/history")
    def history(
        request: Request,
        pipeline: str = "",
        flow: str = "",
        event: str = "",
        actor: str = "",
        failed: bool = False,
        page: int = 1,
    ) -> Response:
        asked = AuditFilter(pipeline, flow, event, actor, failed, page)
        return shower.show(request, "history.html", "history", make_audit_page(snapshots, asked))


def _add_flows(app: FastAPI, shower: PageRenderer, processes: ActionProcesses) -> None:
    snapshots = shower.snapshots

    def page_of(make: Callable[[FleetSnapshots, str, str], Any], template: str) -> Callable[..., Response]:
        def show(request: Request, name: str, pipeline: str = "") -> Response:
            found = make(snapshots, pipeline or snapshots.project.pipeline, name)
            if found is None:
                return shower.missing(
                    request,
                    f"the ledger has no flow '{name}'",
                    "it has never run, or was forgotten since; the list of flows has those that there are",
                )
            return shower.show(request, template, "flows", found, actions=processes.of_flow(name))

        return show

    app.get("/flow")(page_of(make_flow_page, "flow.html"))
    app.get("/gaps")(page_of(make_gap_page, "gaps.html"))


def _add_runs(app: FastAPI, shower: PageRenderer) -> None:
    snapshots = shower.snapshots

    @app.get("/runs")
    def runs(request: Request) -> Response:
        return shower.show(request, "runs.html", "runs", make_runs_page(snapshots))

    @app.get("/run")
    def run(request: Request, id: str, pipeline: str = "") -> Response:  # noqa: A002 - as the address has it
        found = make_run_page(snapshots, pipeline or snapshots.project.pipeline, id)
        if found is None:
            return shower.missing(
                request, f"the ledger has no run '{id}'", "it is older than what the ledger keeps"
            )
        return shower.show(request, "run.html", "runs", found)

    @app.get("/run.json")
    def run_json(id: str, pipeline: str = "") -> Response:  # noqa: A002
        found = make_run_page(snapshots, pipeline or snapshots.project.pipeline, id)
        if found is None:
            return JSONResponse({"error": {"message": mask(f"the ledger has no run '{id}'")}}, 404)
        text = json.dumps(found.to_json(), ensure_ascii=False, indent=2)
        return Response(mask(text), media_type="application/json")


def _add_errors(app: FastAPI, shower: PageRenderer) -> None:
    @app.exception_handler(TidegaugeError)
    def trouble(request: Request, error: Exception) -> Response:
        assert isinstance(error, TidegaugeError)
        title = "The ledger does not answer" if isinstance(error, LedgerError) else "This does not work"
        return shower.show_error(request, 503, title, error, retries=True)

    @app.exception_handler(HTTPException)
    def not_there(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        if error.status_code == 404:
            return shower.missing(request, "there is no such page", "the words above lead to those that are")
        return Response(error.detail, error.status_code)

    @app.exception_handler(RequestValidationError)
    def not_understood(request: Request, _: Exception) -> Response:
        said = TidegaugeError("the address cannot be read", hint="begin again at the list of flows")
        return shower.show_error(request, 400, "Not understood", said)


def _add_login(app: FastAPI, shower: PageRenderer, access: Access) -> None:
    if not access.asks_token:
        return
    root = shower.links.root

    @app.get("/login")
    def ask(request: Request) -> Response:
        return shower.show(request, "login.html", "", None, wrong=False)

    @app.post("/login")
    async def enter(request: Request) -> Response:
        given = await read_form(request)
        session = access.session_of(given.get("token", ""))
        if session is None:
            answer = shower.show(request, "login.html", "", None, wrong=True)
            answer.status_code = 401
            return answer
        entered = RedirectResponse(f"{root}/", 303)
        secure = request.url.scheme == "https"
        entered.set_cookie(COOKIE, session, httponly=True, samesite="strict", secure=secure, path=root or "/")
        return entered
