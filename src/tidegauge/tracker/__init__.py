"""The ledger by itself, inside your own job: time windows, version ranges, high-water marks.
May use ledger, config, sources, delta_log and model; starts no Spark and reads no YAML.
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
