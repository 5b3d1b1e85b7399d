"""Incremental data pipelines on Spark around a ledger of watermarks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidegauge.declare import changes, delta, flow, optimize, snapshot, table, view
    from tidegauge.tracker import WatermarkTracker
    from tidegauge.transform.as_of import as_of

__version__ = "0.1.0"
__all__ = [
    "WatermarkTracker",
    "__version__",
    "as_of",
    "changes",
    "delta",
    "flow",
    "optimize",
    "snapshot",
    "table",
    "view",
]


def __getattr__(name: str) -> Any:
    # Only when it is asked for: importing tidegauge costs nothing.
    if name == "WatermarkTracker":
        from tidegauge.tracker import WatermarkTracker

        return WatermarkTracker
    if name == "as_of":
        from tidegauge.transform.as_of import as_of

        return as_of
    if name in {"changes", "delta", "flow", "optimize", "snapshot", "table", "view"}:
        from tidegauge import declare

        return getattr(declare, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
