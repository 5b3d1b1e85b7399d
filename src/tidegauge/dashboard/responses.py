"""Renders pages and errors as responses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fastapi import Request, Response
from fastapi.responses import HTMLResponse

from tidegauge.dashboard.links import ServedLinks
from tidegauge.dashboard.render import PAGE, PART, render, render_error
from tidegauge.dashboard.snapshot import FleetSnapshots
from tidegauge.errors import TidegaugeError


@dataclass(frozen=True)
class PageRenderer:
    snapshots: FleetSnapshots
    links: ServedLinks

    def show(self, request: Request, template: str, section: str, page: Any, **more: Any) -> Response:
        text = render(template, self.links, **self._make_shared_values(request, section), page=page, **more)
        return HTMLResponse(text)

    def show_error(
        self, request: Request, status: int, title: str, error: TidegaugeError, *, retries: bool = False
    ) -> Response:
        shared = self._make_shared_values(request, "")
        text = render_error(self.links, error, **shared, title=title, retries=retries)
        return HTMLResponse(text, status)

    def missing(self, request: Request, what: str, hint: str) -> Response:
        return self.show_error(request, 404, "Not there", TidegaugeError(what, hint=hint))

    def _make_shared_values(self, request: Request, section: str) -> dict[str, Any]:
        part = "x-tidegauge-part" in request.headers
        return {
            "layout": PART if part else PAGE,
            "project": self.snapshots.project.pipeline,
            "section": section,
            "written": None,
        }
