"""One table's file of a JSON ledger: a summary for people, and the flows of the table.

The digest inside covers everything else, so that a file which was torn or edited by hand is noticed before
anything is decided by it. White space does not count.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidegauge.errors import LedgerError, LedgerVersion
from tidegauge.ledger.document_store import StoredFlow
from tidegauge.ledger.summary import table_fields

FORMAT = 1
_OURS = "tidegauge"
_STAGES = ("/extract", "/load")
_MIDDLE = f'  "{_OURS}": {{'
_FLOWS = '    "flows": ['
_END = ["    ]", "  }", "}", ""]
_HALF_PAIR = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class TableDocument:
    version: int
    """Grows with every save, so that no two versions of the file are alike."""
    stored_flows: tuple[StoredFlow, ...]


def table_of(flow: str) -> str:
    """The flow's table: the flow's name without its stage, because a table's stages share one file."""
    return next((flow.removesuffix(stage) for stage in _STAGES if flow.endswith(stage)), flow)


def replace_flows(document: TableDocument | None, stored_flows: Sequence[StoredFlow]) -> TableDocument:
    """The file's next version, with these flows in place of the stored ones of the same name."""
    by_name = {
        (stored_flow.pipeline, stored_flow.flow): stored_flow
        for stored_flow in (*(document.stored_flows if document else ()), *stored_flows)
    }
    return TableDocument(document.version + 1 if document else 1, tuple(by_name.values()))


def render(document: TableDocument) -> bytes:
    fields = {name: _text(value) for name, value in _fields(document.stored_flows).items()}
    flows = [_text(vars(stored_flow)) for stored_flow in document.stored_flows]
    digest = _digest(fields, document.version, flows)
    lines = [
        "{",
        *(f"  {_text(name)}: {value}," for name, value in fields.items()),
        _MIDDLE,
        f'    "format": {FORMAT},',
        f'    "version": {document.version},',
        f'    "digest": "{digest}",',
        _FLOWS,
        ",\n".join(f"      {flow}" for flow in flows),
        *_END,
    ]
    return "\n".join(lines).encode()


def parse(body: bytes, file: str) -> TableDocument:
    """Parse a file. Raises LedgerError, naming it, if it is not as it was saved, and LedgerVersion if newer
    code wrote it."""
    try:
        found = json.loads(body)
    except ValueError as error:
        raise _damaged_error(file, f"it is not whole JSON ({error})") from error
    try:
        ours = found.pop(_OURS)
        if ours["format"] != FORMAT:
            raise newer_format_error(file, ours["format"])
        same = ours["digest"] == _digest_as_laid_out(body, ours["version"])
        if not same and ours["digest"] != _digest_of(found, ours):
            raise _damaged_error(file, "it was edited, and its digest does not match any more")
        return TableDocument(ours["version"], tuple(StoredFlow(**flow) for flow in ours["flows"]))
    except (AttributeError, KeyError, TypeError) as error:
        raise _damaged_error(file, "it lacks what Tidegauge keeps in it") from error


def newer_format_error(file: str, number: Any) -> LedgerVersion:
    return LedgerVersion(
        f"{file} has the format {number}, and this version of Tidegauge knows {FORMAT}",
        hint="upgrade Tidegauge; a later version has written this ledger",
    )


def _damaged_error(file: str, why: str) -> LedgerError:
    return LedgerError(
        f"{file} cannot be trusted: {why}",
        hint="nothing was changed; bring back a copy of the file, or move it aside: then the table begins"
        " anew, and its next run is refused while its output holds rows",
    )


def _digest(fields: Mapping[str, str], version: int, flows: Sequence[str]) -> str:
    parts = [f"{FORMAT} {version}", *(f"{name} {value}" for name, value in fields.items()), *flows]
    return hashlib.sha256("\n".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


def _digest_of(fields: Mapping[str, Any], ours: Mapping[str, Any]) -> str:
    return _digest(
        {name: _text(value) for name, value in fields.items()},
        ours["version"],
        [_text(flow) for flow in ours["flows"]],
    )


def _digest_as_laid_out(body: bytes, version: int) -> str | None:
    """The digest taken from the lines that `render` wrote, which is faster than writing them again; None for
    a file that is laid out otherwise."""
    lines = body.decode("utf-8", "replace").split("\n")
    middle = lines.index(_MIDDLE) if _MIDDLE in lines else 0
    if lines[middle + 4 : middle + 5] != [_FLOWS] or lines[-4:] != _END:
        return None
    fields = [line[2:-1].partition(": ") for line in lines[1:middle]]
    flows = [line.strip().removesuffix(",") for line in lines[middle + 5 : -4]]
    return _digest({name.strip('"'): value for name, _, value in fields}, version, flows)


def _text(value: Any) -> str:
    """JSON text in any alphabet; only half a surrogate pair is escaped, because UTF-8 has no bytes for it."""
    return _HALF_PAIR.sub(lambda half: f"\\u{ord(half[0]):04x}", json.dumps(value, ensure_ascii=False))


def _fields(stored_flows: Sequence[StoredFlow]) -> dict[str, Any]:
    """The summary of whichever of the file's tables changed last."""
    last = max(stored_flows, key=lambda stored_flow: str(stored_flow.row["updated_at"]))
    table = table_of(last.flow)
    found = {
        stored_flow.flow: stored_flow for stored_flow in stored_flows if stored_flow.pipeline == last.pipeline
    }
    extract, load = found.get(f"{table}/extract") or found.get(table), found.get(f"{table}/load")
    return table_fields(
        table,
        extract.row if extract else None,
        load.row if load else None,
        load.body.get("loaded", ()) if load else (),
    )
