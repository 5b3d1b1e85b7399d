"""Every mistake in a flow of the project file: the line, the column, the cause and what to do.

`▲` in a text marks where the error must point, and is taken out before the file is written.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.test_config_flows import flow, load
from tidegauge.errors import ConfigError, Place

OUT = "output: {table: u, key: k}"
IN = "inputs: {a: t}"
SCD2 = IN + ", output: {table: u, mode: scd2, "


def refused(folder: Path, marked: str) -> ConfigError:
    before = marked[: marked.index("▲")]
    with pytest.raises(ConfigError) as caught:
        load(folder, marked.replace("▲", "", 1))
    error = caught.value
    place = Place(str(folder / "tidegauge.yml"), before.count("\n") + 1, len(before) - before.rfind("\n"))
    assert error.place == place, str(error)
    return error


def optimize(select: str) -> str:
    return (
        f"pipeline: x\nflows:\n  f: {{{IN}, {OUT}}}\n"
        "  g: {inputs: {a: t}, output: {table: g, key: k}, tags: gold}\n"
        "  v: {kind: view, inputs: {a: t}, transform: v.sql, output: {table: v}}\n"
        f"  o: {{kind: optimize, tags: night, select: {select}}}\n"
        "  p: {kind: optimize, tags: night, select: g}\n"
    )


CASES = {
    "flows text": ("pipeline: x\nflows: ▲silver\n", "`flows` must be a mapping", None),
    "flow text": ("pipeline: x\nflows: {a: ▲b}\n", "`a` must be a mapping with `inputs`", None),
    "flow name": (f"pipeline: x\nflows: {{▲a/b: {{{IN}, {OUT}}}}}\n", "`a/b` cannot be the name", "letters"),
    "flow key": (flow(f"{IN}, {OUT}, ▲trasform: x.sql"), "unknown key `trasform`", "`transform`"),
    "expect": (flow(f"{IN}, {OUT}, expect: {{a: ▲notnull}}"), "`notnull` is no check", "`not_null`"),
    "no inputs": (flow(OUT).replace("f:", "▲f:"), "`inputs` is missing", None),
    "inputs null": (flow(f"inputs: ▲null, {OUT}"), "`inputs` needs a value", None),
    "inputs empty": (flow(f"inputs: ▲{{}}, {OUT}"), "`inputs` must not be empty", "at least one"),
    "inputs list": (flow(f"inputs: ▲[a], {OUT}"), "`inputs` must be a mapping", None),
    "input null": (flow(f"inputs: {{a: ▲null}}, {OUT}"), "`a` must be a table's name", None),
    "input key": (flow(f"inputs: {{a: {{table: t, ▲curser: version}}}}, {OUT}"), "`curser`", "`cursor`"),
    "input name": (flow(f"inputs: {{▲a-b: t}}, {OUT}"), "`a-b` cannot be the name of an input", "letters"),
    "input digit": (flow(f"inputs: {{▲1a: t}}, {OUT}"), "`1a` cannot be the name", "letters"),
    "input ours": (flow(f"inputs: {{▲__Tidegauge_x: t}}, {OUT}"), "cannot be the name", "are taken"),
    "input case": (
        flow(f"inputs: {{a: t, ▲A: u}}, transform: m:f, {OUT}"),
        "`a` and `A` are one name to Spark",
        "case",
    ),
    "two places": (
        flow(f"inputs: {{a: {{table: t, ▲path: p}}}}, {OUT}"),
        "`table` and `path` both name the input",
        "keep one",
    ),
    "no place": (flow(f"inputs: {{▲a: {{cursor: version}}}}, {OUT}"), "the input names no table", "`path`"),
    "a lookback over versions": (
        flow(f"inputs: {{a: {{table: t, ▲lookback: 2h}}}}, {OUT}"),
        "`lookback` belongs to an input with a column as its cursor",
        "`cursor`",
    ),
    "versions of a column": (
        flow(f"inputs: {{a: {{table: t, cursor: at, ▲max_versions: 3}}}}, {OUT}"),
        "`max_versions` belongs to versions",
        "remove it",
    ),
    "the format of a name": (
        flow(f"inputs: {{a: {{table: t, cursor: at, ▲format: parquet}}}}, {OUT}"),
        "`format` says what is at a `path`",
        "remove it",
    ),
    "a lookback over the whole": (
        flow(f"inputs: {{a: {{table: t, cursor: none, ▲lookback: 2h}}}}, {OUT}"),
        "`lookback` means nothing where the whole table is compared",
        "remove it",
    ),
    "a column beside versions": (
        flow(f"inputs: {{a: {{table: t, cursor: at}}, ▲b: {{table: v}}}}, transform: 'm:f', {OUT}"),
        "`b` is followed beside `a`, which has no versions",
        "snapshots",
    ),
    "an append without a key": (
        flow("inputs: {▲a: {table: t, cursor: at}}, output: {table: u, mode: append}"),
        "`a` needs a `key`",
        "name the columns",
    ),
    "a history by a column": (
        flow("inputs: {a: {table: t, cursor: at}}, output: {table: u, ▲mode: scd2, key: k, sequence_by: s}"),
        "mode `scd2` does not go with `a`, which has a column as its cursor",
        "`append` or `merge`",
    ),
    "an append of the whole": (
        flow("inputs: {a: {table: t, cursor: none}}, output: {table: u, ▲mode: append}"),
        "mode `append` does not go with `a`, which is read whole each time",
        "`merge`",
    ),
    "keys of a column": (
        flow(f"inputs: {{a: {{table: t, cursor: at}}}}, {OUT}, ▲evaluate: keys"),
        "evaluate `keys` needs versions",
        "remove it",
    ),
    "feed": (flow(f"inputs: {{a: {{table: t, feed: ▲net}}}}, {OUT}"), "`net`", "`raw`"),
    "initial": (flow(f"inputs: {{a: {{table: t, initial: ▲soon}}}}, {OUT}"), "`soon` is not a", "earliest"),
    "initial below 0": (flow(f"inputs: {{a: {{table: t, initial: ▲-1}}}}, {OUT}"), "`-1`", "a version"),
    "on_missing": (flow(f"inputs: {{a: {{table: t, on_missing: ▲dif}}}}, {OUT}"), "`dif`", "`diff`"),
    "max_versions": (flow(f"inputs: {{a: {{table: t, max_versions: ▲0}}}}, {OUT}"), "1 or more", None),
    "max_bytes": (
        flow(f"inputs: {{a: {{table: t, max_bytes: ▲big}}}}, {OUT}"),
        "`big` is not a size",
        "64MB",
    ),
    "max_bytes 0": (flow(f"inputs: {{a: {{table: t, max_bytes: ▲0MB}}}}, {OUT}"), "at least one byte", None),
    "table a path": (flow(f"inputs: {{a: ▲lake/a}}, {OUT}"), "`lake/a` is a path", "`path`"),
    "table on s3": (flow(f"inputs: {{a: {{table: ▲s3a://b/c}}}}, {OUT}"), "is a path", "`path`"),
    "delta.path": (flow(f"inputs: {{a: ▲'delta.`/lake/a`'}}, {OUT}"), "is a path", "`path`"),
    "table odd": (flow(f"inputs: {{a: ▲my-db.t}}, {OUT}"), "`my-db.t` is not a table's name", "backticks"),
    "table dots": (flow(f"inputs: {{a: ▲db..t}}, {OUT}"), "`db..t` is not a table's name", None),
    "path s3": (flow(f"inputs: {{a: {{path: ▲s3://b/p}}}}, {OUT}"), "begin with `s3a://`", None),
    "all snapshots": (
        flow(f"▲inputs: {{a: {{table: t, snapshot: true}}}}, {OUT}"),
        "no input of the flow is followed",
        "no snapshot",
    ),
    "no transform": (
        flow(f"inputs: {{a: t, b: s}}, {OUT}").replace("f:", "▲f:"),
        "needs a `transform`",
        None,
    ),
    "no sql": (
        flow(f"{IN}, transform: ▲nope.sql, {OUT}"),
        "nope.sql cannot be read: No such file",
        "relative",
    ),
    "sql a folder": (flow(f"{IN}, transform: ▲folder.sql, {OUT}"), "cannot be read: Is a directory", None),
    "sql latin": (flow(f"{IN}, transform: ▲latin.sql, {OUT}"), "not UTF-8: byte 0xfc in line 2", "UTF-8"),
    "sql empty": (flow(f"{IN}, transform: ▲empty.sql, {OUT}"), "is empty", "SELECT"),
    "sql on s3": (flow(f"{IN}, transform: ▲s3a://b/a.sql, {OUT}"), "`s3a:` are not supported", "local"),
    "sql inline": (
        flow(f"{IN}, transform: ▲'select * from a', {OUT}"),
        "neither a `.sql` file",
        "of its own",
    ),
    "function file": (flow(f"{IN}, transform: ▲'p/a.py:f', {OUT}"), "neither a `.sql` file", "`p.a:f`"),
    "function form": (flow(f"{IN}, transform: ▲'a:', {OUT}"), "nor a function", "MODULE:FUNCTION"),
    "no output": (flow(IN).replace("f:", "▲f:"), "`output` is missing", None),
    "output text": (flow(f"{IN}, output: ▲silver.a"), "`output` must be a mapping", None),
    "output nowhere": (flow(f"{IN}, ▲output: {{key: k}}"), "the output names no table", "`table`"),
    "output twice": (flow(f"{IN}, output: {{table: u, ▲path: p, key: k}}"), "both name the output", None),
    "mode": (flow(f"{IN}, output: {{table: u, mode: ▲upsert}}"), "`upsert`", "`merge`"),
    "merge key": (flow(f"{IN}, ▲output: {{table: u}}"), "mode `merge` needs a `key`", "columns"),
    "scd2 key": (
        flow(f"{IN}, output: {{table: u, ▲mode: scd2, sequence_by: s}}"),
        "`scd2` needs a `key`",
        None,
    ),
    "scd2 sequence": (flow(f"{IN}, output: {{table: u, ▲mode: scd2, key: k}}"), "needs `sequence_by`", None),
    "partitions": (
        flow(f"{IN}, output: {{table: u, ▲mode: replace_partitions}}"),
        "needs `partition_by`",
        None,
    ),
    "append key": (
        flow(f"{IN}, output: {{table: u, mode: append, ▲key: k}}"),
        "no meaning in mode",
        "`merge`",
    ),
    "append sequence": (
        flow(f"{IN}, output: {{table: u, mode: append, ▲sequence_by: k}}"),
        "mode `append` goes by none",
        None,
    ),
    "on_delete": (
        flow(f"{IN}, output: {{table: u, key: k, ▲on_delete: fail}}"),
        "belongs to mode `append`",
        None,
    ),
    "track": (flow(f"{IN}, output: {{table: u, key: k, ▲track: a}}"), "belongs to mode `scd2`", "remove"),
    "surrogate": (flow(f"{IN}, output: {{table: u, key: k, ▲surrogate_key: a}}"), "mode `scd2`", "remove"),
    "key twice": (flow(f"{IN}, output: {{table: u, key: [a, ▲A]}}"), "`A` stands in the list twice", None),
    "key empty": (flow(f"{IN}, output: {{table: u, key: ▲[]}}"), "empty list", None),
    "sequence in key": (
        flow(f"{IN}, output: {{table: u, key: a, ▲sequence_by: A}}"),
        "is part of `key`",
        None,
    ),
    "scd2's own": (
        flow(SCD2 + "key: k, ▲sequence_by: Valid_From}"),
        "`valid_from` is added by mode",
        "another",
    ),
    "surrogate in key": (
        flow(SCD2 + "key: k, sequence_by: s, ▲surrogate_key: K}"),
        "stands in `key` too",
        None,
    ),
    "evaluate": (flow(f"{IN}, evaluate: ▲row, {OUT}"), "`row`", "`rows`"),
    "rows of several": (
        flow(f"inputs: {{a: t, b: s}}, transform: m:f, ▲evaluate: rows, {OUT}"),
        "evaluate `rows` follows one input, and here are several: `a`, `b`",
        "`keys`",
    ),
    "append of several": (
        flow("inputs: {a: t, b: s}, transform: m:f, output: {table: u, ▲mode: append}"),
        "mode `append` follows one input",
        "`merge`",
    ),
    "append whole": (
        flow(f"{IN}, ▲evaluate: whole, output: {{table: u, mode: append}}"),
        "add them again",
        None,
    ),
    "raw keys": (
        flow(f"inputs: {{a: {{table: t, feed: raw}}}}, ▲evaluate: keys, {OUT}"),
        "feed `raw` gives changes only",
        None,
    ),
    "one table": (
        f"pipeline: x\nflows:\n  a: {{{IN}, {OUT}}}\n  b: {{{IN}, ▲output: {{table: default.U, key: k}}}}\n",
        "the flows `a` and `b` write one table, default.U",
        "another output",
    ),
    "a name and its path": (
        "pipeline: x\nspark: {conf: {spark.sql.warehouse.dir: /w}}\nflows:\n"
        f"  a: {{{IN}, output: {{path: /w/s.db/u, key: k}}}}\n"
        f"  b: {{{IN}, ▲output: {{table: S.u, key: k}}}}\n",
        "the flows `a` and `b` write one table, S.u; the first one at ",
        None,
    ),
    "one path": (
        "pipeline: x\nflows:\n"
        f"  a: {{{IN}, output: {{path: p, key: k}}}}\n  b: {{{IN}, ▲output: {{path: ./q/../p/, key: k}}}}\n",
        "the flows `a` and `b` write one table",
        None,
    ),
    "a table in a table": (
        "pipeline: x\nflows:\n"
        f"  a: {{{IN}, output: {{path: p, key: k}}}}\n  b: {{{IN}, ▲output: {{path: p/q/r, key: k}}}}\n",
        "p/q/r lies inside the table",
        "a folder of its own",
    ),
    "a table in an input": (
        flow("inputs: {a: {path: s3a://bucket/a}}, ▲output: {path: s3a://bucket/a/b, key: k}"),
        "s3a://bucket/a/b lies inside the table s3a://bucket/a",
        None,
    ),
    "an input in a table": (
        flow("inputs: {▲a: {path: s3a://bucket/a/b}}, output: {path: s3a://bucket/a, key: k}"),
        "s3a://bucket/a/b lies inside the table s3a://bucket/a",
        None,
    ),
    "its own output": (
        flow(f"inputs: {{a: t, ▲b: {{table: u, snapshot: true}}}}, transform: m:f, {OUT}"),
        "the flow `f` reads its own output u",
        "another",
    ),
    "a circle": (
        "pipeline: x\nflows:\n"
        "  z: {inputs: {a: t}, output: {table: u, key: k}}\n"
        "  ▲c: {inputs: {a: t2}, output: {table: t3, key: k}}\n"
        "  b: {inputs: {a: t1}, output: {table: t2, key: k}}\n"
        "  a: {inputs: {a: t3}, output: {table: t1, key: k}}\n",
        "flows wait for each other in a circle: c → a → b → c",
        "another table",
    ),
    "kind": (flow(f"kind: ▲veiw, {IN}, {OUT}"), "`veiw`", "`view`"),
    "kind that has other keys": (flow("kind: ▲optimise, select: a"), "`optimise`", "`optimize`"),
    "optimize of nothing": (
        optimize('▲"tag:glod"'),
        "means no flow that writes a Delta table: `tag:glod`",
        "`tag:gold`",
    ),
    "optimize of one of two": (
        optimize("▲[f, nix]"),
        "means no flow that writes a Delta table: `nix`",
        "or their tags",
    ),
    "optimize of a tag of no sync": (
        "pipeline: x\nconnections:\n  a: {type: sqlite, path: a.db}\n  b: {type: delta, path: lake}\n"
        "sync:\n  - {from: a, to: b, tables: ['*'], cursor: at, tags: bronze}\n"
        "flows:\n  o: {kind: optimize, select: ▲[tag:bronze, tag:bronce, orders]}\n",
        "means no flow that writes a Delta table: `tag:bronce`",
        None,
    ),
    "optimize of no word": (optimize("▲[]"), "must not be an empty list", None),
    "optimize of itself": (optimize("▲o"), "`select` of `o` means itself: `o`", None),
    "optimize of a view": (optimize("▲v"), "means no table: `v` is v", "or their tags"),
    "optimize of what optimizes": (optimize("▲tag:night"), "means no table: `tag:night` is o, p", None),
    "optimize in vain": (
        "pipeline: x\nflows:\n  ▲o: {kind: optimize}\n",
        "`o` has nothing to optimize: no flow here writes a Delta table",
        "remove this one",
    ),
    "optimized twice": (
        optimize("f").replace(
            "p: {kind: optimize, tags: night, select: g}", "p: {kind: optimize, select: ▲'*'}"
        ),
        "the flows `o` and `p` both optimize the table of `f`; the first one at ",
        "narrow `select`",
    ),
    "optimize with inputs": (flow(f"kind: optimize, ▲{IN}"), "unknown key `inputs`", None),
    "view without SQL": (
        flow("kind: view, inputs: {a: t}, output: {table: v}").replace("f:", "▲f:"),
        "`transform`",
        None,
    ),
    "view of a function": (
        flow("kind: view, inputs: {a: t}, transform: ▲m:f, output: {table: v}"),
        "a view is made of SQL",
        "`.sql` file",
    ),
    "view by path": (
        flow("kind: view, inputs: {a: t}, transform: v.sql, output: {table: v, ▲path: p}"),
        "unknown key `path`",
        None,
    ),
    "view with a mode": (
        flow("kind: view, inputs: {a: t}, transform: v.sql, output: {table: v, ▲mode: append}"),
        "unknown key `mode`",
        None,
    ),
    "view of changes": (
        flow("kind: view, inputs: {a: {table: t, ▲snapshot: true}}, transform: v.sql, output: {table: v}"),
        "unknown key `snapshot`",
        None,
    ),
    "view evaluated": (
        flow("kind: view, inputs: {a: t}, transform: v.sql, ▲evaluate: whole, output: {table: v}"),
        "unknown key `evaluate`",
        None,
    ),
    "a flow over a view": (
        "pipeline: x\nflows:\n"
        "  v: {kind: view, inputs: {a: t}, transform: v.sql, output: {table: s.v}}\n"
        f"  f: {{inputs: {{▲a: S.V}}, {OUT}}}\n",
        "the flow `f` reads S.V, which is the view `v` at ",
        "made of",
    ),
    "a view and a flow": (
        f"pipeline: x\nflows:\n  f: {{{IN}, {OUT}}}\n"
        "  v: {kind: view, inputs: {a: t}, transform: v.sql, ▲output: {table: default.u}}\n",
        "the flows `f` and `v` write one table",
        None,
    ),
    "views in a circle": (
        "pipeline: x\nflows:\n"
        "  ▲v: {kind: view, inputs: {a: w}, transform: v.sql, output: {table: v}}\n"
        "  w: {kind: view, inputs: {a: v}, transform: v.sql, output: {table: w}}\n",
        "in a circle: v → w → v",
        None,
    ),
    "module": ("pipeline: x\nmodules: ▲nope_nope\n", "there is no module `nope_nope`", "pipelines.silver"),
    "module file": ("pipeline: x\nmodules: [▲nope.py]\n", "nope.py", "relative to the project file"),
    "module form": ("pipeline: x\nmodules: [▲a-b]\n", "neither a module nor a `.py` file", "pipelines/"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_mistake_in_a_flow_is_named_with_its_place(tmp_path: Path, case: str) -> None:
    (tmp_path / "folder.sql").mkdir()
    (tmp_path / "empty.sql").write_text(" \n")
    (tmp_path / "v.sql").write_text("SELECT * FROM a")
    (tmp_path / "latin.sql").write_bytes("SELECT *\nFROM a -- für\n".encode("latin-1"))
    marked, message, hint = CASES[case]
    error = refused(tmp_path, marked)
    assert message in error.message
    assert "\n" not in error.message
    if hint is not None:
        assert hint in (error.hint or "")


@pytest.mark.parametrize(
    "key",
    ["cursor: version", "feed: raw", "initial: 3", "on_missing: fail", "max_versions: 3", "max_bytes: 3"],
)
def test_what_belongs_to_changes_has_no_place_on_a_snapshot(tmp_path: Path, key: str) -> None:
    error = refused(
        tmp_path,
        flow(f"inputs: {{b: s, a: {{table: t, snapshot: true, ▲{key}}}}}, transform: m:f, {OUT}"),
    )
    assert "this one is a snapshot" in error.message
    assert "remove it" in (error.hint or "")


@pytest.mark.parametrize(
    ("case", "other"),
    [("one table", "; the first one at {file}:3:"), ("a circle", "; `a` at {file}:6:3, `b` at {file}:5:3")],
)
def test_a_mistake_of_several_flows_names_the_places_of_all(tmp_path: Path, case: str, other: str) -> None:
    error = refused(tmp_path, CASES[case][0])
    assert other.format(file=tmp_path / "tidegauge.yml") in error.message


def test_several_mistakes_in_flows_come_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, flow("inputs: {a: {table: t, feed: x}}, output: {table: u, mode: scd2}, evaluate: y"))
    assert len(caught.value.message.split("\n")) == 4
