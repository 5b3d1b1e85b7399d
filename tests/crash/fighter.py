"""One of several processes that compete for the same flow again and again, until they are killed.

python -m tests.crash.fighter LEDGER FOLDER NUMBER

The source is the clock, in tenths of a second since the folder was made; the output is a folder of files, one
for each batch, put there only if absent. The processes coordinate only through the ledger.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
import uuid
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

from tidegauge.errors import FlowHeld, LeaseLost, LedgerUnreachable, WrongState
from tidegauge.ledger.open import open_ledger
from tidegauge.ledger.owner import is_gone, this_process
from tidegauge.model.claim import Claim
from tidegauge.model.plan import Batch, Draft, InputPlan, Plan, Receipt
from tidegauge.model.position import RowPosition, Value, ValueKind, Window
from tidegauge.model.protocols.ledger import LedgerWriter
from tidegauge.model.state import State

LEASE = timedelta(seconds=2)
PIPELINE = FLOW = INPUT = "fight"


def position(number: int) -> RowPosition:
    return RowPosition(Value(ValueKind.INT, str(number)))


def number(of: object) -> int:
    return int(of.cursor.text) if isinstance(of, RowPosition) else 0


def head(folder: Path) -> int:
    return int((time.time() - folder.stat().st_ctime) * 10) + 1 if folder.exists() else 0


def look(ledger: LedgerWriter, upto: int) -> Draft | None:
    marks = ledger.watermarks(PIPELINE, [FLOW])
    after = marks[0].position if marks else None
    seen = (marks[0].epoch, marks[0].seq) if marks else (0, 0)
    if number(after) >= upto:
        return None
    middle = position((number(after) + upto + 1) // 2)
    windows = [Window(after, middle)]
    if middle != position(upto):
        windows.append(Window(middle, position(upto)))
    whole = InputPlan(INPUT, "value", Window(after, position(upto)), "source", "columns")
    batches = tuple(Batch((window,)) for window in windows)
    return Draft(PIPELINE, FLOW, (whole,), batches, seen=seen)


def put(output: Path, claim: Claim, index: int) -> Receipt:
    """Publish a batch as a lake does: whole and only if absent; the first one published counts."""
    plan = claim.plan
    tag, [window] = plan.tag(index), plan.draft.batches[index].windows
    target = output / f"{tag.epoch}-{tag.seq:06d}.json"
    body = {"after": number(window.after), "upto": number(window.upto), "fence": claim.fence}
    temporary = output / f".{uuid.uuid4().hex}"
    temporary.write_text(json.dumps(body))
    with suppress(FileExistsError):
        os.link(temporary, target)
    temporary.unlink()
    found = json.loads(target.read_text())
    assert (found["after"], found["upto"]) == (body["after"], body["upto"]), f"{target} means something else"
    return Receipt(tag, (window,), body["upto"] - body["after"], 1, 1, claim.run_id)


def once(ledger: LedgerWriter, output: Path, upto: int) -> None:
    owner, run_id = this_process(), uuid.uuid4().hex
    plan: Plan | None = next((one.plan for one in ledger.status(PIPELINE, [FLOW])), None)
    if plan is None:
        draft = look(ledger, upto)
        if draft is None:
            return
        plan = ledger.plan([draft], owner=owner, run_id=run_id).get(FLOW)
        if plan is None:
            return
    [status] = ledger.status(PIPELINE, [FLOW])
    dead = status.owner if status.owner is not None and is_gone(status.owner) else None
    claim = ledger.claim(plan, owner=owner, run_id=run_id, lease=LEASE, dead=dead)
    for index in range(claim.plan.done, len(claim.plan.draft.batches)):
        ledger.begin(claim, index)
        time.sleep(random.uniform(0, 0.02))
        ledger.advance(claim, index, put(output, claim, index))
    if random.random() < 0.1:
        ledger.finish(claim, State.PLANNED)
    else:
        ledger.finish(claim, State.SUCCESS)


def fight(address: str, place: str, name: str) -> None:
    output, log = Path(place) / "out", Path(place) / f"fighter-{name}.log"
    with open_ledger(address, create=True) as ledger, log.open("a") as said:
        while True:
            try:
                once(ledger, output, head(Path(place) / "clock"))
                said.write("done\n")
            except (FlowHeld, LeaseLost, WrongState, LedgerUnreachable) as error:
                said.write(f"{type(error).__name__}\n")
                time.sleep(random.uniform(0, 0.05))
            said.flush()


def main() -> None:
    fight(*sys.argv[1:])


if __name__ == "__main__":
    main()
