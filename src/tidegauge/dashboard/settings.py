"""A flow's settings in the project file, as a list of names and values without secrets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from datetime import timedelta
from enum import Enum
from typing import Any

from tidegauge.model.columns import ColumnChoice, ColumnMask, RowFilter
from tidegauge.model.delta_flow import DataFlow
from tidegauge.model.retention import shown

_PASSED_OVER = frozenset(
    {"pipeline", "name", "output", "place", "source", "table", "reads", "options", "keeps_types", "stage"}
)


@dataclass(frozen=True)
class FlowSetting:
    name: str
    value: str


def settings_of(flow: DataFlow) -> tuple[FlowSetting, ...]:
    """Where the flow reads and writes, its mode, cursor and settle, and settings other than the default."""
    options, output = getattr(flow, "options", None), flow.output
    place = getattr(options, "place", None) or getattr(flow, "place", None)
    source = getattr(flow, "source", None)
    found = {
        "from": f"{source.name}: {flow.input}" if source is not None else "",
        "to": flow.target,
        **_find_changed(flow),
        **(_find_changed(options) if options is not None else {}),
        **(_find_changed(output) if hasattr(output, "mode") else {}),
        "written at": str(place or ""),
    }
    return tuple(FlowSetting(name, value) for name, value in found.items() if value)


def _find_changed(holder: Any) -> dict[str, str]:
    return {
        field.name: _show(getattr(holder, field.name))
        for field in fields(holder)
        if field.name not in _PASSED_OVER
        and (field.name in ("mode", "cursor", "settle") or getattr(holder, field.name) != _default(field))
    }


def _default(field: Field[Any]) -> Any:
    if field.default is not MISSING:
        return field.default
    return field.default_factory() if field.default_factory is not MISSING else None


def _show(value: Any) -> str:
    match value:
        case None:
            return ""
        case Enum():
            return str(value.value)
        case timedelta():
            return shown(value)
        case tuple() | list() | frozenset():
            return ", ".join(filter(None, map(_show, value)))
        case Mapping():
            return ", ".join(f"{name}: {_show(part)}" for name, part in value.items())
        case ColumnChoice() | ColumnMask() | RowFilter():
            return _describe_choice(value)
        case _ if hasattr(value, "file") and hasattr(value, "text"):
            return str(value.file or "SQL in the file")
        case _ if is_dataclass(value) and hasattr(value, "name"):
            return _named(value)
        case _:
            return str(value)


def _describe_choice(value: ColumnChoice | ColumnMask | RowFilter) -> str:
    """Name the columns or rows as the file does; of a mask without its text, which may be a secret."""
    match value:
        case ColumnChoice(include=(), exclude=()):
            return ""
        case ColumnChoice():
            named = ", ".join(value.include or value.exclude)
            return f"{'include' if value.include else 'exclude'}: {named}"
        case ColumnMask():
            return f"{value.pattern}: {value.kind.value}"
        case RowFilter():
            return value.sql


def _named(value: Any) -> str:
    """The value's name, with the table if it has one, as an input has."""
    table = getattr(value, "table", None)
    return f"{value.name} = {table}" if table is not None else str(value.name)
