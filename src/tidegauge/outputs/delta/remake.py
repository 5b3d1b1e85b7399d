"""Gives new columns to a target that was created for a batch which failed, and has no rows yet."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from tidegauge.delta_log.batch_commit import batch_info
from tidegauge.delta_log.snapshot import Log, Snapshot
from tidegauge.model.delta_flow import DeltaTable
from tidegauge.outputs.delta.target import MADE, list_columns, needs_mapping, target_of
from tidegauge.outputs.delta.written_columns import replace_kept

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_OF_A_FEATURE = ("timestamp_ntz", "variant", "collat")
"""Types that need a table feature: such columns are added by ALTER TABLE."""


def remake(log: Log, look: Snapshot, schema: StructType, output: DeltaTable) -> bool:
    """Replace the table's columns by those of these rows, if Tidegauge created it and it is empty. Returns
    whether it was done: not where another runner has committed in the meantime."""
    target, columns = target_of(look), list_columns(schema, output)
    if MADE not in target.properties or not look.is_empty():
        return False
    there = {one.name: one.type for one in target.columns}
    if there == {one.name: one.type for one in columns} or needs_mapping(columns):
        return False
    text = _make_schema(schema, output, {one.name for one in columns})
    if any(word in text for word in _OF_A_FEATURE):
        return False
    spelled = {one.name.casefold(): one.name for one in columns}
    parts = [spelled[name.casefold()] for name in output.partition_by]
    kept = replace_kept(target.properties, columns, output)
    changed = {"schemaString": text, "partitionColumns": parts, "configuration": kept}
    metadata = {**look.state.metadata, **changed}
    now = int(time.time() * 1000)
    said = json.dumps({"tidegauge": 1, "kind": "columns"})
    actions = [batch_info(look, now, said, "TIDEGAUGE COLUMNS"), {"metaData": metadata}]
    return log.put(look.version + 1, actions)


def _make_schema(schema: StructType, output: DeltaTable, names: set[str]) -> str:
    from pyspark.sql.types import StructField, StructType

    from tidegauge.outputs.delta.scd2 import added_columns

    fields = list(schema.fields)
    if output.mode.facts.keeps_history:
        fields += added_columns(schema, output)
    return StructType([StructField(one.name, one.dataType) for one in fields if one.name in names]).json()
