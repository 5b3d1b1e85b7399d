"""How long a person waits for the dashboard and for each of its pages, over a ledger with a long past."""

from __future__ import annotations

import http.client
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.result import Result
from bench.startup import EVENTS, FLOWS, PROJECT, make_past

_TIMES = 20
_START, _PAGE = 1.0, 0.1
"""Budgets in seconds: for the start until the first page, and for each page."""
_PAGES = {
    "flows": "/",
    "flows, one searched for": "/?text=0777",
    "a flow": "/flow?name=shop.table_0500",
    "gap map": "/gaps?name=shop.table_0500",
    "runs": "/runs",
    "a run": "/run?id=run-200",
    "graph": "/graph",
    "proofs": "/proofs",
    "history": "/history",
}


def measure() -> list[Result]:
    with tempfile.TemporaryDirectory(prefix="tidegauge-bench-") as name:
        folder = Path(name)
        (folder / "tidegauge.yml").write_text(PROJECT)
        make_past(folder / "ledger.db")
        starts = [_start_once(folder) for _ in range(6)][1:]  # the first start compiles its modules
        server, port, _ = _start(folder)
        try:
            pages = {title: _ask_often(port, path) for title, path in _PAGES.items()}
        finally:
            server.terminate()
            server.wait()
    facts = {"flows": FLOWS, "events": EVENTS}
    return [
        _result("tidegauge serve, to the first page", starts, _START, facts),
        *(_result(f"page: {title}", taken, _PAGE, facts) for title, taken in pages.items()),
    ]


def _result(name: str, taken: list[float], budget: float, facts: dict[str, int]) -> Result:
    return Result(
        name=name,
        ours=statistics.median(taken),
        reference=budget,
        goal=1.0,
        unit="s",
        against=f"the budget of {budget} s",
        more={**facts, "fastest": round(min(taken), 4), "slowest": round(max(taken), 4), "times": len(taken)},
    )


def _start(folder: Path) -> tuple[subprocess.Popen[str], int, float]:
    began = time.perf_counter()
    program = str(Path(sys.executable).with_name("tidegauge"))
    server = subprocess.Popen(
        [program, "serve", "--port", "0", "--project", str(folder)], stderr=subprocess.PIPE, text=True
    )
    assert server.stderr
    found = re.search(r":(\d+)/", server.stderr.readline())
    assert found, "it says where it serves"
    _ask(int(found[1]), "/runs")
    return server, int(found[1]), time.perf_counter() - began


def _start_once(folder: Path) -> float:
    server, _, seconds = _start(folder)
    server.terminate()
    server.wait()
    return seconds


def _ask_often(port: int, path: str) -> list[float]:
    return [_ask(port, path) for _ in range(_TIMES + 1)][1:]


def _ask(port: int, path: str) -> float:
    began = time.perf_counter()
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("GET", path)
    answer = connection.getresponse()
    text = answer.read()
    assert answer.status == 200, text[:2000]
    connection.close()
    return time.perf_counter() - began
