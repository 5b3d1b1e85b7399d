"""`python -m bench`: measure, print a table, keep what was found. Exit 1 when a goal is missed."""

from __future__ import annotations

import argparse
import compileall
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import tidegauge
from bench import (
    bookkeeping,
    dashboard,
    expectations,
    extract,
    freshness,
    layers,
    layers_small,
    load,
    many_tables,
    observability,
    pair,
    planning,
    report,
    schedule,
    startup,
    updates,
    verify,
)
from bench import versions as ranges
from bench.machine import machine, versions
from bench.result import FOLDER, Result, document, keep, kept
from bench.table import table

PARTS = (
    "startup",
    "dashboard",
    "bookkeeping",
    "planning",
    "freshness",
    "updates",
    "versions",
    "extract",
    "load",
    "layers",
    "layers-small",
    "expectations",
    "schedule",
    "pair",
    "verify",
    "observability",
    "many-tables",
)


def main(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    if options.report:
        sys.stdout.write(f"wrote {report.write(kept(options.results or FOLDER))}\n")
        return 0
    rows: int = options.rows or extract.ROWS
    parts: dict[str, Callable[[], list[Result]]] = {
        "startup": startup.measure,
        "dashboard": dashboard.measure,
        "bookkeeping": bookkeeping.measure,
        "planning": planning.measure,
        "freshness": freshness.measure,
        "updates": updates.measure,
        "versions": ranges.measure,
        "extract": lambda: extract.measure(rows, times=options.times),
        "load": lambda: load.measure(rows, times=options.times),
        "layers": lambda: layers.measure(options.rows or layers.ROWS, times=options.times),
        "layers-small": lambda: layers_small.measure(times=options.times),
        "expectations": lambda: expectations.measure(options.rows or expectations.ROWS),
        "schedule": schedule.measure,
        "pair": pair.measure,
        "verify": lambda: verify.measure(rows, times=options.times),
        "observability": lambda: observability.measure(times=options.times),
        "many-tables": lambda: many_tables.measure(
            options.tables or many_tables.TABLES, options.rows or many_tables.ROWS
        ),
    }
    # A trial is only printed, unless `--results` names a folder for it.
    trial = options.rows or options.tables
    folder: Path | None = options.results or (None if trial else FOLDER)
    command = _format_command(options)
    # An installed package has bytecode; compile it also where Python is told to write none.
    compileall.compile_dir(Path(tidegauge.__file__).parent, quiet=2)
    found: list[Result] = []
    for part in options.only or PARTS:
        sys.stderr.write(f"{part} …\n")
        before = machine()
        results = parts[part]()
        found += results
        if folder is not None:
            at = datetime.now(UTC).isoformat(timespec="seconds")
            body = document(command, versions(), results, at=at, machine=before)
            sys.stderr.write(f"kept {keep(folder, part, body).name}\n")
    sys.stdout.write(table([one.to_json() for one in found]))
    return 1 if any(one.met is False for one in found) else 0


def _format_command(options: argparse.Namespace) -> str:
    """Make the command line to show with the results, without `--results`, which is a path of one machine."""
    words = ["python -m bench", *(f"--only {part}" for part in options.only or ())]
    if options.rows:
        words.append(f"--rows {options.rows}")
    if options.tables:
        words.append(f"--tables {options.tables}")
    if options.times != extract.TIMES:
        words.append(f"--times {options.times}")
    return " ".join(words)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--only", action="append", choices=PARTS, help="just this part; may be repeated")
    parser.add_argument("--rows", type=int, help="a trial: so many rows to move, results not kept")
    parser.add_argument("--tables", type=int, help="a trial of many-tables: so many, results not kept")
    parser.add_argument("--times", type=int, default=extract.TIMES, help="how often each of those runs")
    parser.add_argument("--results", type=Path, help="the folder to keep results in")
    parser.add_argument(
        "--report", action="store_true", help="measure nothing; write docs/performance.md's table"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
