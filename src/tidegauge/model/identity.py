"""What a watermark of a database table was taken over: which table, in which order, which of its rows, and
how they were masked.

As text: `TABLE#ORDER`, then `.s` where the table has no cursor and is read whole, then `.w` and a digest of
`where:`, then `.m` and for each masked column a digest of its name and one of its mask. What has no filter
and no masks is written as it was before there were any. Behind `TABLE#ORDER~` no more is known: a person has
set the watermark, and the next plan says what holds.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from tidegauge.model.table import SourceTable

_LENGTH = 8
_BY_HAND = "~"
_FORM = re.compile(
    r"(.*)#([0-9a-f]{12})(\.s)?(?:\.w([0-9a-f]{8}))?(?:\.m((?:[0-9a-f]{16})+))?(~?)", re.DOTALL
)


@dataclass(frozen=True)
class TableIdentity:
    table: str
    order: str
    where: str = ""
    """A digest, as are the masks by column; empty: every row."""
    masks: Mapping[str, str] = field(default_factory=dict)
    by_hand: bool = False
    """Any rows and masks will do."""
    whole: bool = False
    """There is no cursor."""


def identify(source_table: SourceTable) -> str:
    """A watermark means nothing against another order, and too little against other rows."""
    order = "\0".join([source_table.cursor.order, *(part.order for part in source_table.key)])
    where = f".w{digest(source_table.filter)}" if source_table.filter else ""
    masks = "".join(sorted(digest(one.name) + one.mask for one in source_table.columns if one.mask))
    found = hashlib.sha256(order.encode()).hexdigest()[:12]
    whole = ".s" if source_table.options.snapshot else ""
    return f"{source_table.source_id}#{found}{whole}{where}{'.m' + masks if masks else ''}"


def read_identity(text: str) -> TableIdentity | None:
    """None: it is that of something else than a table of a database."""
    found = _FORM.fullmatch(text)
    if found is None:
        return None
    table, order, whole, where, masks, by_hand = found.groups()
    pairs = [(masks or "")[at : at + 2 * _LENGTH] for at in range(0, len(masks or ""), 2 * _LENGTH)]
    by_name = {pair[:_LENGTH]: pair[_LENGTH:] for pair in pairs}
    return TableIdentity(table, order, where or "", by_name, bool(by_hand), bool(whole))


def accept_scope(known: str | None) -> str | None:
    """The same table in the same order, with the rows and masks that the next plan finds."""
    found = read_identity(known) if known else None
    return known if found is None else f"{found.table}#{found.order}{'.s' if found.whole else ''}{_BY_HAND}"


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_LENGTH]
