"""Suspensions and ticks as plain JSON values, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from tidegauge.ledger.flow_state import NO_TICKS, FlowState
from tidegauge.model.claim import Owner
from tidegauge.model.suspension import Suspension
from tidegauge.model.ticks import SchedulerRecords, ScheduleTicks, SeenScheduler

SCHEDULE = "schedule"
BEGINNING = f'{{"{SCHEDULE}":'
"""How the column `tally_body` of a SQL ledger begins where it holds a suspension or ticks."""


def schedule_body(flow_state: FlowState) -> dict[str, Any] | None:
    """The suspension and the ticks of a flow in plain JSON values; None if it has neither."""
    suspended, ticks = flow_state.suspended, flow_state.ticks
    if suspended is None and ticks == NO_TICKS:
        return None
    return {
        "suspended": {**vars(suspended), "at": suspended.at.isoformat()} if suspended else None,
        "schedules": {
            name: {
                **vars(one),
                "fired": one.fired.isoformat(),
                "runner": vars(one.runner) if one.runner else None,
            }
            for name, one in ticks.schedules.items()
        },
        "schedulers": [
            {**vars(one), "owner": vars(one.owner), "seen": one.seen.isoformat()} for one in ticks.schedulers
        ],
    }


def schedule_of_tally(text: str | None) -> tuple[Suspension | None, SchedulerRecords]:
    """The suspension and the ticks in the text of the column `tally_body`, where a SQL ledger keeps them
    before the tally. Most flows have neither, and their text is not parsed."""
    if text is None or not text.startswith(BEGINNING):
        return None, NO_TICKS
    return schedule_of(json.loads(text)[SCHEDULE])


def schedule_of(found: Mapping[str, Any] | None) -> tuple[Suspension | None, SchedulerRecords]:
    if found is None:
        return None, NO_TICKS
    suspended = found["suspended"]
    ticks = SchedulerRecords(
        {
            name: ScheduleTicks(
                **{
                    **one,
                    "fired": datetime.fromisoformat(one["fired"]),
                    "runner": Owner(**one["runner"]) if one["runner"] else None,
                }
            )
            for name, one in found["schedules"].items()
        },
        tuple(
            SeenScheduler(
                Owner(**one["owner"]), one["file"], one["path"], datetime.fromisoformat(one["seen"])
            )
            for one in found["schedulers"]
        ),
    )
    if suspended is None:
        return None, ticks
    return Suspension(**{**suspended, "at": datetime.fromisoformat(suspended["at"])}), ticks
