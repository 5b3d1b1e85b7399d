"""Overrides, and what undoes them, as plain JSON values, and back."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from tidegauge.model.override import Identity, Override, Undo
from tidegauge.model.position import Position, from_body, to_body


def override_to_body(override: Override) -> dict[str, Any]:
    return {
        "kind": override.kind,
        "positions": _bodies(override.positions),
        "epoch": override.epoch,
        "continues": override.continues,
        "reason": override.reason,
        "actor": override.actor,
        "at": override.at.isoformat(),
        "identities": {name: list(identity) for name, identity in override.identities.items()},
    }


def undo_to_body(undo: Undo) -> dict[str, Any]:
    return {
        "kind": undo.kind,
        "positions": _bodies(undo.positions),
        "continues": undo.continues,
        "at": undo.at.isoformat(),
        "identities": {name: list(identity) for name, identity in undo.identities.items()},
    }


def override_from_body(body: Mapping[str, Any]) -> Override:
    continues = body["continues"]
    return Override(
        kind=body["kind"],
        positions=_positions(body["positions"]),
        epoch=body["epoch"],
        continues=None if continues is None else (continues[0], continues[1]),
        reason=body["reason"],
        actor=body["actor"],
        at=datetime.fromisoformat(body["at"]),
        identities=_identities(body["identities"]),
    )


def undo_from_body(body: Mapping[str, Any]) -> Undo:
    epoch, seq = body["continues"]
    return Undo(
        kind=body["kind"],
        positions=_positions(body["positions"]),
        continues=(epoch, seq),
        at=datetime.fromisoformat(body["at"]),
        identities=_identities(body["identities"]),
    )


def _bodies(positions: Mapping[str, Position | None]) -> dict[str, Any]:
    return {name: to_body(position) for name, position in positions.items()}


def _positions(bodies: Mapping[str, Any]) -> dict[str, Position | None]:
    return {name: from_body(body) for name, body in bodies.items()}


def _identities(bodies: Mapping[str, Any]) -> dict[str, Identity]:
    return {name: (source_id, fingerprint) for name, (source_id, fingerprint) in bodies.items()}
