"""What tests name in strings is there: where a process is killed, as `module:attribute`, and what is patched.

The tests that do this are slow, so without this one a renamed function would be noticed late.
"""

from __future__ import annotations

import ast
import pkgutil
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = sorted(path for folder in ("bench", "simulation", "tests") for path in (ROOT / folder).rglob("*.py"))
KILL_POINT = re.compile(r"tidegauge(\.\w+)+:[A-Za-z_]\w*(\.\w+)*")
PATCHED = re.compile(r"tidegauge(\.\w+)+")


def find_names(text: str) -> Iterator[str]:
    """Yield what this source names in the words of `pkgutil.resolve_name`."""
    tree = ast.parse(text)
    texts, imported = _find_texts(tree), _find_imported(tree)
    for node in ast.walk(tree):
        match node:
            case ast.Constant() | ast.JoinedStr():
                pattern, name = KILL_POINT, _read(node, texts)
            case ast.Call(
                func=ast.Name("patch") | ast.Attribute(attr="setattr"), args=[ast.Constant(str(name)), *_]
            ):
                pattern = PATCHED
            case ast.Call(
                func=ast.Name("setattr") | ast.Attribute(attr="setattr" | "object"),
                args=[owner, ast.Constant(str(attribute)), *_],
            ):
                root, dot, path = ast.unparse(owner).partition(".")
                pattern, name = PATCHED, f"{imported.get(root, '')}{dot}{path}.{attribute}"
            case _:
                continue
        if pattern.fullmatch(name):
            yield name


def _find_texts(tree: ast.Module) -> dict[str, object]:
    """Return the module's constants."""
    return {
        ast.unparse(node.targets[0]): node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
    }


def _find_imported(tree: ast.Module) -> dict[str, str]:
    """Return where each imported name comes from."""
    return {"tidegauge": "tidegauge"} | {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def _read(node: ast.expr, texts: Mapping[str, object]) -> str:
    """Return the string with the module's constants filled in, and with `?` for what is not known."""
    match node:
        case ast.Constant(value):
            return str(value)
        case ast.JoinedStr(parts):
            return "".join(_read(part, texts) for part in parts)
        case ast.FormattedValue(what):
            return str(texts.get(ast.unparse(what), "?"))
    return "?"


def is_there(name: str) -> bool:
    try:
        pkgutil.resolve_name(name)
    except (ImportError, AttributeError):
        return False
    return True


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("die('tidegauge.run.run:run')", "tidegauge.run.run:run"),
        ("AT = 'tidegauge.run'\ndie({f'{AT}.run:run': 2})", "tidegauge.run.run:run"),
        ("patch.setattr('tidegauge.run.run.run', 1)", "tidegauge.run.run.run"),
        ("from tidegauge.run import run as real\npatch.setattr(real, 'run', 1)", "tidegauge.run.run.run"),
        ("import tidegauge.run\npatch.object(tidegauge.run.run, 'run')", "tidegauge.run.run.run"),
    ],
)
def test_a_name_is_found_however_it_is_written(text: str, name: str) -> None:
    assert list(find_names(text)) == [name]


@pytest.mark.parametrize("name", ["tidegauge.run.run:ran", "tidegauge.ran:run", "tidegauge.run.run.ran"])
def test_a_name_that_is_not_there_is_noticed(name: str) -> None:
    assert not is_there(name)


def test_what_tests_name_is_there() -> None:
    named = {
        name: path
        for path in FILES
        if path.name != Path(__file__).name
        for name in find_names(path.read_text())
    }
    gone = {name: str(path.relative_to(ROOT)) for name, path in named.items() if not is_there(name)}
    assert gone == {}
