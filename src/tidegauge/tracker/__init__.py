"""The ledger alone, inside someone's own job: time windows, version ranges, high-water marks.
Knows the ledger, config, delta and model; has no Spark and no YAML of its own.
"""

from tidegauge.tracker.watermark_tracker import (
    HighWater,
    Processing,
    ProcessingPlan,
    Run,
    TablePlan,
    TimeWindow,
    WatermarkRecord,
    WatermarkTracker,
)

__all__ = [
    "HighWater",
    "Processing",
    "ProcessingPlan",
    "Run",
    "TablePlan",
    "TimeWindow",
    "WatermarkRecord",
    "WatermarkTracker",
]
