"""`tidegauge.yml` → the project, as the frozen values of `tidegauge.model.spec`."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from tidegauge.config import values
from tidegauge.config.check import Check
from tidegauge.config.connections import Connections, make_connections
from tidegauge.config.declared import make_declared
from tidegauge.config.document import read_document
from tidegauge.config.flows import Around, make_flows
from tidegauge.config.health import make_health
from tidegauge.config.ledger import DEFAULT, check_address
from tidegauge.config.lineage import connect
from tidegauge.config.models import ProjectKeys, SparkKeys
from tidegauge.config.problems import Complaint
from tidegauge.config.secrets import interpolate
from tidegauge.config.syncs import make_syncs
from tidegauge.config.workflow import make_workflow
from tidegauge.model.spec import Lake, Project, SparkSettings
from tidegauge.model.view_flow import ViewFlow, WrittenInFlows


def load_project(file: Path) -> Project:
    """Read and check the whole file. Raises ConfigError that lists what is wrong, each with its place.

    Nothing is connected to; the only files read are the project's own, those its references name and the SQL
    of its flows, and the only code run is that of the modules it names.
    """
    document = read_document(file)
    check = Check(document)
    tree = interpolate(document, check.problems)
    keys = check.keys(ProjectKeys, tree, ())
    # What lies below is looked at even when a key at the top is wrong: all mistakes in one go.
    connections = make_connections(check, tree.get("connections"))
    syncs = make_syncs(check, tree.get("sync"), connections)
    spark = check.keys(SparkKeys, tree["spark"], ("spark",)) if isinstance(tree.get("spark"), dict) else None
    ledger = check.attempt(
        lambda: check_address(
            tree.get("ledger") or DEFAULT,
            written=document.root.get("ledger") or DEFAULT,
            base=document.file.parent,
        ),
        ("ledger",),
    )
    written = _written_in_flows(check, tree, keys, connections)
    connected = connect(written, check.problems, spark.conf if spark else {})
    workflow = make_workflow(check, tree.get("workflow"))
    health = make_health(check, tree.get("health"))
    check.finish()
    assert keys is not None
    assert ledger is not None
    return Project(
        pipeline=keys.pipeline,
        file=document.file,
        ledger=ledger,
        lease=keys.lease,
        spark=SparkSettings(master=spark.master or None, conf=spark.conf) if spark else SparkSettings(),
        connections={name: found for name, found in connections.items() if found is not None},
        syncs=tuple(syncs),
        delta_flows=tuple(flow for flow in connected if not isinstance(flow, ViewFlow)),
        views=tuple(flow for flow in connected if isinstance(flow, ViewFlow)),
        workflow=workflow,
        health=health,
    )


def _written_in_flows(
    check: Check, tree: dict[str, Any], keys: ProjectKeys | None, connections: Connections
) -> list[WrittenInFlows]:
    pipeline = keys.pipeline if keys is not None else ""
    lakes = [item for item in connections.values() if isinstance(item, Lake) and item.delta]
    written = make_flows(check, tree.get("flows"), Around(pipeline, lakes))
    modules: tuple[str, ...] = ()
    with suppress(Complaint):  # noted with the other keys
        modules = values.texts(tree.get("modules") or [])
    return [*written, *make_declared(check, modules, pipeline=pipeline, lakes=lakes)]
