"""The table of `bench.extract` into Parquet by dlt with connectorx, in a separate Python environment.

`PYTHON bench/extract_dlt.py ADDRESS TABLE TARGET`: ADDRESS is an SQLAlchemy URL, TARGET a new folder.
Prints one JSON document: the rows that arrived, and the processor seconds.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import dlt  # type: ignore[import-not-found]
from dlt.sources.sql_database import sql_table  # type: ignore[import-not-found]


def main(address: str, table: str, target: str) -> None:
    pipeline = dlt.pipeline(
        pipeline_name="bench",
        pipelines_dir=f"{target}/state",
        destination=dlt.destinations.filesystem(bucket_url=f"file://{target}/lake"),
        dataset_name="bench",
    )
    rows = sql_table(address, table=table, backend="connectorx", reflection_level="full")
    pipeline.run(rows, loader_file_format="parquet").raise_on_failed_jobs()
    files = Path(target, "lake", "bench", table).glob("*.parquet")
    sys.stdout.write(
        json.dumps({"rows": sum(_rows(file) for file in files), "cpu": time.process_time()}) + "\n"
    )


def _rows(file: Path) -> int:
    import pyarrow.parquet as pq

    return int(pq.read_metadata(file).num_rows)


if __name__ == "__main__":
    main(*sys.argv[1:])
