"""The tracker as designed in the requirements paper, in plain Python over a file, to test that design.

It has the paper's three functions line by line, with one correction: where the paper's code misses its own
row, because it looks for a job_id and an id that nothing wrote, this code finds it. The remaining faults are
those of the design.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

Record = dict[str, Any]


class TrackerOnPaper:
    """The tracker of the paper; times are numbers from the clock `now`."""

    def __init__(self, file: Path, now: Callable[[], float]) -> None:
        self._file = file
        self._now = now
        self.between_the_writes: Callable[[], None] = lambda: None

    def rows(self) -> list[Record]:
        return json.loads(self._file.read_text()) if self._file.exists() else []

    def _write(self, rows: list[Record]) -> None:
        # One atomic commit, as with Delta.
        new = self._file.with_suffix(".new")
        new.write_text(json.dumps(rows))
        new.replace(self._file)

    def _latest(self, pipeline: str) -> Record | None:
        mine = [row for row in self.rows() if row["pipeline_name"] == pipeline]
        return max(mine, key=lambda row: row["created_at"], default=None)

    def start_pipeline_run(self, pipeline: str, job_id: str) -> Record:
        last, now = self._latest(pipeline), self._now()
        last_processed = None
        if last is not None:
            last_processed = last["current_run_ts"] or last["last_processed_ts"]
            rows = self.rows()
            for row in rows:
                if row["created_at"] == last["created_at"]:
                    row |= {"current_run_ts": now, "status": "RUNNING", "updated_at": now, "job_id": job_id}
            self._write(rows)
        return {
            "pipeline_name": pipeline,
            "job_id": job_id,
            "last_processed_ts": last_processed,
            "current_run_ts": now,
            "status": "RUNNING",
        }

    def get_delta_window(self, pipeline: str) -> tuple[float | None, float]:
        last = self._latest(pipeline)
        return (last["last_processed_ts"] if last else None), self._now()

    def finalize_pipeline_run(self, record: Record, status: str) -> None:
        rows = self.rows()
        for row in rows:
            if (row["pipeline_name"], row["job_id"]) == (record["pipeline_name"], record["job_id"]):
                row |= {"status": status, "updated_at": self._now()}
        self._write(rows)
        self.between_the_writes()
        if status == "SUCCESS":
            now = self._now()
            ready = {
                "pipeline_name": record["pipeline_name"],
                "job_id": f"random {now}",
                "last_processed_ts": record["current_run_ts"],
                "current_run_ts": None,
                "status": "READY",
                "created_at": now,
                "updated_at": now,
            }
            self._write([*self.rows(), ready])
