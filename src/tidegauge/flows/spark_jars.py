"""Which of Spark's extra jars flows need."""

from __future__ import annotations

from collections.abc import Sequence

from tidegauge.model.spec import Lake, Project
from tidegauge.model.view_flow import GraphFlow, in_flows
from tidegauge.spark.jars import JarSet


def find_jars(flows: Sequence[GraphFlow]) -> set[JarSet]:
    """Which jars Spark needs for these flows, besides JDBC drivers."""
    delta = {JarSet.DELTA for flow in flows if flow.uses_delta}
    return delta | {JarSet.S3 for flow in flows if flow.on_s3}


def find_project_jars(project: Project) -> set[JarSet]:
    """Which jars Spark needs for any flow of the project, including the JDBC drivers."""
    ends = [end for sync in project.syncs for end in (sync.via, sync.to)]
    lakes = [end for end in ends if isinstance(end, Lake)]
    written = in_flows(project)
    needs = {JarSet.JDBC}
    if written or any(lake.delta for lake in lakes):
        needs.add(JarSet.DELTA)
    if any(lake.on_s3 for lake in lakes) or any(flow.on_s3 for flow in written):
        needs.add(JarSet.S3)
    return needs
