"""Renders pages as HTML. Everything that a template shows is masked and then escaped."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from tidegauge.dashboard import drawing
from tidegauge.dashboard.audit import AuditFilter
from tidegauge.dashboard.fleet import FleetFilter
from tidegauge.dashboard.links import Links
from tidegauge.errors import TidegaugeError
from tidegauge.model.override import OVERRIDES
from tidegauge.model.position import to_text
from tidegauge.model.secret import mask
from tidegauge.observe.tables import show_duration
from tidegauge.operations.incidents import describe_reason
from tidegauge.operations.stats import seconds_of

HERE = Path(__file__).parent
STATIC = HERE / "static"
PART = "part.html"
"""The layout with only the live part of a page."""
PAGE = "page.html"


def render(template: str, links: Links, *, layout: str = PAGE, **values: Any) -> str:
    """The HTML of a template. `values`: `page` is what the page shows, `project` the project's name."""
    return _environment().get_template(template).render(links=links, layout=layout, **values)


def render_error(links: Links, error: TidegaugeError, *, layout: str = PAGE, **values: Any) -> str:
    return render("error.html", links, layout=layout, error=error, **values)


@cache
def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(
        ago=_ago,
        ago_now=lambda moment, now: _ago(_strip_zone(moment), _strip_zone(now)),
        at=_at,
        at_aware=lambda moment: _at(_strip_zone(moment)),
        count=_count,
        duration=lambda seconds: "—" if seconds is None else show_duration(seconds),
        position=to_text,
        seconds_of=seconds_of,
        shown_position=_show_position,
        word=drawing.show_word,
    )
    made.globals.update(
        describe_reason=describe_reason,
        draw_bars=drawing.draw_bars,
        draw_graph=drawing.draw_graph,
        draw_lane=drawing.draw_lane,
        draw_marks=drawing.draw_marks,
        draw_step=drawing.draw_step,
        FleetFilter=FleetFilter,
        AuditFilter=AuditFilter,
        OVERRIDES=OVERRIDES,
    )
    return made


def _finalize(value: object) -> object:
    """Mask a value before it is escaped: a secret with an ampersand would look different after that."""
    if value is None:
        return ""
    return value if isinstance(value, Markup) else mask(str(value))


def _show_position(value: Any) -> str:
    """A position as a command prints it in JSON."""
    match value:
        case None:
            return to_text(None)
        case {"cursor": cursor, "key": [*key]}:
            return str(cursor) + (f" · {', '.join(map(str, key))}" if key else "")
        case _:
            return str(value)


def _strip_zone(moment: datetime) -> datetime:
    """A moment in UTC without a zone, like those of the ledger."""
    return moment.astimezone(UTC).replace(tzinfo=None)


def _count(value: int | None) -> str:
    return "—" if value is None else f"{value:,}"


def _at(moment: datetime | None) -> Markup:
    """A moment in UTC; the page's script shows it in the viewer's time zone."""
    if moment is None:
        return Markup("—")
    return Markup('<time datetime="{}Z" title="{} UTC">{}</time>').format(
        moment.isoformat(timespec="seconds"),
        moment.isoformat(sep=" ", timespec="milliseconds"),
        f"{moment:%Y-%m-%d %H:%M:%S}",
    )


def _ago(moment: datetime | None, now: datetime) -> Markup:
    if moment is None:
        return Markup("—")
    return Markup('<time class="ago" datetime="{}Z" title="{} UTC">{} ago</time>').format(
        moment.isoformat(timespec="seconds"),
        moment.isoformat(sep=" ", timespec="milliseconds"),
        show_duration((now - moment).total_seconds()),
    )


def static_files() -> Mapping[str, str]:
    """The text of each static file, by its name."""
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(STATIC.iterdir())}
