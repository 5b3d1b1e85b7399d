"""The routes by which an operator acts on flows; the server has them only with --allow-actions."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import RedirectResponse

from tidegauge.dashboard.action_page import ActionPage, OutcomePage, make_action_page
from tidegauge.dashboard.action_processes import ActionProcesses
from tidegauge.dashboard.actions import ActionRequest
from tidegauge.dashboard.responses import PageRenderer
from tidegauge.dashboard.session import FIELD, FormGuard, name_actor, read_form
from tidegauge.errors import ConfigError

_PATIENCE = 5.0
"""Seconds that a response waits for the action to end, as most do by then."""
_MOVED = "It has moved since this page was shown. Nothing was done; this is how it stands now."


def add_actions(app: FastAPI, shower: PageRenderer, guard: FormGuard, processes: ActionProcesses) -> None:
    desk = _ActionDesk(shower, guard, processes)

    @app.get("/act")
    def ask(request: Request, name: str, do: str) -> Response:
        return desk.ask(request, {"name": name, "do": do})

    @app.post("/act")
    async def act(request: Request) -> Response:
        try:
            form = await read_form(request)
            guard.check(request, form)
        except ConfigError as error:
            return shower.show_error(request, 403, "Not done", error)
        return await asyncio.to_thread(desk.act, request, form)

    @app.get("/action")
    def action(request: Request, id: str) -> Response:  # noqa: A002 - as the address has it
        return desk.show(request, id)


class _ActionDesk:
    def __init__(self, shower: PageRenderer, guard: FormGuard, processes: ActionProcesses) -> None:
        self._shower = shower
        self._guard = guard
        self._processes = processes

    def ask(self, request: Request, form: Mapping[str, str]) -> Response:
        page = self._find_page(request, form)
        return page if isinstance(page, Response) else self._page(request, "act.html", page, notice="")

    def act(self, request: Request, form: Mapping[str, str]) -> Response:
        """Start the action, unless it is refused, or the flow has moved since the page that the user saw."""
        page = self._find_page(request, form)
        if isinstance(page, Response):
            return page
        asked, preview = page.request, form.get("step") == "preview"
        refusal = None if page.refused else self._find_refusal(page, asked, preview)
        if page.refused or refusal:
            answer = self._page(request, "act.html", page, notice=refusal or "")
            answer.status_code = 409
            return answer
        try:
            started = self._processes.start(asked, name_actor(request.state.user), preview=preview)
        except ConfigError as error:
            return self._shower.show_error(request, 409, "Not now", error)
        started.done.wait(_PATIENCE)
        return RedirectResponse(self._shower.links.action(started.id), 303)

    def show(self, request: Request, name: str) -> Response:
        found = self._processes.find(name)
        if found is None:
            return self._shower.missing(
                request,
                "this server knows of no such action",
                "it was started again since; the history has what was done",
            )
        return self._page(request, "action.html", OutcomePage(found, datetime.now(UTC)))

    def _find_page(self, request: Request, form: Mapping[str, str]) -> ActionPage | Response:
        """The page of the action that is asked for, or an error response."""
        try:
            asked = ActionRequest.read(form)
        except ConfigError as error:
            return self._shower.show_error(request, 400, "Not understood", error)
        page = make_action_page(self._shower.snapshots, asked)
        return self._missing(request, asked.flow) if page is None else page

    @staticmethod
    def _find_refusal(page: ActionPage, asked: ActionRequest, preview: bool) -> str | None:
        if preview:
            return None
        if asked.kind.changes and not asked.reason:
            return "It needs a reason, which the history keeps. Nothing was done."
        if asked.kind.moves:
            return None if asked.seen else "Look first at what would happen. Nothing was done."
        return _MOVED if asked.kind.changes and asked.seen != page.revision else None

    def _page(self, request: Request, template: str, page: Any, **more: Any) -> Response:
        session = self._guard.find_session(request)
        word = {FIELD: self._guard.make_word(request, session)}
        answer = self._shower.show(request, template, "flows", page, csrf=word, **more)
        self._guard.keep_session(request, answer, session)
        return answer

    def _missing(self, request: Request, flow: str) -> Response:
        return self._shower.missing(
            request,
            f"this project has no flow '{flow}' to act on",
            "it has never run, was forgotten since, or is of another pipeline",
        )
