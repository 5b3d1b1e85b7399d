"""Check a transform's SQL before it runs: its text against the columns that its inputs have."""

from __future__ import annotations

import json
from collections.abc import Sequence

from tidegauge.delta_log.history import histories
from tidegauge.errors import TidegaugeError
from tidegauge.flows.delta_locator import DeltaTableLocator
from tidegauge.model.delta_flow import CHANGE_TYPE, COMMIT_TIMESTAMP, COMMIT_VERSION, DeltaInput, Sql
from tidegauge.model.versions import LATEST
from tidegauge.transform.check_columns import check_columns
from tidegauge.transform.parse import parse_transform

_FEED_COLUMNS = (CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP)


def check_transform(sql: Sql, inputs: Sequence[DeltaInput], places: DeltaTableLocator) -> tuple[str, ...]:
    """Return remarks for people. Raises TransformFailed, with the place in the file, for SQL that cannot run.

    The columns of an input are not checked if its table is not there yet, or its log cannot be read here.
    """
    names = [part.name for part in inputs]
    parse_transform(sql.text, inputs=names, place=sql.file)
    columns = find_columns(inputs, places)
    unread = check_columns(sql.text, inputs=names, columns=columns, place=sql.file)
    return tuple(f"the input {name} is named and the SQL does not read it" for name in unread)


def find_columns(inputs: Sequence[DeltaInput], places: DeltaTableLocator) -> dict[str, list[str]]:
    """By input, the columns that its log has now. Inputs whose columns are not known are left out."""
    found = {part.name: places.find(part.table) for part in inputs}
    wanted = {
        part.name: (where, LATEST, part.table.storage) for part in inputs if (where := found[part.name])
    }
    raw = {part.name for part in inputs if part.raw}
    return {
        name: [
            *(field["name"] for field in json.loads(answer.schema)["fields"]),
            *(_FEED_COLUMNS if name in raw else ()),
        ]
        for name, answer in histories(wanted).items()
        if not isinstance(answer, TidegaugeError)
    }
