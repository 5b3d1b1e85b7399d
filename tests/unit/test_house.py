"""The size and the names of the source: what keeps it readable is held here.

`ARCHITECTURE.md` has the rooms, and `docs/adr/0008-rooms-that-follow-the-data.md` the reasons.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import TypeGuard

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "tidegauge"
FILES = sorted(SOURCE.rglob("*.py"))
ROOMS = sorted(path.parent for path in SOURCE.glob("*/__init__.py"))

MOST_LINES = 350
MOST_COMPLEXITY = 15
MOST_DUPLICATES = 0

KINDS = {
    *("TableFlow", "DeltaFlow", "ViewFlow", "OptimizeFlow", "TableFlowBase"),
    *("LakeTable", "WarehouseTable", "DeltaFolder", "WarehouseOutput", "DeltaOutput"),
}
IMPLEMENT_THE_KINDS = ("flows", "outputs")
MOST_QUESTIONS = 3
MOST_QUESTIONS_OF_CONFIG = 7
"""How often code outside these rooms may ask of which kind a flow or an output is, by `isinstance` or
`match`. `config`, which makes the kinds, is counted apart."""

_BRANCHES = (ast.Assert, ast.ExceptHandler, ast.If, ast.IfExp, ast.match_case)


@cache
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def named(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def complexity(function: ast.AST) -> int:
    """Paths through a function, counted as radon does; functions inside it count too."""
    return 1 + sum(_branches(child) for child in ast.iter_child_nodes(function))


def _branches(node: ast.AST) -> int:
    if isinstance(node, ast.ClassDef):
        return 0
    below = sum(_branches(child) for child in ast.iter_child_nodes(node))
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return 1 + below
        case ast.BoolOp():
            return below + len(node.values) - 1
        case ast.comprehension():
            return below + 1 + len(node.ifs)
        case ast.For() | ast.AsyncFor() | ast.While():
            return below + 1 + bool(node.orelse)
        case _:
            return below + isinstance(node, _BRANCHES)


def complex_functions() -> dict[str, int]:
    found: dict[str, int] = {}
    for path in FILES:
        for node in ast.walk(parse(path)):
            if isinstance(node, ast.Module | ast.ClassDef):
                for child in node.body:
                    if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                        where = f"{named(path)}:{child.name}"
                        found[where] = max(found.get(where, 0), complexity(child))
    return {where: count for where, count in found.items() if count > MOST_COMPLEXITY}


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("def f(a): return a", 1),
        ("def f(a):\n  if a and a or a: pass\n  elif a: pass", 5),
        ("def f(a): return [b for b in a if b if a] if a else 1", 5),
        ("def f(a):\n  for b in a: pass\n  else: pass", 3),
        ("def f(a):\n  try: pass\n  except A: pass\n  except B: pass", 3),
        ("def f(a):\n  def g():\n    if a: pass\n  while a: pass", 4),
        ("def f(a):\n  match a:\n    case 1: pass\n    case 2 if a and a: pass", 4),
        ("def f(a):\n  class C:\n    def g(self):\n      if a: pass", 1),
    ],
)
def test_complexity_is_counted_as_radon_does(text: str, count: int) -> None:
    assert complexity(ast.parse(text).body[0]) == count


def test_no_file_is_longer_than_a_person_reads_at_once() -> None:
    long = {named(path) for path in FILES if len(path.read_text().splitlines()) > MOST_LINES}
    assert long == set()


def test_no_function_has_more_paths_than_a_person_can_follow() -> None:
    assert complex_functions() == {}


def test_a_class_name_means_one_thing() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in FILES:
        for node in ast.walk(parse(path)):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(named(path))
    twice = {name: found for name, found in places.items() if len(found) > 1}
    assert len(twice) <= MOST_DUPLICATES, twice


def test_every_room_says_what_lives_there_and_what_it_may_use() -> None:
    silent = set()
    for room in ROOMS:
        said = ast.get_docstring(ast.parse((room / "__init__.py").read_text())) or ""
        if len([line for line in said.splitlines() if line.strip()]) < 2:
            silent.add(room.name)
    assert silent == set()


@pytest.mark.parametrize(
    ("text", "asks"),
    [
        ("isinstance(a, TableFlow)", True),
        ("isinstance(a, int | spec.TableFlow)", True),
        ("isinstance(a, (int, TableFlow))", True),
        ("isinstance(a, int)", False),
        ("match a:\n  case spec.TableFlow(): pass", True),
        ("match a:\n  case int() | TableFlow(): pass", True),
        ("match a:\n  case int(): pass", False),
    ],
)
def test_a_question_for_the_kind_is_noticed(text: str, asks: bool) -> None:
    assert any(map(_asks_for_kind, ast.walk(ast.parse(text)))) is asks


def test_only_those_who_make_the_kinds_tell_them_apart() -> None:
    asked: dict[str, list[str]] = {"config": [], "elsewhere": []}
    for path in FILES:
        room = path.relative_to(SOURCE).parts[0]
        if room not in IMPLEMENT_THE_KINDS:
            asked["config" if room == "config" else "elsewhere"] += [
                f"{named(path)}:{node.lineno}" for node in ast.walk(parse(path)) if _asks_for_kind(node)
            ]
    assert len(asked["config"]) <= MOST_QUESTIONS_OF_CONFIG, asked
    assert len(asked["elsewhere"]) <= MOST_QUESTIONS, asked


def _asks_for_kind(node: ast.AST) -> TypeGuard[ast.expr | ast.Match]:
    match node:
        case ast.Call(func=ast.Name("isinstance"), args=[_, wanted]):
            return any(_is_kind(part) for part in ast.walk(wanted))
        case ast.Match(cases=cases):
            patterns = [part for case in cases for part in ast.walk(case.pattern)]
            return any(isinstance(part, ast.MatchClass) and _is_kind(part.cls) for part in patterns)
    return False


def _is_kind(node: ast.AST) -> bool:
    match node:
        case ast.Name(name) | ast.Attribute(attr=name):
            return name in KINDS
    return False
