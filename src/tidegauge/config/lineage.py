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
    flows: Sequence[DeltaFlow], problems: list[Problem], conf: Mapping[str, str]
) -> tuple[DeltaFlow, ...]:
    """The same flows, each with the names of those that it reads from."""
    homes = _Homes(conf)
    writers: dict[tuple[str, ...], DeltaFlow] = {}
    for flow in flows:
        first = writers.setdefault(homes.identity(flow.output.table), flow)
        if first is not flow:
            problems.append(
                Problem(
                    f"the flows {quoted(first.name)} and {quoted(flow.name)} write one table,"
                    f" {flow.output.table}",
                    _place(flow.output.place),
                    "a table is written by one flow: give one of them another output",
                )
            )
    made = []
    for flow in flows:
        upstreams: dict[str, DeltaInput] = {}
        for part in flow.inputs:
            writer = writers.get(homes.identity(part.table))
            if writer is flow:
                problems.append(
                    Problem(
                        f"the flow {quoted(flow.name)} reads its own output {part.table}",
                        _place(part.place),
                        "read the table that it is made from, or write another one",
                    )
                )
            elif writer is not None:
                upstreams.setdefault(writer.name, part)
        made.append(replace(flow, upstreams=tuple(upstreams)))
    _refuse_circles(made, problems)
    _refuse_nesting(made, homes, problems)
    return tuple(made)


def _refuse_circles(flows: Sequence[DeltaFlow], problems: list[Problem]) -> None:
    places = {flow.name: _place(flow.place) for flow in flows}
    try:
        TopologicalSorter({flow.name: flow.upstreams for flow in flows}).prepare()
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


def _refuse_nesting(flows: Sequence[DeltaFlow], homes: _Homes, problems: list[Problem]) -> None:
    """A table in the folder of another one: VACUUM there takes its files for rubbish."""
    tables = [(flow.output.table, flow.output.place) for flow in flows]
    outputs = {homes.folder(table) for table, _ in tables}
    tables += [(part.table, part.place) for flow in flows for part in flow.inputs]
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
