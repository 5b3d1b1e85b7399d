"""One flow for each bronze table, whatever there is: a hundred and twenty of them in ten lines."""

from pathlib import Path

from pyspark.sql import DataFrame

import tidegauge as tg


def as_it_is(rows: DataFrame) -> DataFrame:
    return rows


for table in sorted(path.name for path in (Path(__file__).parent / "lake" / "bronze").glob("*")):
    tg.flow(
        name=f"silver_{table}",
        rows=tg.changes(path=f"lake/bronze/{table}"),
        output=tg.delta(path=f"lake/silver/{table}", key="id"),
    )(as_it_is)
