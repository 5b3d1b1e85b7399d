"""`python -m simulation`: run schedules, print what happened. Exit 1 when an invariant is broken."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from simulation.many import Outcome, simulate, trace
from simulation.world import Fault

_SHOWN = 5
_OFTEN = 20_000


def main(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    if options.trace:
        lines = trace(options.seed, documents=options.documents)
        sys.stdout.write("\n".join(lines) + "\n")
        return 1 if lines[-1].startswith("VIOLATED") else 0
    seeds = range(options.seed, options.seed + options.schedules)
    outcome = simulate(seeds, jobs=options.jobs, documents=options.documents, tell=_progress)
    faults = [str(fault) for fault in Fault]
    for name in [*faults, *sorted(set(outcome.tally) - set(faults))]:
        sys.stdout.write(f"{name:<40}{outcome.tally[name]:>14,}\n")
    sys.stdout.write(f"{'seconds':<40}{outcome.seconds:>14,.1f}\n")
    sys.stdout.write(f"{'violations':<40}{len(outcome.broken):>14,}\n")
    for broken in outcome.broken[:_SHOWN]:
        sys.stdout.write(f"{broken}\n")
    if outcome.broken:
        seed = outcome.broken[0].seed
        sys.stdout.write("\n".join(["", *trace(seed, documents=options.documents), ""]))
        option = "--documents " if options.documents else ""
        sys.stdout.write(f"again: python -m simulation {option}--trace --seed {seed}\n")
        return 1
    return 0


def _progress(outcome: Outcome) -> None:
    done = outcome.tally["schedules"] + len(outcome.broken)
    if done % _OFTEN == 0:
        broken = f", broken: {', '.join(str(one.seed) for one in outcome.broken)}" if outcome.broken else ""
        sys.stderr.write(f"{done:,} schedules, {outcome.seconds:,.0f} s{broken}\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m simulation", description=__doc__)
    parser.add_argument("--schedules", type=int, default=20_000, help="how many; 20,000 unless told")
    parser.add_argument("--seed", type=int, default=0, help="of the first schedule; the next ones count up")
    parser.add_argument("--jobs", type=int, default=2, help="processes; 2 unless told")
    parser.add_argument(
        "--documents", action="store_true", help="with the ledger of JSON files and Delta tables"
    )
    parser.add_argument("--trace", action="store_true", help="one schedule, step by step")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
