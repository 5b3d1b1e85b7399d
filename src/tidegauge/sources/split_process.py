"""Reads a split in a process of its own, from which its rows come as Arrow.

This is for a driver that lets no other thread run Python while it waits for the server. If the reader stops
half-way, the process ends, and the connection with it. Spark's tasks have processes of their own already.
"""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tidegauge import errors
from tidegauge.errors import SourceUnreachable, TidegaugeError
from tidegauge.model.batch_data import Split
from tidegauge.model.secret import mask
from tidegauge.spark.local_tasks import is_worker

if TYPE_CHECKING:
    import pyarrow as pa

_FAILED = 3
"""The exit code if the last line of standard error is a `TidegaugeError` as JSON."""


def is_task() -> bool:
    """Whether this process only runs tasks, Spark's or ours."""
    if is_worker():
        return True
    if "pyspark" not in sys.modules:
        return False
    from pyspark import TaskContext

    return TaskContext.get() is not None


def read_in_process(split: Split) -> Iterator[pa.RecordBatch]:
    """Read the split in another process: its batches, or its error, come from there."""
    import pyarrow as pa

    child = subprocess.Popen(
        [sys.executable, "-m", "tidegauge.sources.split_process"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert child.stdin is not None
    assert child.stdout is not None
    assert child.stderr is not None
    try:
        try:
            child.stdin.write(pickle.dumps(split))
            child.stdin.close()
            with pa.ipc.open_stream(child.stdout) as stream:
                yield from stream
            whole = True
        except (pa.ArrowInvalid, BrokenPipeError, EOFError):
            whole = False
        output = child.stderr.read().decode(errors="replace")
        if child.wait() or not whole:
            raise _make_error(child.returncode, output)
    finally:
        # Also if the reader stops half-way, so that the server stops sending.
        child.kill()
        child.wait()
        child.stdout.close()
        child.stderr.close()


def _make_error(code: int, output: str) -> TidegaugeError:
    last = output.splitlines()[-1] if output.strip() else ""
    if code == _FAILED:
        facts = json.loads(last)
        kind = getattr(errors, facts["type"], TidegaugeError)
        assert issubclass(kind, TidegaugeError)
        raised: TidegaugeError = kind(facts["message"], hint=facts["hint"], retryable=facts["retryable"])
        return raised
    return SourceUnreachable(
        f"the process that was reading ended with {code}: {mask(last)}",
        hint="run again: the same window is read once more",
        detail=mask(output),
    )


def main() -> int:
    import pyarrow as pa

    split: Split = pickle.load(sys.stdin.buffer)  # noqa: S301 - from the process that started this one
    writer: pa.ipc.RecordBatchStreamWriter | None = None
    try:
        for batch in split.batches():
            if writer is None:
                writer = pa.ipc.new_stream(sys.stdout.buffer, batch.schema)
            writer.write_batch(batch)
    except TidegaugeError as error:
        facts = {
            "type": error.type,
            "message": error.message,
            "hint": error.hint,
            "retryable": error.retryable,
        }
        sys.stderr.write(f"\n{json.dumps(facts)}\n")
        return _FAILED
    if writer is None:
        writer = pa.ipc.new_stream(sys.stdout.buffer, pa.schema([]))
    writer.close()
    sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
