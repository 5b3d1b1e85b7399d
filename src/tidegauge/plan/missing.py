"""Decide what to read instead of versions that are not read yet and cannot be read any more. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from tidegauge.errors import VersionsMissing
from tidegauge.model.delta_flow import DeltaFlow, DeltaInput, OnMissing
from tidegauge.model.plan import ReadWay
from tidegauge.model.versions import FEED, DeltaHistory, Version
from tidegauge.plan.pieces import VersionRange


def choose_instead(
    flow: DeltaFlow, part: DeltaInput, history: DeltaHistory, begin: int | None, unread: Sequence[Version]
) -> tuple[VersionRange, str] | None:
    """The one piece to read instead of all unread versions, as `on_missing` says, and a note on it; None
    where every version can be read.

    Raises VersionsMissing, with the choices, where `on_missing` says nothing or cannot be done.
    """
    bad = next(((one, why) for one in unread if (why := explain_unreadable(one, history))), None)
    if bad is None:
        return None
    version, why = bad
    said = f"{part.name}: version {version.number} of {part.table} cannot be read any more ({why})"
    match part.on_missing:
        case OnMissing.REBASELINE:
            return VersionRange(
                begin, history.latest, ReadWay.SNAPSHOT
            ), f"{said}: the whole table is read again"
        case OnMissing.DIFF:
            if begin is not None and history.readable(begin):
                compared = f"versions {begin} and {history.latest} are compared"
                return VersionRange(begin, history.latest, ReadWay.DIFF), f"{said}: {compared}"
        case OnMissing.FAIL:
            pass
    raise VersionsMissing(
        f"{flow.name}: version {version.number} of {part.table}, not read yet, cannot be read any more:"
        f" {why}{_explain_no_diff(part, begin)}",
        hint=_hint(flow, part, begin),
    )


def unreadable_error(
    flow: DeltaFlow, part: DeltaInput, history: DeltaHistory, version: int
) -> VersionsMissing:
    return VersionsMissing(
        f"{flow.name}: {part.table} cannot be read any more as it was at version {version}: its log begins"
        f" at version {history.earliest}, or files of that version are gone",
        hint=f"begin the input '{part.name}' with a later version, or with `initial: snapshot`",
    )


def explain_unreadable(version: Version, history: DeltaHistory) -> str | None:
    """Why the changes of a version cannot be read; None: they can."""
    if version.absent:
        if version.number < history.earliest:
            return f"the log begins at version {history.earliest}"
        return "its commit is gone from the log"
    if version.missing:
        count = len(version.missing)
        files = "1 of its files is gone" if count == 1 else f"{count} of its files are gone"
        return f"{files}, {version.missing[0]}" if count == 1 else f"{files}, such as {version.missing[0]}"
    if version.changes and not version.feed and not version.only_adds:
        return "the change data feed was off, and it did more than add files"
    return None


def _explain_no_diff(part: DeltaInput, begin: int | None) -> str:
    if part.on_missing is not OnMissing.DIFF:
        return ""
    if begin is None:
        return "; and with nothing read before there is nothing to compare with (on_missing: diff)"
    return f"; nor can version {begin}, to compare it with what is there now (on_missing: diff)"


def _hint(flow: DeltaFlow, part: DeltaInput, begin: int | None) -> str:
    if begin is None:
        return (
            f"begin the input '{part.name}' with `initial: snapshot`; for what comes later, keep its feed on"
            f" ({FEED} = true)"
        )
    difference = (
        ""
        if part.on_missing is OnMissing.DIFF
        else f", `on_missing: diff` to compare version {begin} with what is there now"
    )
    return (
        f"choose for the input '{part.name}': `on_missing: rebaseline` to read the whole table again"
        f"{difference}; or begin again with `tidegauge watermark reset --select {flow.name}`. Nothing was"
        " touched"
    )
