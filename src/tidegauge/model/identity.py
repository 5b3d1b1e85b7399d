"""What a watermark of a database table refers to: the table, its order, the row filter and the masks.

As text: `TABLE#ORDER`, then `.s` if the table has no cursor and is read whole, then `.w` and a digest of
`where:`, then `.m` and for each masked column a digest of its name and one of its mask. Without filter and
masks the text is the same as in versions that had neither. `~` at the end means that a person has set the
watermark: filter and masks are unknown until the next plan.
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
    """Digest of `where:`; empty: every row."""
    masks: Mapping[str, str] = field(default_factory=dict)
    """Digest of the mask, by digest of the column's name."""
    by_hand: bool = False
    """Whether a person set the watermark, so that any filter and masks are accepted."""
    whole: bool = False
    """Whether the table has no cursor and is read whole."""


def identify(source_table: SourceTable) -> str:
    """Return the identity as text. A watermark is not valid for another order or other rows."""
    order = "\0".join([source_table.cursor.order, *(part.order for part in source_table.key)])
    where = f".w{digest(source_table.filter)}" if source_table.filter else ""
    masks = "".join(sorted(digest(one.name) + one.mask for one in source_table.columns if one.mask))
    found = hashlib.sha256(order.encode()).hexdigest()[:12]
    whole = ".s" if source_table.options.snapshot else ""
    return f"{source_table.source_id}#{found}{whole}{where}{'.m' + masks if masks else ''}"


def read_identity(text: str) -> TableIdentity | None:
    """Parse an identity; None if the text is not that of a database table."""
    found = _FORM.fullmatch(text)
    if found is None:
        return None
    table, order, whole, where, masks, by_hand = found.groups()
    pairs = [(masks or "")[at : at + 2 * _LENGTH] for at in range(0, len(masks or ""), 2 * _LENGTH)]
    by_name = {pair[:_LENGTH]: pair[_LENGTH:] for pair in pairs}
    return TableIdentity(table, order, where or "", by_name, bool(by_hand), bool(whole))


def accept_scope(known: str | None) -> str | None:
    """Return the identity for the same table and order that accepts any filter and masks in the next plan."""
    found = read_identity(known) if known else None
    return known if found is None else f"{found.table}#{found.order}{'.s' if found.whole else ''}{_BY_HAND}"


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_LENGTH]
