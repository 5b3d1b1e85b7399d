"""Reads `tidegauge.yml` into a project: the frozen values of `tidegauge.model.spec`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tidegauge.config import values
from tidegauge.config.check import Problems
from tidegauge.config.connections import Connections, make_connections
from tidegauge.config.declared import make_declared
from tidegauge.config.document import read_document
from tidegauge.config.flow_graph import find_upstreams
from tidegauge.config.flows import ProjectContext, make_flows
from tidegauge.config.health import make_health
from tidegauge.config.ledger import DEFAULT, check_address
from tidegauge.config.optimize_flows import find_tables
from tidegauge.config.problems import InvalidValue
from tidegauge.config.project_keys import ProjectKeys
from tidegauge.config.spark import make_spark
from tidegauge.config.syncs import make_syncs
from tidegauge.config.telemetry import make_telemetry
from tidegauge.config.workflow import make_workflow
from tidegauge.model.delta_flow import DeltaFlow
from tidegauge.model.optimize_flow import OptimizeFlow
from tidegauge.model.schedule import FlowSchedule
from tidegauge.model.spec import Lake, Project, Sync
from tidegauge.model.view_flow import ViewFlow, WrittenInFlows


def load_project(file: Path) -> Project:
    """Read and check the whole file. Raises ConfigError that lists what is wrong, each with its place.

    Nothing is connected to; the only files read are the project's own, those its references name and the SQL
    of its flows, and the only code run is that of the modules it names.
    """
    document = read_document(file)
    check = Problems(document)
    tree = check.resolve_references()
    keys = check.keys(ProjectKeys, tree, ())
    # The rest is checked even when a key at the top is wrong, to report all mistakes at once.
    connections = make_connections(check, tree.get("connections"))
    syncs = make_syncs(check, tree.get("sync"), connections, _schedule_of(keys))
    spark = make_spark(check, tree)
    ledger = check.attempt(
        lambda: check_address(
            tree.get("ledger") or DEFAULT,
            written=document.root.get("ledger") or DEFAULT,
            base=document.file.parent,
        ),
        ("ledger",),
    )
    written = _make_written_flows(check, tree, keys, connections)
    delta_flows, views, optimizes = _connect_flows(check, written, syncs, spark.conf)
    workflow = make_workflow(check, tree.get("workflow"))
    health = make_health(check, tree.get("health"))
    telemetry = make_telemetry(check, tree)
    check.finish()
    assert keys is not None
    assert ledger is not None
    return Project(
        pipeline=keys.pipeline,
        file=document.file,
        ledger=ledger,
        lease=keys.lease,
        spark=spark,
        connections={name: found for name, found in connections.items() if found is not None},
        syncs=tuple(syncs),
        delta_flows=delta_flows,
        views=views,
        optimizes=optimizes,
        workflow=workflow,
        health=health,
        schedule=keys.schedule,
        telemetry=telemetry,
    )


def _schedule_of(keys: ProjectKeys | None) -> FlowSchedule | None:
    return keys.schedule if keys is not None else None


def _make_written_flows(
    check: Problems, tree: dict[str, Any], keys: ProjectKeys | None, connections: Connections
) -> list[WrittenInFlows | OptimizeFlow]:
    pipeline = keys.pipeline if keys is not None else ""
    lakes = [item for item in connections.values() if isinstance(item, Lake) and item.delta]
    around = ProjectContext(pipeline, lakes, schedule=_schedule_of(keys))
    written = make_flows(check, tree.get("flows"), around)
    modules: tuple[str, ...] = ()
    with suppress(InvalidValue):  # `check.keys` has noted it already
        modules = values.texts(tree.get("modules") or [])
    return [*written, *make_declared(check, modules, around)]


def _connect_flows(
    check: Problems,
    written: Sequence[WrittenInFlows | OptimizeFlow],
    syncs: Sequence[Sync],
    conf: Mapping[str, str],
) -> tuple[tuple[DeltaFlow, ...], tuple[ViewFlow, ...], tuple[OptimizeFlow, ...]]:
    """The flows by kind: tables, views and optimize flows, each with the flows that it comes after."""
    optimizes = tuple(flow for flow in written if isinstance(flow, OptimizeFlow))
    others = find_upstreams(
        [flow for flow in written if not isinstance(flow, OptimizeFlow)], check.problems, conf
    )
    if not check.problems:  # else `select` may name a flow that has problems and was not made
        optimizes = find_tables(optimizes, others, syncs, check.problems)
    views = tuple(flow for flow in others if isinstance(flow, ViewFlow))
    return tuple(flow for flow in others if not isinstance(flow, ViewFlow)), views, optimizes
