"""A YAML file as plain text values, each with its place.

Only YAML's structure is taken over: every scalar stays the text the user wrote, so that `on`, `1:30`,
`2025-01-01` and `007` mean themselves and not what YAML 1.1 makes of them. A plain `null` or `~` is None.
Tags are refused, so no text can name a Python object (hazard E6), and what aliases expand to is bounded.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tidegauge.config.problems import KeyPath, quoted
from tidegauge.errors import ConfigError, Place

MAX_BYTES = 4 * 1024 * 1024
MAX_DEPTH = 24
MAX_NODES = 200_000

_NULLS = frozenset({"null", "Null", "NULL", "~"})
_MERGE = "<<"
# libyaml's parser where PyYAML was built with it: twenty times faster, and linear in the depth of brackets.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(slots=True, eq=False, repr=False)
class _Scalar:
    place: Place
    text: str
    plain: bool


@dataclass(slots=True, eq=False, repr=False)
class _List:
    place: Place
    items: list[_Node] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class _Map:
    place: Place
    pairs: list[tuple[_Scalar, _Node]] = field(default_factory=list)


_Node = _Scalar | _List | _Map


@dataclass(frozen=True)
class YamlDocument:
    """The whole file. Values are str, None, list and dict; every key of a dict is text."""

    file: Path
    root: dict[str, Any]
    values: dict[KeyPath, Place]
    keys: dict[KeyPath, Place]

    def place(self, trail: KeyPath) -> Place:
        """The place of the value; if it was left out, of the nearest value around it."""
        while trail not in self.values:
            trail = trail[:-1]
        return self.values[trail]

    def written(self, trail: KeyPath) -> Any:
        """The value as the file has it, before references are resolved; None if it was left out."""
        value: Any = self.root
        for step in trail:
            try:
                value = value[step]
            except (KeyError, IndexError, TypeError):
                return None
        return value

    def key_place(self, trail: KeyPath) -> Place:
        """The place of the value's key; for an item of a list, which has no key, the item's own place."""
        return self.keys.get(trail) or self.place(trail)


def read_document(file: Path) -> YamlDocument:
    """Read a YAML file. Raises ConfigError, with the place, unless it is one mapping of plain YAML."""
    file = file.absolute()
    text = _read(file)
    node = _Composer(show_path(file), text).compose()
    document = YamlDocument(file=file, root={}, values={}, keys={})
    document.root.update(_Expander(document).mapping(node, ()))
    return document


def _read(file: Path) -> str:
    try:
        with file.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ConfigError(
            f"the project file {file} cannot be read: {reason}", hint="check the path and its permissions"
        ) from error
    if len(data) > MAX_BYTES:
        raise ConfigError(f"the project file {file} is larger than {MAX_BYTES >> 20} MiB")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        line_start = before.rfind(b"\n") + 1
        column = len(before[line_start:].decode("utf-8", "replace")) + 1
        raise ConfigError(
            f"the file is not UTF-8: byte 0x{data[error.start]:02x}",
            hint="save it as UTF-8",
            place=Place(show_path(file), before.count(b"\n") + 1, column),
        ) from None


def show_path(file: Path) -> str:
    """The path as errors show it: relative to the working folder if it is below it."""
    try:
        relative = os.path.relpath(file)
    except (OSError, ValueError):
        return str(file)
    return str(file) if relative.startswith("..") else relative


class _Composer:
    """Makes nodes of the parser's events. The depth is checked at each node, before its children are read."""

    def __init__(self, shown: str, text: str) -> None:
        self._shown = shown
        self._text = text
        self._anchors: dict[str, _Node] = {}

    def compose(self) -> _Map:
        try:
            node = self._document(iter(yaml.parse(self._text, _LOADER)))
        except yaml.MarkedYAMLError as error:
            raise self._explain_syntax(error) from None
        except yaml.reader.ReaderError:
            raise self._explain_unreadable() from None
        if node is None or (isinstance(node, _Scalar) and node.plain and node.text in {"", *_NULLS}):
            place = Place(self._shown, 1, 1)
            raise ConfigError("the project file is empty", hint="`tidegauge init` writes one", place=place)
        if not isinstance(node, _Map):
            kind = "a list" if isinstance(node, _List) else "text"
            raise ConfigError(
                f"the file has {kind} at the top where its keys should be",
                hint="begin with `pipeline: NAME`",
                place=node.place,
            )
        return node

    def _document(self, events: Iterator[yaml.Event]) -> _Node | None:
        root: _Node | None = None
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                if root is not None:
                    raise self._error("a second document begins here", event, hint="one file, one project")
                root = self._node(next(events), events, 1)
        return root

    def _node(self, event: yaml.Event, events: Iterator[yaml.Event], depth: int) -> _Node:
        if depth > MAX_DEPTH:
            raise self._error(f"the file is nested more than {MAX_DEPTH} deep", event)
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in self._anchors:
                raise self._error(f"the alias {quoted(f'*{event.anchor}')} has no anchor above it", event)
            return self._anchors[event.anchor]
        assert isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent)
        if event.tag is not None:
            raise self._error(
                f"the tag {quoted(event.tag)} is not read here", event, hint="remove it: values need no tags"
            )
        place = self._place(event)
        node: _Node
        if isinstance(event, yaml.ScalarEvent):
            node = _Scalar(place, event.value, plain=not event.style)
        elif isinstance(event, yaml.SequenceStartEvent):
            node = _List(place)
            while not isinstance(item := next(events), yaml.SequenceEndEvent):
                node.items.append(self._node(item, events, depth + 1))
        else:
            node = self._map(place, events, depth)
        if event.anchor is not None:
            self._anchors[event.anchor] = node
        return node

    def _map(self, place: Place, events: Iterator[yaml.Event], depth: int) -> _Map:
        node = _Map(place)
        seen: dict[str, Place] = {}
        while not isinstance(event := next(events), yaml.MappingEndEvent):
            key = self._node(event, events, depth + 1)
            if not isinstance(key, _Scalar) or not key.text:
                raise self._error("a key must be text", event)
            if key.text in seen:
                raise self._error(
                    f"the key {quoted(key.text)} stands here twice, first in line {seen[key.text].line}",
                    event,
                    hint="keep one of them",
                )
            seen[key.text] = self._place(event)
            key = _Scalar(seen[key.text], key.text, key.plain)
            node.pairs.append((key, self._node(next(events), events, depth + 1)))
        return node

    def _place(self, event: yaml.Event) -> Place:
        mark = event.start_mark
        return Place(self._shown, mark.line + 1, mark.column + 1) if mark else Place(self._shown, 1, 1)

    def _error(self, message: str, event: yaml.Event, *, hint: str | None = None) -> ConfigError:
        return ConfigError(message, hint=hint, place=self._place(event))

    def _explain_syntax(self, error: yaml.MarkedYAMLError) -> ConfigError:
        mark = error.problem_mark or error.context_mark
        place = Place(self._shown, mark.line + 1, mark.column + 1) if mark else Place(self._shown, 1, 1)
        lines = self._text.split("\n")
        line = lines[place.line - 1] if place.line <= len(lines) else ""
        if line[place.column - 1 : place.column] == "\t" or line[: len(line) - len(line.lstrip())].count(
            "\t"
        ):
            return ConfigError(
                "a tab indents this line, which YAML does not allow", hint="indent with spaces", place=place
            )
        reason = f"{error.problem}, {error.context}" if error.context else str(error.problem)
        return ConfigError(
            f"this is not valid YAML: {reason}",
            hint="look at the quotes, colons and indentation here and in the line above",
            place=place,
        )

    def _explain_unreadable(self) -> ConfigError:
        at = next((i for i, letter in enumerate(self._text) if _is_unprintable(letter)), 0)
        line = self._text.count("\n", 0, at) + 1
        column = at - (self._text.rfind("\n", 0, at) + 1) + 1
        return ConfigError(
            f"the file holds the character U+{ord(self._text[at]):04X}, which YAML does not allow",
            hint="remove it",
            place=Place(self._shown, line, column),
        )


def _is_unprintable(letter: str) -> bool:
    code = ord(letter)
    return not (
        letter in "\t\n\r\x85" or 0x20 <= code <= 0x7E or (code >= 0xA0 and code not in (0xFFFE, 0xFFFF))
    )


class _Expander:
    """Makes plain values of nodes: expands aliases and merges, and notes the place of each trail."""

    def __init__(self, document: YamlDocument) -> None:
        self._document = document
        self._nodes = 0

    def mapping(self, node: _Map, trail: KeyPath) -> dict[str, Any]:
        self._count(node, trail)
        self._document.values[trail] = node.place
        merged: dict[str, Any] = {}
        own: dict[str, Any] = {}
        for key, value in node.pairs:
            if key.plain and key.text == _MERGE:
                self._merge(value, trail, merged, {other.text for other, _ in node.pairs})
                continue
            self._document.keys[(*trail, key.text)] = key.place
            if isinstance(value, _Scalar) and value.plain and not value.text:
                raise ConfigError(
                    f"the key {quoted(key.text)} has no value",
                    hint="give it one, or remove the line",
                    place=key.place,
                )
            own[key.text] = self._value(value, (*trail, key.text))
        return {**merged, **own}

    def _merge(
        self, node: _Node, trail: KeyPath, merged: dict[str, Any], taken: set[str], depth: int = 1
    ) -> None:
        if depth > MAX_DEPTH:
            raise ConfigError(f"`<<` is nested more than {MAX_DEPTH} deep", place=node.place)
        for part in node.items if isinstance(node, _List) else [node]:
            if not isinstance(part, _Map):
                raise ConfigError("`<<` takes a mapping, or a list of them", place=part.place)
            self._count(part, trail)
            for key, value in part.pairs:
                if key.plain and key.text == _MERGE:
                    self._merge(value, trail, merged, taken, depth + 1)
                elif key.text not in taken and key.text not in merged:
                    self._document.keys[(*trail, key.text)] = key.place
                    merged[key.text] = self._value(value, (*trail, key.text))

    def _value(self, node: _Node, trail: KeyPath) -> Any:
        if isinstance(node, _Map):
            return self.mapping(node, trail)
        self._count(node, trail)
        self._document.values[trail] = node.place
        if isinstance(node, _List):
            return [self._value(item, (*trail, index)) for index, item in enumerate(node.items)]
        return None if node.plain and node.text in {"", *_NULLS} else node.text

    def _count(self, node: _Node, trail: KeyPath) -> None:
        self._nodes += 1
        if self._nodes > MAX_NODES or len(trail) > MAX_DEPTH:
            raise ConfigError(
                f"the aliases of this file expand to more than {MAX_NODES:,} values, or {MAX_DEPTH} levels",
                hint="write the values out",
                place=node.place,
            )
