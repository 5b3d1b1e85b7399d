"""Who reads whose output, and that no two flows are in each other's way."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter

from tidegauge.config.flow_values import name_parts
from tidegauge.config.problems import Problem, quoted
from tidegauge.errors import Place
from tidegauge.model.delta_flow import DeltaFlow, DeltaInput, TableRef

DEFAULT_CATALOGUE = "spark.sql.defaultCatalog"


def connect(
    layers: Sequence[DeltaFlow], problems: list[Problem], conf: Mapping[str, str]
) -> tuple[DeltaFlow, ...]:
    """The same flows, each with the names of those that it reads from."""
    homes = _Homes(conf)
    writers: dict[tuple[str, ...], DeltaFlow] = {}
    for layer in layers:
        first = writers.setdefault(homes.identity(layer.output.table), layer)
        if first is not layer:
            problems.append(
                Problem(
                    f"the flows {quoted(first.name)} and {quoted(layer.name)} write one table,"
                    f" {layer.output.table}",
                    _place(layer.output.place),
                    "a table is written by one flow: give one of them another output",
                )
            )
    made = []
    for layer in layers:
        upstreams: dict[str, DeltaInput] = {}
        for part in layer.inputs:
            writer = writers.get(homes.identity(part.table))
            if writer is layer:
                problems.append(
                    Problem(
                        f"the flow {quoted(layer.name)} reads its own output {part.table}",
                        _place(part.place),
                        "read the table that it is made from, or write another one",
                    )
                )
            elif writer is not None:
                upstreams.setdefault(writer.name, part)
        made.append(replace(layer, upstreams=tuple(upstreams)))
    _refuse_circles(made, problems)
    _refuse_nesting(made, homes, problems)
    return tuple(made)


def _refuse_circles(layers: Sequence[DeltaFlow], problems: list[Problem]) -> None:
    places = {layer.name: _place(layer.place) for layer in layers}
    try:
        TopologicalSorter({layer.name: layer.upstreams for layer in layers}).prepare()
    except CycleError as error:
        names: list[str] = error.args[1]
        # Begun with the one that stands first in the file, so that the sentence is the same each time.
        start = min(range(len(names) - 1), key=lambda at: list(places).index(names[at]))
        circle = [*names[start:-1], *names[: start + 1]]
        problems.append(
            Problem(
                f"flows wait for each other in a circle: {' → '.join(circle)}",
                places[circle[0]],
                "each reads what the one before it writes; let one of them read another table",
            )
        )


def _refuse_nesting(layers: Sequence[DeltaFlow], homes: _Homes, problems: list[Problem]) -> None:
    """A table in the folder of another one: VACUUM there takes its files for rubbish."""
    tables = [(layer.output.table, layer.output.place) for layer in layers]
    outputs = {homes.folder(table) for table, _ in tables}
    tables += [(part.table, part.place) for layer in layers for part in layer.inputs]
    folders = {homes.folder(table) for table, _ in tables}
    for table, place in tables:
        outer = inner = homes.folder(table)
        while outer and "/" in outer:
            outer, _, below = outer.rpartition("/")
            if below.startswith("_"):
                break  # Delta keeps things of its own there, and VACUUM leaves them alone.
            if outer in folders and {inner, outer} & outputs:
                problems.append(
                    Problem(
                        f"{table} lies inside the table {outer}, whose clean-up would delete it",
                        _place(place),
                        "give each table a folder of its own",
                    )
                )
                break


class _Homes:
    """Where tables are, each path looked at once."""

    def __init__(self, conf: Mapping[str, str]) -> None:
        self._schema = (conf.get(DEFAULT_CATALOGUE, "spark_catalog"), "default")
        self._real: dict[str, str] = {}

    def identity(self, table: TableRef) -> tuple[str, ...]:
        """Equal for two ways of naming one table, as far as that can be seen without the catalogue."""
        folder = self.folder(table)
        if folder is not None:
            return ("path", folder)
        parts = name_parts(table.name or "") or ()
        return ("name", *(part.casefold() for part in (*self._schema[: max(0, 3 - len(parts))], *parts)))

    def folder(self, table: TableRef) -> str | None:
        """Without links; None for a table that is named."""
        if table.path is None or table.on_s3:
            return table.path
        if table.path not in self._real:
            self._real[table.path] = _real(table.path)
        return self._real[table.path]


def _real(path: str) -> str:
    try:
        return os.path.realpath(path)
    except ValueError:  # a character that no file system has
        return path


def _place(place: Place | None) -> Place:
    assert place is not None
    return place
