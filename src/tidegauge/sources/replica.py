"""Reading from a replica, which shows neither its primary's present nor what is open there.

A replica applies transactions in the order of their commits. So bounds go by the last one that it has
applied, and not by its clock: then `settle` guards against late commits as if the primary were read without
a view of its sessions.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from tidegauge.sources.dialect import ClockReading

_LATE = timedelta(minutes=1)
"""A replica that is behind by less than this is not worth a note."""


def at_replica(
    reading: ClockReading, applied: datetime | None, *, unknown: str = "", writable: bool = False
) -> ClockReading:
    """The reading of a replica, as of the last transaction that it has applied.

    `applied`: the primary's time of that transaction, in UTC; None where it is not known. `unknown`: why.
    `writable`: others may write here too, so what is open here still counts.
    """
    note = (
        "this server replicates from another one, and does not see what is open there: only `settle` guards"
        " against late commits"
    )
    behind = timedelta(0)
    if applied is None:
        note += f"; it has to be longer than it is behind, which {unknown}"
    else:
        behind = max(reading.clock - applied, behind)
    if behind >= _LATE:
        minutes = f"{behind // timedelta(minutes=1):,} min"
        note += f"; rows wait, as the last transaction that it has applied is {minutes} old"
    return replace(
        reading,
        clock=reading.clock - behind,
        open=reading.open if writable else (),
        sure=not writable or reading.sure,
        replica=True,
        behind=behind,
        blind=note,
    )
