"""`tidegauge.yml` → the project, as the frozen values of `tidegauge.model.spec`."""

from __future__ import annotations

from pathlib import Path

from tidegauge.config.check import Check
from tidegauge.config.connections import make_connections
from tidegauge.config.document import read_document
from tidegauge.config.ledger import DEFAULT, check_address
from tidegauge.config.models import ProjectKeys, SparkKeys
from tidegauge.config.secrets import interpolate
from tidegauge.config.syncs import make_syncs
from tidegauge.model.spec import Project, SparkSettings


def load_project(file: Path) -> Project:
    """Read and check the whole file. Raises ConfigError that lists what is wrong, each with its place.

    Nothing is connected to; the only files read are the project's own and those its references name.
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
    )
