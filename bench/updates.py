"""What one change of the ledger costs on each store, against a bare commit of about as many bytes.

On JSON and Delta stores also what planning many flows costs; `bench.planning` measures that for SQL.
"""

from __future__ import annotations

import json
import os
import tempfile
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from tests.support.drafts import ME, draft
from tests.support.servers import S3, start_s3

from bench.result import Result
from bench.stores import Store, stores
from bench.timing import Stopwatch, in_turns
from tidegauge.ledger import plan_rules
from tidegauge.ledger.flow_document import apply_change, new_document
from tidegauge.ledger.open import open_ledger
from tidegauge.ledger.stored_flow import stored_flow_of
from tidegauge.model.plan import Draft

GOAL = 3.0
_TIMES = 25
_PLANS = 3
_LEASE = timedelta(seconds=60)
Bare = Callable[[Sequence[bytes]], None]
"""A function that commits these documents (on SQL, one row) as durably as the ledger does."""


@dataclass(frozen=True)
class Place:
    name: str
    address: str
    bare: Bare
    flows: int
    """How many flows are planned at once; 0 on SQL, where `bench.planning` measures it."""


def measure() -> list[Result]:
    with _places() as places:
        results = [_measure_update(place) for place in places]
        return results + [_plan(place) for place in places if place.flows]


def _measure_update(place: Place) -> Result:
    with open_ledger(place.address, create=True) as ledger:
        plan = ledger.plan([draft()], owner=ME, run_id="bench")["orders"]
        claim = ledger.claim(plan, owner=ME, run_id="bench", lease=_LEASE)
        pairs = in_turns(
            _TIMES,
            lambda _: _measure_seconds(lambda: ledger.renew(claim, _LEASE)),
            lambda _: _measure_seconds(lambda: place.bare([_BODY])),
        )
    return Result(
        name=f"one update, {place.name}",
        ours=1000 * pairs.median_ours,
        reference=1000 * pairs.median_reference,
        goal=GOAL,
        unit="ms",
        against="a bare commit on the same store",
        more={"times": _TIMES},
    )


def _plan(place: Place) -> Result:
    with open_ledger(place.address, create=True) as ledger:

        def drafts(turn: int) -> list[Draft]:
            return [draft(f"turn {turn}: table {number}") for number in range(place.flows)]

        def plan(turn: int) -> float:
            made = drafts(turn)
            return _measure_seconds(lambda: ledger.plan(made, owner=ME, run_id="bench"))

        def write(turn: int) -> float:
            documents = [_make_document(one) for one in drafts(turn)]
            return _measure_seconds(lambda: place.bare(documents))

        pairs = in_turns(_PLANS, plan, write)
    return Result(
        name=f"planning {place.flows:,} new flows, {place.name}",
        ours=1000 * pairs.median_ours,
        reference=1000 * pairs.median_reference,
        goal=GOAL,
        unit="ms",
        against="the same documents, made before, committed as the store commits them",
        more={"times": _PLANS},
    )


def _make_document(planned: Draft) -> bytes:
    """Make the document that the ledger keeps for a flow it has just planned."""
    now = datetime(2026, 1, 1)
    before = new_document(planned.pipeline, planned.flow, now)
    change, _ = plan_rules.plan(
        before.flow_state, planned, plan_id=uuid.uuid4().hex, owner=ME, run_id="bench", now=now
    )
    assert change is not None
    return json.dumps(stored_flow_of(apply_change(before, change, now, known=True)).body).encode()


def _measure_seconds(work: Callable[[], Any]) -> float:
    watch = Stopwatch()
    with watch.running():
        work()
    return watch.seconds


@contextmanager
def _places() -> Iterator[list[Place]]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidegauge-bench-")))
        s3 = stack.enter_context(start_s3())
        os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"] = s3.access_key, s3.secret_key
        places = [_make_sql_place(store, stack) for store in stack.enter_context(stores())]
        places.append(Place("json", f"json:{folder / 'json'}", _files(folder / "bare"), 1000))
        places.append(
            Place(
                "delta", f"delta:{folder / 'delta'}", _commit_delta_to(str(folder / "bare-delta"), {}), 1000
            )
        )
        bucket = s3.create_bucket()
        at = f"?endpoint={s3.endpoint}&region={s3.region}"
        places.append(
            Place("json on S3", f"json:s3a://{bucket}/json{at}", _commit_objects_to(s3, bucket), 200)
        )
        options = {
            "AWS_ENDPOINT_URL": s3.endpoint,
            "AWS_REGION": s3.region,
            "AWS_ACCESS_KEY_ID": s3.access_key,
            "AWS_SECRET_ACCESS_KEY": s3.secret_key,
            "AWS_ALLOW_HTTP": "true",
            "aws_conditional_put": "etag",
        }
        bare = _commit_delta_to(f"s3://{bucket}/bare-delta", options)
        places.append(Place("delta on S3", f"delta:s3a://{bucket}/delta{at}", bare, 200))
        yield places


def _make_sql_place(store: Store, stack: ExitStack) -> Place:
    ours, theirs = store.place(), store.place()
    open_ledger(theirs.address, create=True).close()
    bare = stack.enter_context(theirs.bare())
    cursor = bare.cursor()
    cursor.execute("CREATE TABLE bare (word VARCHAR(200))")

    def commit(_: Sequence[bytes]) -> None:
        cursor.execute("BEGIN")
        cursor.execute(f"INSERT INTO bare VALUES ({store.mark})", ("x" * 200,))
        cursor.execute("COMMIT")

    return Place(store.name, ours.address, commit, 0)


_BODY = b"x" * 3000
"""About as many bytes as the document of a flow with a plan of three batches."""


def _files(folder: Path) -> Bare:
    folder.mkdir()

    def commit(documents: Sequence[bytes]) -> None:
        for document in documents:
            target = folder / uuid.uuid4().hex
            with target.with_suffix(".tmp").open("xb") as file:
                file.write(document)
                file.flush()
                os.fsync(file.fileno())
            target.with_suffix(".tmp").rename(target)
            handle = os.open(folder, os.O_RDONLY)
            os.fsync(handle)
            os.close(handle)

    return commit


def _commit_objects_to(s3: S3, bucket: str) -> Bare:
    from obstore.store import S3Store

    store = S3Store(
        bucket,
        endpoint=s3.endpoint,
        region=s3.region,
        access_key_id=s3.access_key,
        secret_access_key=s3.secret_key,
        virtual_hosted_style_request=False,
        client_options={"allow_http": True},
    )

    def commit(documents: Sequence[bytes]) -> None:
        for document in documents:
            store.put(f"bare/{uuid.uuid4().hex}", document, mode="create")

    return commit


def _commit_delta_to(location: str, options: dict[str, str]) -> Bare:
    import pyarrow as pa
    from deltalake import write_deltalake

    def commit(documents: Sequence[bytes]) -> None:
        flows = [uuid.uuid4().hex for _ in documents]
        rows = pa.table({"flow": flows, "body": [document.decode() for document in documents]})
        write_deltalake(location, rows, mode="append", storage_options=options or None)

    return commit
