"""Delta tables for tests of the log alone; delta-rs writes them, with Tidegauge's tags or without."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.support.delta_output import batch_of, delta_flow_of, tag_of
from tidegauge.delta_log.application import application
from tidegauge.delta_log.delta_rs import address, options
from tidegauge.model.delta_flow import TableRef
from tidegauge.model.mode import Mode
from tidegauge.model.spec import Lake
from tidegauge.outputs.delta.commit import describe_commit
from tidegauge.outputs.delta.output import DeltaOutput


class LogTable:
    """A table that delta-rs writes to, with Tidegauge's tags or without."""

    def __init__(self, lake: Lake) -> None:
        self.lake = lake
        self.delta_flow = delta_flow_of(TableRef(path=lake.path, storage=lake), Mode.APPEND)
        self.output = self.fresh()

    def fresh(self) -> DeltaOutput:
        """Open the output anew, as another process would."""
        return DeltaOutput(self.delta_flow, locate=lambda: self.lake.path)

    def commit(self, seq: int | None = None, *, epoch: int = 0, rows: int = 1) -> None:
        from deltalake import CommitProperties, Transaction, write_deltalake

        facts: dict[str, Any] = {}
        if seq is not None:
            said = describe_commit(self.delta_flow, None, tag_of(seq, epoch), batch_of(seq), f"run {seq}")
            facts["app_transactions"] = [Transaction(application(tag_of(seq, epoch)), seq)]
            facts["custom_metadata"] = {"userMetadata": said}
        write_deltalake(
            address(self.lake),
            pa.table({"id": list(range(rows))}),
            mode="append",
            storage_options=options(self.lake),
            commit_properties=CommitProperties(**facts),
        )

    def open(self, epoch: int, continues: tuple[int, int] | None = None, *, empty: bool = False) -> None:
        self.output.open_epoch("shop", "silver/orders", epoch, continues, "again", empty=empty)

    def ids(self) -> int:
        from deltalake import DeltaTable

        found: int = DeltaTable(address(self.lake), storage_options=options(self.lake)).count()
        return found

    def logged(self) -> list[Path]:
        return sorted((Path(self.lake.path) / "_delta_log").glob("*.json"))
