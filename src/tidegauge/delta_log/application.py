"""The application transactions of a flow: by them a Delta log itself says which batches are in the table.

Each epoch of a flow is one application, `tidegauge/<pipeline>/<flow>/<epoch>`, and a batch is its version.
"""

from __future__ import annotations

from tidegauge.model.plan import Tag

CLOSED = 2**63 - 1
"""The version of an epoch that has ended. Delta skips every later commit with that application's name."""


def application(tag: Tag) -> str:
    return f"{prefix_of(tag.pipeline, tag.flow)}{tag.epoch}"


def prefix_of(pipeline: str, flow: str) -> str:
    """The prefix that the application names of all epochs of a flow share, and no other flow's names have."""
    return f"tidegauge/{_encode(pipeline)}/{_encode(flow)}/"


def epoch_of(name: str) -> int:
    return int(name.rpartition("/")[2])


def _encode(name: str) -> str:
    """Escape only slashes and percent signs, so that a person can still read the name."""
    return name.replace("%", "%25").replace("/", "%2F")
