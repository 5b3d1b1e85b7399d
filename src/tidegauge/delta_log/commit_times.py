"""When versions were committed, as the rows of Delta's own change feed say it.

That is the time inside of the commit if the table keeps such times (`inCommitTimestamp`), or else the date of
the commit's file; where this is not later than that of the version before, one millisecond more than that.
What `commitInfo` calls its timestamp was taken before the commit, and orders no versions.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from tidegauge.delta_log.commit import in_commit_time
from tidegauge.delta_log.log import ListedLog

_BEFORE = 100
"""So many versions before the first one are looked at, as Delta does."""
_MILLISECOND = timedelta(milliseconds=1)


def find_commit_times(log: ListedLog, versions: Sequence[int]) -> dict[int, datetime]:
    """The time of each of these versions, given in their order; without those whose commit is gone."""
    if not versions:
        return {}
    inside = {version: in_commit_time(log.commit(version) or b"") for version in versions}
    if all(inside.values()):
        return {version: at for version, at in inside.items() if at is not None}
    found: dict[int, datetime] = {}
    last = datetime.min.replace(tzinfo=UTC)
    dates = log.dates(range(max(0, versions[0] - _BEFORE), versions[-1] + 1))
    for version, date in sorted(dates.items()):
        last = max(date, last + _MILLISECOND)
        found[version] = inside.get(version) or last
    return {version: found[version] for version in versions if version in found}
