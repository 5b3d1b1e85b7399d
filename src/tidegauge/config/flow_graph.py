"""Finds which flow reads whose output, and refuses flows that would disturb each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter

from tidegauge.config.problems import Problem, quoted
from tidegauge.errors import Place
from tidegauge.model.catalogue_name import find_parts
from tidegauge.model.delta_flow import DeltaInput, TableRef
from tidegauge.model.location import identify
from tidegauge.model.view_flow import ViewFlow, WrittenInFlows

DEFAULT_CATALOGUE = "spark.sql.defaultCatalog"
WAREHOUSE = "spark.sql.warehouse.dir"
_OF_SESSION = "spark_catalog"


def find_upstreams(
    flows: Sequence[WrittenInFlows], problems: list[Problem], conf: Mapping[str, str]
) -> tuple[WrittenInFlows, ...]:
    """The same flows, each with the names of the flows that it reads from.

    Adds a problem for two flows that write one table, for tables inside others, and for circles.
    """
    homes = _Homes(conf)
    writers: dict[tuple[str, ...], WrittenInFlows] = {}
    for flow in flows:
        found = [writers.setdefault(one, flow) for one in homes.identities(flow.output.table)]
        first = next((writer for writer in found if writer is not flow), None)
        if first is not None:
            problems.append(
                Problem(
                    f"the flows {quoted(first.name)} and {quoted(flow.name)} write one table,"
                    f" {flow.output.table}; the first one at {_place(first.output.place)}",
                    _place(flow.output.place),
                    "a table is written by one flow: give one of them another output",
                )
            )
    made: list[WrittenInFlows] = []
    for flow in flows:
        upstreams: dict[str, DeltaInput] = {}
        for part in flow.inputs:
            found = [writers[one] for one in homes.identities(part.table) if one in writers]
            writer = next(iter(found), None)
            if writer is flow:
                problems.append(
                    Problem(
                        f"the flow {quoted(flow.name)} reads its own output {part.table}",
                        _place(part.place),
                        "read the table that it is made from, or write another one",
                    )
                )
            elif isinstance(writer, ViewFlow) and not isinstance(flow, ViewFlow):
                problems.append(
                    Problem(
                        f"the flow {quoted(flow.name)} reads {part.table}, which is the view"
                        f" {quoted(writer.name)} at {_place(writer.place)} and has no changes to follow",
                        _place(part.place),
                        "read the tables that the view is made of, or read it in another view",
                    )
                )
            elif writer is not None:
                upstreams.setdefault(writer.name, part)
        made.append(replace(flow, upstreams=tuple(upstreams)))
    _refuse_circles(made, problems)
    _refuse_nesting(made, homes, problems)
    return tuple(made)


def _refuse_circles(flows: Sequence[WrittenInFlows], problems: list[Problem]) -> None:
    places = {flow.name: _place(flow.place) for flow in flows}
    try:
        TopologicalSorter({flow.name: flow.upstreams for flow in flows}).prepare()
    except CycleError as error:
        names: list[str] = error.args[1]
        # Begin with the flow that is first in the file, so that the message is the same each time.
        start = min(range(len(names) - 1), key=lambda at: list(places).index(names[at]))
        circle = [*names[start:-1], *names[: start + 1]]
        others = ", ".join(f"{quoted(name)} at {places[name]}" for name in circle[1:-1])
        problems.append(
            Problem(
                f"flows wait for each other in a circle: {' → '.join(circle)}; {others}",
                places[circle[0]],
                "each reads what the one before it writes; let one of them read another table",
            )
        )


def _refuse_nesting(flows: Sequence[WrittenInFlows], homes: _Homes, problems: list[Problem]) -> None:
    """Note a problem for a table inside another table's folder: VACUUM of the outer one would delete it."""
    tables = [(flow.output.table, flow.output.place) for flow in flows]
    outputs = {homes.folder(table) for table, _ in tables}
    tables += [(part.table, part.place) for flow in flows for part in flow.inputs]
    folders = {homes.folder(table) for table, _ in tables}
    for table, place in tables:
        outer = inner = homes.folder(table)
        while outer and "/" in outer:
            outer, _, below = outer.rpartition("/")
            if below.startswith("_"):
                break  # Delta's own files are in such folders, and VACUUM leaves them alone.
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
    """Finds where tables are; resolves the links of each path only once."""

    def __init__(self, conf: Mapping[str, str]) -> None:
        self._schema = (conf.get(DEFAULT_CATALOGUE, _OF_SESSION), "default")
        self._warehouse = conf.get(WAREHOUSE, "").removeprefix("file:").rstrip("/")
        self._real: dict[str, str] = {}

    def identities(self, table: TableRef) -> list[tuple[str, ...]]:
        """The table's identities. Two names of one table share one, as far as can be told without Spark."""
        folder = self.folder(table)
        if folder is not None:
            return [("path", folder)]
        parts = find_parts(table.name or "", plain=True) or ()
        full = [part.casefold() for part in (*self._schema[: max(0, 3 - len(parts))], *parts)]
        found: list[tuple[str, ...]] = [("name", *full)]
        if self._warehouse and len(full) == 3 and full[0] == _OF_SESSION:
            # The folder where Spark puts a table that is created without a path.
            below = "" if full[1] == "default" else f"{full[1]}.db/"
            found.append(("path", self._resolve(f"{self._warehouse}/{below}{full[2]}")))
        return found

    def folder(self, table: TableRef) -> str | None:
        """The table's folder with links resolved; None for a table given by its name."""
        return None if table.path is None else self._resolve(table.path)

    def _resolve(self, path: str) -> str:
        if path not in self._real:
            self._real[path] = identify(path)
        return self._real[path]


def _place(place: Place | None) -> Place:
    assert place is not None
    return place
