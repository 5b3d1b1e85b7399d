"""Connect to a database for its catalogue, its safe bounds and its keys."""

from __future__ import annotations

from tidegauge.model.protocols.source import Source
from tidegauge.model.spec import Database
from tidegauge.sources.dialect import Dialect
from tidegauge.sources.engines import find_engine
from tidegauge.sources.source import DatabaseSource


def open_source(database: Database) -> Source:
    """Connect now. Raises SourceUnreachable, which says whether trying again may help."""
    return DatabaseSource(open_dialect(database))


def open_dialect(database: Database) -> Dialect:
    """Open a separate session, for callers that need one beside that of the source."""
    return find_engine(database).open_dialect(database)
