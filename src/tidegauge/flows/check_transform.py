"""What can be said of a transform's SQL before it runs: its text against the columns that its inputs have."""

from __future__ import annotations

import json
from collections.abc import Sequence

from tidegauge.delta_log.history import histories
from tidegauge.errors import TidegaugeError
from tidegauge.flows.delta_places import Places
from tidegauge.model.delta_flow import CHANGE_TYPE, COMMIT_TIMESTAMP, COMMIT_VERSION, DeltaInput, Sql
from tidegauge.model.versions import LATEST
from tidegauge.transform.check_columns import check_columns
from tidegauge.transform.parse import parse_transform

_OF_FEED = (CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP)


def check_transform(sql: Sql, inputs: Sequence[DeltaInput], places: Places) -> tuple[str, ...]:
    """Remarks for people. Raises TransformFailed, with the place, for what cannot run.

    An input that is not there yet, or whose log cannot be read here, may have any column.
    """
    names = [part.name for part in inputs]
    parse_transform(sql.text, inputs=names, place=sql.file)
    columns = find_columns(inputs, places)
    unread = check_columns(sql.text, inputs=names, columns=columns, place=sql.file)
    return tuple(f"the input {name} is named and the SQL does not read it" for name in unread)


def find_columns(inputs: Sequence[DeltaInput], places: Places) -> dict[str, list[str]]:
    """Of each input whose columns are known, as its log has them now."""
    found = {part.name: places.find(part.table) for part in inputs}
    wanted = {
        part.name: (where, LATEST, part.table.storage) for part in inputs if (where := found[part.name])
    }
    raw = {part.name for part in inputs if part.raw}
    return {
        name: [
            *(field["name"] for field in json.loads(answer.schema)["fields"]),
            *(_OF_FEED if name in raw else ()),
        ]
        for name, answer in histories(wanted).items()
        if not isinstance(answer, TidegaugeError)
    }
