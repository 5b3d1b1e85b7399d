"""A table for people, rendered as text or HTML. All cells and notes are masked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape

from tidegauge.model.secret import mask


@dataclass(frozen=True)
class Table:
    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]
    numbers: tuple[str, ...] = ()
    """Names of the right-aligned columns."""
    notes: tuple[str, ...] = ()
    """Sentences shown below the table."""

    @property
    def cells(self) -> list[list[str]]:
        return [[mask(show_cell(value)).replace("\n", " ") for value in row] for row in self.rows]

    @property
    def widths(self) -> list[int]:
        from rich.cells import cell_len

        return [max(map(cell_len, column)) for column in zip(self.columns, *self.cells, strict=True)]

    def to_text(self, colours: Mapping[str, str] | None = None) -> str:
        """Render as text, without the notes. `colours`: the ANSI colour of a cell, by its text."""
        from rich.cells import cell_len

        widths, colours = self.widths, colours or {}

        def line(cells: Sequence[str]) -> str:
            padded = []
            for name, cell, width in zip(self.columns, cells, widths, strict=True):
                blank = " " * (width - cell_len(cell))
                shown = f"\x1b[{colours[cell]}m{cell}\x1b[0m" if cell in colours else cell
                padded.append(blank + shown if name in self.numbers else shown + blank)
            return (" " + "   ".join(padded)).rstrip()

        rule = " " + "─" * (sum(widths) + 3 * (len(widths) - 1))
        return "\n".join([line(self.columns), rule, *map(line, self.cells)])

    def to_html(self) -> str:
        def row(cells: Sequence[str], kind: str) -> str:
            shown = (
                f'<{kind} style="text-align: {"right" if name in self.numbers else "left"}">'
                f"{escape(cell)}</{kind}>"
                for name, cell in zip(self.columns, cells, strict=True)
            )
            return f"<tr>{''.join(shown)}</tr>"

        body = "".join(row(cells, "td") for cells in self.cells)
        notes = "".join(f"<p>{escape(mask(note))}</p>" for note in self.notes)
        head = row(self.columns, "th")
        return f"<table><thead>{head}</thead><tbody>{body}</tbody></table>{notes}"


def show_cell(value: object) -> str:
    if value is None:
        return "—"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def show_ago(moment: datetime | None, now: datetime) -> str:
    if moment is None:
        return "—"
    return f"{show_duration((now - moment).total_seconds())} ago"


def show_duration(seconds: float) -> str:
    """Format a duration with one number and one unit: `2.4 s`, `3 min`, `5 h`, `12 d`."""
    if seconds < 60:
        return f"{max(seconds, 0):.1f} s"
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return ""
