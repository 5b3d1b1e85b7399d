"""What a Delta table demands of its readers and writers: protocol, table features and properties."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tidegauge.delta_log.commit import Action, schema_digest
from tidegauge.errors import SourceError
from tidegauge.model.lazy import lazy
from tidegauge.model.versions import is_on

_NEWEST_READER = 3
_THROUGH_CATALOGUE = {"catalogManaged", "catalogOwned", "coordinatedCommits"}
_READABLE = {
    "appendOnly",
    "changeDataFeed",
    "checkConstraints",
    "checkpointProtection",
    "clustering",
    "columnMapping",
    "deletionVectors",
    "domainMetadata",
    "generatedColumns",
    "identityColumns",
    "inCommitTimestamp",
    "invariants",
    "rowTracking",
    "timestampNtz",
    "typeWidening",
    "v2Checkpoint",
    "vacuumProtocolCheck",
    "variantShredding",
    "variantType",
}
"""The reader features that Delta on Spark knows. A name with the suffix `-preview` is the same feature."""


@dataclass(frozen=True)
class TableState:
    """A table's protocol and metadata, valid from one version until a later commit changes them."""

    protocol: Action
    metadata: Action

    @property
    def table_id(self) -> str:
        return str(self.metadata["id"])

    @property
    def schema(self) -> str:
        return str(self.metadata["schemaString"])

    @property
    def properties(self) -> Mapping[str, str]:
        return dict(self.metadata.get("configuration") or {})

    @property
    def features(self) -> frozenset[str]:
        return frozenset(
            [*(self.protocol.get("readerFeatures") or ()), *(self.protocol.get("writerFeatures") or ())]
        )

    @lazy
    def digest(self) -> str:
        return schema_digest(self.schema)

    def is_on(self, name: str) -> bool:
        """Whether a property is `true`."""
        return is_on(self.properties, name)

    def after(self, facts: Mapping[str, Action]) -> TableState:
        """The state after a commit that sets these facts (`Commit.facts`)."""
        if not facts:
            return self
        return TableState(facts.get("protocol", self.protocol), facts.get("metaData", self.metadata))


def catalogue_feature(features: Iterable[str]) -> str | None:
    """The table feature, if any, by which a catalogue takes the commits: then it may know of commits that the
    log does not have yet, and a file that is put into the log is no commit. A name with the suffix `-preview`
    is the same feature."""
    return next(
        (name for name in sorted(features) if name.removesuffix("-preview") in _THROUGH_CATALOGUE), None
    )


def refuse_catalogue(location: str, features: Iterable[str], *, hint: str) -> None:
    """Raises SourceError where commits go through a catalogue, so that the log may not have them all."""
    if feature := catalogue_feature(features):
        raise SourceError(
            f"the Delta table at {location} is committed through a catalogue ({feature}), so its log does not"
            " tell the newest version",
            hint=hint,
        )


def refuse_newer_protocol(location: str, state: TableState, *, hint: str) -> None:
    reader = state.protocol["minReaderVersion"]
    if reader > _NEWEST_READER:
        raise SourceError(
            f"the Delta table at {location} has reader protocol {reader}, and {_NEWEST_READER} is the newest"
            " that is known",
            hint=hint,
        )


def refuse_unreadable(location: str, state: TableState) -> None:
    """Raises SourceError where the table's rows, or its newest version, cannot be read here."""
    refuse_newer_protocol(location, state, hint="update tidegauge")
    refuse_catalogue(location, state.features, hint="read it by a copy, or drop the feature from the table")
    for name in state.protocol.get("readerFeatures") or ():
        if name.removesuffix("-preview") not in _READABLE:
            raise SourceError(
                f"the Delta table at {location} has the feature {name}, which cannot be read here",
                hint=f"drop it with ALTER TABLE … DROP FEATURE {name}, or update tidegauge",
            )
