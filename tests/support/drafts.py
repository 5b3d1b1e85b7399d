"""Drafts, receipts and owners as a run would make them."""

from __future__ import annotations

from tidegauge.model.claim import Owner
from tidegauge.model.plan import Batch, Draft, InputPlan, Plan, Receipt
from tidegauge.model.position import RowPosition, Value, ValueKind, Window

ME = Owner("me@here", "here/boot/ns", 101, "5001")
OTHER = Owner("other@there", "there/boot/ns", 202, "5002")
THIRD = Owner("third@yonder", "yonder/boot/ns", 303, "5003")


def position(number: int) -> RowPosition:
    """Make the position of the number-th second of a day, with a key."""
    clock = f"{number // 3600:02d}:{number // 60 % 60:02d}:{number % 60:02d}"
    return RowPosition(
        Value(ValueKind.TIMESTAMP, f"2025-08-14 {clock}.123456"),
        (Value(ValueKind.INT, str(2**64 - 1 - number)),),
    )


def draft(
    flow: str = "orders",
    *,
    pipeline: str = "shop",
    batches: int = 3,
    start: int = 0,
    inputs: tuple[str, ...] = ("orders",),
    pending: str | None = None,
) -> Draft:
    """Make a draft with batches of one second each, from `start` (0: from the beginning)."""
    end = position(start + batches) if start + batches else None
    after = position(start) if start else None
    return Draft(
        pipeline=pipeline,
        flow=flow,
        inputs=tuple(
            InputPlan(name, "timestamp", Window(after, end) if end else None, f"db/{name}", "f00d", pending)
            for name in inputs
        ),
        batches=tuple(
            Batch(
                windows=tuple(
                    Window(position(number) if number else None, position(number + 1)) for _ in inputs
                ),
                split_points=(position(number),) if number % 2 else (),
                rows=10,
            )
            for number in range(start, start + batches)
        ),
        rows_waiting=2,
        notes=("no index on the cursor",),
    )


def nothing_new(flow: str = "orders", *, upto: int = 9, pending: str | None = None) -> Draft:
    part = InputPlan("orders", "timestamp", Window(None, position(upto)), "db/orders", "f00d", pending)
    return Draft("shop", flow, (part,), ())


def receipt(
    plan: Plan,
    index: int,
    *,
    rows: int = 10,
    changed: tuple[int | None, int | None, int | None] = (None, None, None),
    paths: tuple[str, ...] = (),
) -> Receipt:
    """Make a receipt; `changed` is rows inserted, updated and deleted."""
    windows = plan.draft.batches[index].windows
    return Receipt(plan.tag(index), windows, rows, 1, 1000, "run", *changed, paths)
