"""Builds OpenLineage events from the library's own classes and sends them to a server or a file."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tidegauge.errors import RuntimeMissing, TidegaugeError
from tidegauge.model.lineage import Dataset, FlowLineage
from tidegauge.model.secret import mask
from tidegauge.model.telemetry import LineageSettings
from tidegauge.observe.lineage import LineageEvent, Send, to_uuid

# Importing `tidegauge` itself for its version would import everything.
_VERSION = version("tidegauge")
PRODUCER = f"urn:tidegauge:{_VERSION}"
TIMEOUT = 5.0


def make_sender(settings: LineageSettings, pipeline: str) -> Send:
    """Make a function that sends events where the settings say. Raises RuntimeMissing without the library."""
    namespace = settings.namespace or pipeline
    emit = _make_file_sender(settings.file) if settings.file else _make_server_sender(settings)

    def send(occurrence: LineageEvent) -> None:
        emit(make_event(occurrence, namespace))

    return send


def make_event(occurrence: LineageEvent, namespace: str) -> Any:
    """Make the event as an object of the library, which validates it."""
    client, facets = _import_library()
    trace, lineage = occurrence.trace, occurrence.lineage
    run = client.Run(runId=trace.run_id, facets=_run_facets(facets, occurrence, namespace))
    job_facets = {
        "jobType": facets.job_type_job.JobTypeJobFacet(
            processingType="BATCH", integration="TIDEGAUGE", jobType="FLOW", producer=PRODUCER
        )
    }
    if lineage is not None and lineage.sql is not None:
        job_facets["sql"] = facets.sql_job.SQLJobFacet(
            query=mask(lineage.sql), dialect="spark", producer=PRODUCER
        )
    return client.RunEvent(
        eventTime=occurrence.at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        eventType=client.RunState(occurrence.kind),
        run=run,
        job=client.Job(namespace=namespace, name=trace.flow, facets=job_facets),
        inputs=_make_inputs(client, facets, occurrence) if lineage else [],
        outputs=[_make_output(client, facets, occurrence, lineage)] if lineage else [],
        producer=PRODUCER,
    )


def _run_facets(facets: Any, occurrence: LineageEvent, namespace: str) -> dict[str, Any]:
    trace = occurrence.trace
    parent = facets.parent_run
    found = {
        "parent": parent.ParentRunFacet(
            run=parent.Run(runId=to_uuid(occurrence.parent)),
            job=parent.Job(namespace=namespace, name=occurrence.pipeline),
            producer=PRODUCER,
        ),
        "processing_engine": facets.processing_engine_run.ProcessingEngineRunFacet(
            version=_VERSION, name="tidegauge", producer=PRODUCER
        ),
    }
    if trace.draft is not None:
        windows = trace.draft.windows_to_json()
        found["tidegauge_windows"] = _make_own_facet(
            facets, windows=windows, batches=len(trace.draft.batches)
        )
    if trace.counts:
        counts = {name: count for name, count in trace.counts.items() if count is not None}
        found["tidegauge_rows"] = _make_own_facet(facets, **counts, batches=trace.batches)
    if trace.error is not None:
        found["errorMessage"] = facets.error_message_run.ErrorMessageRunFacet(
            message=mask(trace.error), programmingLanguage="PYTHON", producer=PRODUCER
        )
    return found


def _make_own_facet(facets: Any, **values: Any) -> Any:
    """Make a facet of Tidegauge's own: a run facet with extra properties, which the schema allows."""
    return facets.RunFacet(producer=PRODUCER).with_additional_properties(**values)


def _make_inputs(client: Any, facets: Any, occurrence: LineageEvent) -> list[Any]:
    lineage, counts = occurrence.lineage, occurrence.trace.counts
    assert lineage is not None
    # Rows are counted for the whole batch, so with several inputs there is no count for each.
    only = len(lineage.inputs) == 1 and counts.get("read") is not None
    statistics = facets.input_statistics_input_dataset.InputStatisticsInputDatasetFacet
    return [
        client.InputDataset(
            namespace=one.namespace,
            name=one.name,
            facets=_make_schema(facets, one),
            inputFacets={"inputStatistics": statistics(rowCount=counts["read"], producer=PRODUCER)}
            if only
            else {},
        )
        for one in lineage.inputs
    ]


def _make_output(client: Any, facets: Any, occurrence: LineageEvent, lineage: FlowLineage) -> Any:
    found = _make_schema(facets, lineage.output)
    columns = _column_lineage(facets, lineage)
    if columns is not None:
        found["columnLineage"] = columns
    statistics = facets.output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
        rowCount=occurrence.trace.rows, producer=PRODUCER
    )
    return client.OutputDataset(
        namespace=lineage.output.namespace,
        name=lineage.output.name,
        facets=found,
        outputFacets={"outputStatistics": statistics} if occurrence.kind != "START" else {},
    )


def _make_schema(facets: Any, dataset: Dataset) -> dict[str, Any]:
    if not dataset.columns:
        return {}
    module = facets.schema_dataset
    fields = [module.SchemaDatasetFacetFields(name=name, type=kind) for name, kind in dataset.columns]
    return {"schema": module.SchemaDatasetFacet(fields=fields, producer=PRODUCER)}


def _column_lineage(facets: Any, lineage: FlowLineage) -> Any:
    module, inputs = facets.column_lineage_dataset, {one.input: one for one in lineage.inputs}

    def field(origins: Sequence[tuple[str, str]]) -> Any:
        return module.Fields(
            inputFields=[
                module.InputField(namespace=inputs[name].namespace, name=inputs[name].name, field=column)
                for name, column in origins
            ]
        )

    fields = {column: field(origins) for column, origins in lineage.columns.items()}
    return module.ColumnLineageDatasetFacet(fields=fields, producer=PRODUCER) if fields else None


def _make_file_sender(file: Path) -> Any:
    lock = threading.Lock()

    def emit(event: Any) -> None:
        from openlineage.client.serde import Serde

        line = mask(Serde.to_json(event)) + "\n"
        with lock, file.open("a", encoding="utf-8") as stream:
            stream.write(line)

    _import_library()
    return emit


def _make_server_sender(settings: LineageSettings) -> Any:
    _import_library()
    from openlineage.client.transport.http import (
        ApiKeyTokenProvider,
        HttpConfig,
        HttpTransport,
        TokenProvider,
    )

    assert settings.url is not None
    key = settings.api_key
    token = ApiKeyTokenProvider({"apiKey": key.reveal()}) if key is not None else TokenProvider({})
    url = settings.url.reveal().rstrip("/") + "/"
    host = urlsplit(url).hostname
    config = HttpConfig(url=url, timeout=TIMEOUT, retry={"total": 0}, auth=token)
    transport = HttpTransport(config)

    def emit(event: Any) -> None:
        import requests

        try:
            transport.emit(event)
        except requests.HTTPError as error:
            status = error.response.status_code if error.response is not None else "an error"
            raise TidegaugeError(f"the lineage server at {host} answered {status}") from None
        except requests.RequestException as error:
            # The error's text contains the address, which is secret.
            raise TidegaugeError(
                f"the lineage server at {host} does not answer ({type(error).__name__})"
            ) from None

    return emit


def _import_library() -> tuple[Any, Any]:
    """Import the library's modules for events and for facets. Raises RuntimeMissing if not installed."""
    try:
        from openlineage.client import event_v2, facet_v2
    except ImportError as error:
        raise RuntimeMissing(
            "lineage is sent by the library openlineage-python, which is not installed",
            hint="run: pip install 'tidegauge[lineage]'",
        ) from error
    return event_v2, facet_v2
