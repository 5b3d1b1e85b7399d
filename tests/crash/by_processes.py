"""Another module's `main`, in a process for which no batch has few rows: local processes move every one.

python -m tests.crash.by_processes MODULE words…
"""

from __future__ import annotations

import importlib
import sys

from tidegauge.outputs.lake import splits
from tidegauge.outputs.warehouse import tasks


def main() -> None:
    splits.FEW = tasks.FEW = -1
    module = sys.argv.pop(1)
    importlib.import_module(module).main()


if __name__ == "__main__":
    main()
