"""Incremental data pipelines on Spark around a ledger of watermarks."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidegauge.api.project import LoadedProject, load_project
    from tidegauge.declare import changes, delta, flow, optimize, snapshot, table, view
    from tidegauge.errors import RunFailed, TidegaugeError
    from tidegauge.tracker import WatermarkTracker
    from tidegauge.transform.as_of import as_of

__version__ = "0.1.0"
__all__ = [
    "LoadedProject",
    "RunFailed",
    "TidegaugeError",
    "WatermarkTracker",
    "__version__",
    "as_of",
    "changes",
    "delta",
    "flow",
    "load_project",
    "optimize",
    "snapshot",
    "table",
    "view",
]

_HOMES = {
    "LoadedProject": "api.project",
    "RunFailed": "errors",
    "TidegaugeError": "errors",
    "WatermarkTracker": "tracker",
    "as_of": "transform.as_of",
    "load_project": "api.project",
}


def __getattr__(name: str) -> Any:
    # Only when it is asked for: importing tidegauge costs nothing.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'declare')}"), name)


def __dir__() -> list[str]:
    return __all__
