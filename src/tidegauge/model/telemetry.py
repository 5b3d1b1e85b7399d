"""Settings of what is reported outside the ledger: alerts, metrics and lineage."""

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
    """Port of the endpoint that `tidegauge metrics --serve` opens."""


@dataclass(frozen=True)
class LineageSettings:
    url: Secret | None = None
    """Address of a server that accepts OpenLineage events; may contain a login."""
    file: Path | None = None
    """A file to write instead, one event per line."""
    api_key: Secret | None = None
    namespace: str | None = None
    """The jobs' namespace; None: the pipeline's name."""


@dataclass(frozen=True)
class Telemetry:
    """Each setting is None if the project file does not have it."""

    alerts: AlertSettings | None = None
    metrics: MetricsSettings | None = None
    lineage: LineageSettings | None = None
