"""Runs another module's `main` with every batch treated as large, so that local processes move all of them.

python -m tests.crash.by_processes MODULE words…
"""

from __future__ import annotations

import importlib
import sys

from tidegauge.spark import on_demand


def main() -> None:
    on_demand.FEW = -1
    module = sys.argv.pop(1)
    importlib.import_module(module).main()


if __name__ == "__main__":
    main()
