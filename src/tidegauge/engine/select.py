"""From patterns over a database's catalogue to flows, and from a selection to some of them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from fnmatch import fnmatchcase

from tidegauge.errors import ConfigError, TableMissing, TidegaugeError
from tidegauge.model.protocols import Source
from tidegauge.model.spec import Database, Engine, Flow, Project, Sync, TableName, TableOptions
from tidegauge.objects.folder import folder_name
from tidegauge.read.open import open_source


class Sources:
    """The open databases of one thread, each connected when it is first asked for."""

    def __init__(self) -> None:
        self._open: dict[str, Source] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Sources:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def of(self, database: Database) -> Source:
        if database.name not in self._open:
            source = open_source(database)
            self._stack.callback(source.close)
            self._open[database.name] = source
        return self._open[database.name]


@dataclass(frozen=True)
class Choice:
    flows: tuple[Flow, ...]
    faults: tuple[tuple[str, TidegaugeError], ...]
    """Syncs whose tables could not be found out, by a name to report them under."""


def choose(project: Project, selection: Sequence[str], sources: Sources) -> Choice:
    """The flows of the project that are selected; all of them without a selection.

    A database that cannot be reached is a fault of its own: the others' flows still run.
    """
    flows: dict[str, Flow] = {}
    folders: dict[tuple[str, str], Flow] = {}
    faults: list[tuple[str, TidegaugeError]] = []
    for sync in project.syncs:
        try:
            found = expand(project.pipeline, sync, sources.of(sync.source).tables())
        except ConfigError:
            raise
        except TidegaugeError as error:
            faults.append((f"{sync.source.name}: {', '.join(sync.tables)}", error))
            continue
        for flow in found:
            twin = flows.get(flow.name) or folders.get((flow.output.path, flow.folder))
            if twin is not None:
                raise ConfigError(
                    f"'{flow.name}' and '{twin.name}' would be one flow, or write to one folder",
                    hint="narrow `tables`, or tell them apart with `rename`",
                    place=sync.place,
                )
            flows[flow.name] = folders[flow.output.path, flow.folder] = flow
    chosen = [flow for flow in flows.values() if _selected(flow, selection)]
    if selection and not chosen and not faults:
        near = difflib.get_close_matches(selection[0], flows, n=3, cutoff=0.4)
        raise ConfigError(
            f"nothing is selected by {', '.join(selection)}",
            hint=f"did you mean {', '.join(near)}?"
            if near
            else f"there are: {', '.join(sorted(flows)[:10])}",
        )
    return Choice(tuple(sorted(chosen, key=lambda flow: flow.name)), tuple(faults))


def expand(pipeline: str, sync: Sync, catalogue: Sequence[TableName]) -> list[Flow]:
    """The flows of one sync, from what its database really has."""
    picked: dict[TableName, None] = {}
    for pattern in sync.tables:
        matches = [table for table in catalogue if _matches(table, pattern, sync.source)]
        if not matches:
            names = [str(table) for table in catalogue]
            near = difflib.get_close_matches(pattern, names, n=3, cutoff=0.5)
            raise TableMissing(
                f"connection '{sync.source.name}' has no table '{pattern}', or this login may not see it",
                hint=f"did you mean {', '.join(near)}?"
                if near
                else "look at `tables:` and at the login's rights",
                place=sync.place,
            )
        picked |= dict.fromkeys(matches)
    kept = [
        table
        for table in picked
        if not any(_matches(table, pattern, sync.source) for pattern in sync.exclude)
    ]
    return [_flow(pipeline, sync, table) for table in kept]


def _flow(pipeline: str, sync: Sync, table: TableName) -> Flow:
    options = _options(sync, table)
    name = str(table)
    if not options.cursor:
        raise ConfigError(
            f"{name}: no cursor is named for it",
            hint="name one on the sync or in its override; or exclude the table",
            place=sync.place,
        )
    if options.rename:
        landed = options.rename.replace("{table}", table.table).replace("{schema}", table.schema or "")
    else:
        landed = name
    return Flow(pipeline, name, sync.source, table, sync.output, folder_name(landed), options, sync.tags)


def _options(sync: Sync, table: TableName) -> TableOptions:
    if str(table) in sync.override:
        return sync.override[str(table)]
    for pattern, options in sync.override.items():
        if _matches(table, pattern, sync.source):
            return options
    return sync.options


def _matches(table: TableName, pattern: str, database: Database) -> bool:
    """By the full name; a pattern without a schema means the connection's own."""
    name = str(table)
    if name == pattern or fnmatchcase(name, pattern):
        return True
    return table.schema == home(database) and (table.table == pattern or fnmatchcase(table.table, pattern))


def home(database: Database) -> str | None:
    """The schema of a table that is named without one."""
    match database.engine:
        case Engine.SQLITE:
            return None
        case Engine.MYSQL:
            return database.database
        case Engine.POSTGRESQL:
            return database.schema or "public"


def _selected(flow: Flow, selection: Iterable[str]) -> bool:
    wanted = [word.strip("+") for word in selection]
    return not wanted or any(
        word.removeprefix("tag:") in flow.tags
        if word.startswith("tag:")
        else _matches(flow.table, word, flow.source)
        for word in wanted
    )
