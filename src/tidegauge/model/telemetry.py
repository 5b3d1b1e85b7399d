"""What is told of the flows beyond the ledger: alerts, numbers and lineage."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tidegauge.model.alert import AlertSettings
from tidegauge.model.secret import Secret


@dataclass(frozen=True)
class MetricsSettings:
    push: Secret | None = None
    """The address of a Pushgateway; may hold a login."""
    port: int = 9108
    """Of the endpoint that `tidegauge metrics --serve` opens."""


@dataclass(frozen=True)
class LineageSettings:
    url: Secret | None = None
    """Of a server that takes OpenLineage events; may hold a login."""
    file: Path | None = None
    """Or a file, one event a line."""
    api_key: Secret | None = None
    namespace: str | None = None
    """Of the jobs; None: the pipeline's name."""


@dataclass(frozen=True)
class Telemetry:
    """Each None where the file does not ask for it."""

    alerts: AlertSettings | None = None
    metrics: MetricsSettings | None = None
    lineage: LineageSettings | None = None
