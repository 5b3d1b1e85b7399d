"""Prometheus metrics: their names, and how they are rendered, pushed and served."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import unquote, urlsplit, urlunsplit

from tidegauge.errors import ConfigError, RuntimeMissing, TidegaugeError
from tidegauge.model.secret import Secret, mask

PUSH_TIMEOUT = 10.0
JOB = "tidegauge"


@dataclass(frozen=True)
class Metric:
    name: str
    """The metric's name; for a counter without `_total`, which the text format adds."""
    kind: str
    """`counter` or `gauge`."""
    labels: tuple[str, ...]
    help: str

    @property
    def shown(self) -> str:
        return f"{self.name}_total" if self.kind == "counter" else self.name


_FLOW = ("pipeline", "flow")
METRICS = {
    metric.name: metric
    for metric in (
        Metric("tidegauge_up", "gauge", ("pipeline",), "1 if the ledger could be read, else 0."),
        Metric("tidegauge_runs", "counter", (*_FLOW, "state"), "Attempts at a flow, by how they ended."),
        Metric("tidegauge_failures", "counter", _FLOW, "Attempts at a flow that failed."),
        Metric(
            "tidegauge_rows",
            "counter",
            (*_FLOW, "kind"),
            "Rows by what became of them: read, written, inserted, updated, deleted.",
        ),
        Metric("tidegauge_quarantined_rows", "counter", _FLOW, "Rows that expectations have set aside."),
        Metric("tidegauge_batches", "counter", _FLOW, "Batches that were committed."),
        Metric(
            "tidegauge_run_seconds", "counter", _FLOW, "Seconds that its runs took, since its last reset."
        ),
        Metric("tidegauge_last_run_seconds", "gauge", _FLOW, "Seconds that its last run took."),
        Metric(
            "tidegauge_last_run_rows",
            "gauge",
            (*_FLOW, "kind"),
            "Rows of its last run, by what became of them; none where that is not known.",
        ),
        Metric("tidegauge_last_run_failed", "gauge", _FLOW, "1 if its last run failed, else 0."),
        Metric(
            "tidegauge_last_run_timestamp_seconds",
            "gauge",
            _FLOW,
            "When its last run ended, in seconds since 1970.",
        ),
        Metric(
            "tidegauge_state", "gauge", (*_FLOW, "state"), "1 for the state that the flow is in; no other."
        ),
        Metric(
            "tidegauge_lag_seconds",
            "gauge",
            _FLOW,
            "How far behind the clock everything is delivered; of flows by timestamps.",
        ),
        Metric(
            "tidegauge_watermark_age_seconds",
            "gauge",
            (*_FLOW, "input"),
            "How old the last thing delivered is, where its position has a time.",
        ),
        Metric("tidegauge_plan_age_seconds", "gauge", _FLOW, "How old the plan is that is not done yet."),
        Metric(
            "tidegauge_open_incidents",
            "gauge",
            (*_FLOW, "kind"),
            "1 for each incident that is open; see alerts.",
        ),
        Metric(
            "tidegauge_ledger_events",
            "counter",
            ("pipeline", "event"),
            "Events of the history, by their word.",
        ),
    )
}
"""All metrics, by name. docs/metrics.md has the same list, and a test compares the two."""


@dataclass(frozen=True)
class Sample:
    metric: str
    labels: Mapping[str, str]
    value: float


Collect = Callable[[], Iterable[Sample]]


def prometheus_library() -> Any:
    """Import the module `prometheus_client`. Raises RuntimeMissing if it is not installed."""
    try:
        import prometheus_client
        import prometheus_client.core
        import prometheus_client.exposition
    except ImportError as error:
        raise RuntimeMissing(
            "metrics are written by the library prometheus-client, which is not installed",
            hint="run: pip install 'tidegauge[metrics]'",
        ) from error
    return prometheus_client


def make_registry(collect: Collect) -> Any:
    """Make a registry that calls `collect` each time it is read."""
    library = prometheus_library()
    registry = library.CollectorRegistry(auto_describe=False)
    registry.register(_Collector(library, collect))
    return registry


class _Collector:
    def __init__(self, library: Any, collect: Collect) -> None:
        self._core = library.core
        self._collect = collect

    def describe(self) -> list[Any]:
        return []  # called at registration, where an empty answer is allowed

    def collect(self) -> list[Any]:
        families: dict[str, Any] = {}
        for sample in self._collect():
            metric = METRICS[sample.metric]
            family = families.get(metric.name)
            if family is None:
                core = self._core
                make = core.CounterMetricFamily if metric.kind == "counter" else core.GaugeMetricFamily
                family = families[metric.name] = make(metric.name, metric.help, labels=metric.labels)
            family.add_metric([mask(sample.labels[name]) for name in metric.labels], sample.value)
        return list(families.values())


def render_metrics(samples: Sequence[Sample]) -> str:
    """Return the samples in Prometheus' text format."""
    text: bytes = prometheus_library().generate_latest(make_registry(lambda: samples))
    return text.decode()


def push_metrics(url: Secret, pipeline: str, samples: Sequence[Sample]) -> None:
    """Replace this pipeline's numbers in a Pushgateway. Raises TidegaugeError with the cause."""
    library = prometheus_library()
    parts = urlsplit(url.reveal())
    login, _, host = parts.netloc.rpartition("@")
    address = urlunsplit((parts.scheme, host, parts.path, parts.query, ""))

    def handler(url: str, method: str, timeout: float | None, headers: Any, data: bytes) -> Any:
        exposition, request = library.exposition, (url, method, timeout, headers, data)
        if not login:
            return exposition.default_handler(*request)
        user, _, password = login.partition(":")
        return exposition.basic_auth_handler(*request, unquote(user), unquote(password))

    try:
        library.push_to_gateway(
            address,
            job=JOB,
            registry=make_registry(lambda: samples),
            grouping_key={"pipeline": pipeline},
            timeout=PUSH_TIMEOUT,
            handler=handler,
        )
    except HTTPError as error:
        raise TidegaugeError(f"the Pushgateway answered {error.code} {error.reason}") from None
    except (URLError, OSError, ValueError) as error:
        why = error.reason if isinstance(error, URLError) else error
        raise TidegaugeError(
            f"the Pushgateway at {parts.hostname} does not answer: {mask(str(why))}"
        ) from None


def serve_metrics(collect: Collect, port: int) -> Callable[[], None]:
    """Serve on 127.0.0.1; return a function that stops it. Raises ConfigError if the port is taken."""
    registry = make_registry(collect)
    try:
        server, thread = prometheus_library().start_http_server(port, addr="127.0.0.1", registry=registry)
    except OSError as error:
        raise ConfigError(
            f"port {port} of 127.0.0.1 cannot be opened: {error.strerror}", hint="choose another with --port"
        ) from error

    def stop() -> None:
        server.shutdown()
        thread.join()
        server.server_close()

    return stop
