"""Flows in Python: the same frozen values as in YAML, the same checks, places in the user's own files."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

import tidegauge as tg
from tidegauge import user_modules
from tidegauge.config.load import load_project
from tidegauge.declare import declared_in
from tidegauge.errors import ConfigError, Place
from tidegauge.model.delta_flow import DeltaFlow, Function
from tidegauge.model.spec import Project
from tidegauge.user_modules import ModuleMissing, import_by_name, list_own_modules

YAML = """\
pipeline: lakehouse
connections: {gold: {type: delta, path: s3a://bucket/gold, region: eu-1}}
flows:
  silver:
    inputs:
      clusters: {table: bronze.clusters, initial: 2025-01-01T00:00:00Z, on_missing: diff, max_versions: 5,
                 max_bytes: 1GiB, feed: raw}
      workspaces: {path: lake/workspaces, snapshot: true}
    transform: m:f
    output: {table: silver.clusters, mode: scd2, key: [a, b], sequence_by: c, track: d, surrogate_key: sk,
             partition_by: [p]}
    evaluate: rows
    allow_nondeterministic: true
    drift: freeze
    tags: [daily]
  gold: {inputs: {clusters: silver.clusters, other: {table: o, initial: 3}}, transform: m:f,
         output: {path: s3a://bucket/gold/x, key: k}}
  log: {inputs: {a: {table: t, initial: 2025-01-01, max_bytes: 9}}, transform: m:f,
        output: {table: l, mode: append, on_delete: ignore}}
"""
PYTHON = """\
import datetime
import tidegauge as tg

@tg.flow(
    clusters=tg.changes(
        "bronze.clusters",
        initial=datetime.datetime(2025, 1, 1, 2, tzinfo=datetime.timezone(datetime.timedelta(hours=2))),
        on_missing="diff", max_versions=5, max_bytes="1GiB", feed="raw",
    ),
    workspaces=tg.snapshot(path="lake/workspaces"),
    output=tg.delta("silver.clusters", mode="scd2", key=("a", "b"), sequence_by="c", track="d",
                    surrogate_key="sk", partition_by=["p"]),
    evaluate="rows", allow_nondeterministic=True, drift="freeze", tags=["daily"],
)
def silver(clusters, workspaces):
    return clusters.join(workspaces)

@tg.flow(clusters="silver.clusters", other=tg.changes("o", initial=3), name="gold",
         output=tg.delta(path="s3a://bucket/gold/x", key="k"))
def make_gold(**frames):
    return frames

@tg.flow(a=tg.changes("t", initial=datetime.date(2025, 1, 1), max_bytes=9),
         output=tg.delta("l", mode="append", on_delete="ignore"))
def log(a, *, more=None):
    return a
"""
HEAD = "import tidegauge as tg\n"


@pytest.fixture(autouse=True)
def _untouched(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(user_modules, "_projects", set())
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


def load(folder: Path, text: str) -> Project:
    folder.mkdir(exist_ok=True)
    file = folder / "tidegauge.yml"
    file.write_text(text, encoding="utf-8")
    return load_project(file)


def declared(folder: Path, code: str, *, named: str = "silver.py", more: str = "") -> tuple[DeltaFlow, ...]:
    file = folder / "silver.py"
    file.parent.mkdir(exist_ok=True)
    file.write_text(code, encoding="utf-8")
    return load(folder, f"pipeline: lakehouse\nmodules: [{named}]\n{more}").delta_flows


def refused(folder: Path, marked: str, *, more: str = "") -> ConfigError:
    before = marked[: marked.index("▲")]
    with pytest.raises(ConfigError) as caught:
        declared(folder, marked.replace("▲", "", 1), more=more)
    error = caught.value
    place = Place(str(folder / "silver.py"), before.count("\n") + 1, len(before) - before.rfind("\n"))
    assert error.place == place, str(error)
    return error


def bare(delta_flow: DeltaFlow) -> DeltaFlow:
    """Without transform and places, which differ."""
    return replace(
        delta_flow,
        inputs=tuple(replace(part, place=None) for part in delta_flow.inputs),
        output=replace(delta_flow.output, place=None),
        transform=None,
        place=None,
    )


def test_yaml_and_python_give_the_same_frozen_values(tmp_path: Path) -> None:
    written = load(tmp_path, YAML).delta_flows
    (tmp_path / "silver.py").write_text(PYTHON)
    made = load(tmp_path, YAML.partition("flows:")[0] + "modules: [silver.py]\n").delta_flows
    assert [bare(delta_flow) for delta_flow in written] == [bare(delta_flow) for delta_flow in made]
    storage = made[1].output.table.storage
    assert storage is not None
    assert (storage.name, storage.region) == ("gold", "eu-1")
    assert made[1].upstreams == ("silver",)


def test_the_transform_is_the_function_and_the_place_its_declaration(tmp_path: Path) -> None:
    silver, gold, _ = declared(tmp_path, PYTHON)
    file = str(tmp_path / "silver.py")
    assert silver.transform == Function("silver:silver", tmp_path)
    assert isinstance(gold.transform, Function)
    assert gold.transform.name == "silver:make_gold"
    assert gold.transform.call is not None
    assert gold.transform.call(a=1) == {"a": 1}
    assert silver.place == Place(file, 4, 2)
    assert silver.inputs[0].place == Place(file, 5, 14)
    assert gold.inputs[0].place == gold.place == Place(file, 18, 2)
    assert silver.output.place == Place(file, 11, 12)


def test_a_function_stays_one_that_can_be_called() -> None:
    def double(a: int) -> int:
        return a * 2

    assert tg.flow(a=tg.changes("t"), output=tg.delta("u", key="k"))(double) is double
    assert double(2) == 4


MISTAKES = {
    "key": (
        '@tg.flow(a="t",\n  output=▲tg.delta("u"))\ndef f(a): ...\n',
        "mode `merge` needs a `key`",
        "columns",
    ),
    "input": (
        '@tg.flow(a=▲tg.changes("t", max_versions=0), output=tg.delta("u", key="k"))\ndef f(a): ...\n',
        "`max_versions` must be a whole number of 1 or more",
        None,
    ),
    "expect": (
        '@▲tg.flow(a="t", output=tg.delta("u", key="k"), expect={"a": "notnull"})\ndef f(a): ...\n',
        "`notnull` is no check on a column",
        None,
    ),
    "kind": (
        '@tg.flow(a="t", output=▲tg.delta("u", key=5.5))\ndef f(a): ...\n',
        "`key` must be text or a list of texts, not a Python float",
        None,
    ),
    "snapshots only": (
        '@▲tg.flow(a=tg.snapshot("t"), output=tg.delta("u", key="k"))\ndef f(a): ...\n',
        "no input of the flow is followed",
        None,
    ),
    "parameter missing": (
        '@▲tg.flow(a="t", b="s", output=tg.delta("u", key="k"))\ndef f(a): ...\n',
        "`b` is an input of the flow `f`, and its function does not take it",
        "a, b",
    ),
    "parameter more": (
        '@▲tg.flow(a="t", output=tg.delta("u", key="k"))\ndef f(a, b): ...\n',
        "the function of the flow `f` wants `b`, which is no input",
        "default",
    ),
    "lambda": (
        'f = ▲tg.flow(a="t", output=tg.delta("u", key="k"))(lambda a: a)\n',
        "`<lambda>` cannot be the name of a flow",
        "letters",
    ),
    "no output": ('@▲tg.flow(a="t", output="u")\ndef f(a): ...\n', "`output` is a str", "tg.delta"),
    "no input": (
        '@▲tg.flow(a=5, output=tg.delta("u", key="k"))\ndef f(a): ...\n',
        "the input `a` is a int",
        'a=tg.changes("SCHEMA.TABLE")',
    ),
    "no parentheses": ("@▲tg.flow\ndef f(a): ...\n", "takes 0 positional arguments", "mend it"),
    "fails": ("x = ▲1 / 0\n", "importing `silver.py` failed: ZeroDivisionError: division by zero", "mend it"),
    "fails below": ("import json\n▲json.loads('{')\n", "JSONDecodeError", None),
    "leaves": ("import sys\n▲sys.exit(3)\n", "SystemExit: 3", None),
    "no such import": ("▲import nope_nope\n", "No module named 'nope_nope'", "install"),
    "syntax": ("def f(▲:\n", "`silver.py` is not valid Python", None),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_is_named_with_the_users_own_line(tmp_path: Path, case: str) -> None:
    marked, message, hint = MISTAKES[case]
    error = refused(tmp_path, HEAD + marked)
    assert message in error.message
    assert "\n" not in error.message
    if hint is not None:
        assert hint in (error.hint or "")


TWICE = '@tg.flow(a="t", output=tg.delta("u", key="k"))\ndef f(a): ...\n'


def test_a_name_used_twice_names_both_places(tmp_path: Path) -> None:
    again = TWICE.replace("@", "@▲").replace('"u"', '"v"')
    error = refused(tmp_path, HEAD + TWICE + again)
    assert error.message == f"there are two flows `f`, the first one at {tmp_path / 'silver.py'}:2:2"
    error = refused(
        tmp_path / "other",
        HEAD + again,
        more="flows:\n  f: {inputs: {a: t}, output: {table: x, key: k}}\n",
    )
    assert (
        error.message
        == f"there are two flows `f`, the first one at {tmp_path / 'other' / 'tidegauge.yml'}:4:3"
    )


def test_python_and_yaml_see_each_others_tables(tmp_path: Path) -> None:
    yaml = "flows: {g: {inputs: {a: u}, output: {table: t, key: k}}}\n"
    with pytest.raises(ConfigError, match="in a circle: g → f → g") as caught:
        declared(tmp_path, HEAD + TWICE, more=yaml)
    assert caught.value.place == Place(str(tmp_path / "tidegauge.yml"), 3, 9)


def test_mistakes_of_both_files_come_together_each_file_in_its_order(tmp_path: Path) -> None:
    code = HEAD + TWICE.replace(', key="k"', "")
    with pytest.raises(ConfigError) as caught:
        declared(tmp_path, code, more="\n\n\nleese: 60s\n")
    first, second = caught.value.message.split("\n")
    assert first == "unknown key `leese`"
    assert second.startswith(f"  {tmp_path / 'silver.py'}:2:24: mode `merge` needs a `key`")


def test_modules_are_found_from_the_projects_folder_by_name_and_by_file(tmp_path: Path) -> None:
    package = tmp_path / "pipelines"
    package.mkdir()
    (package / "shared.py").write_text("TABLE = 't'\n")
    (package / "silver.py").write_text(
        HEAD + "from pipelines.shared import TABLE\n" + TWICE.replace('"t"', "TABLE")
    )
    (tmp_path / "my-flows").mkdir()
    (tmp_path / "my-flows" / "gold.py").write_text(
        HEAD + TWICE.replace("def f", "def g").replace('"u"', '"v"')
    )
    project = load(
        tmp_path, "pipeline: x\nmodules: [pipelines.silver, pipelines/silver.py, my-flows/gold.py]\n"
    )
    assert [delta_flow.name for delta_flow in project.delta_flows] == ["f", "g"]
    assert isinstance(project.delta_flows[0].transform, Function)
    assert project.delta_flows[0].transform.name == "pipelines.silver:f"
    assert load_project(project.file).delta_flows == project.delta_flows


def test_two_projects_of_one_process_may_have_modules_of_one_name(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    assert [delta_flow.name for delta_flow in declared(one, HEAD + TWICE, named="silver")] == ["f"]
    assert [delta_flow.name for delta_flow in declared(other, HEAD + TWICE.replace("def f", "def g"))] == [
        "g"
    ]
    assert str(one) not in sys.path
    (other / "silver.py").unlink()
    with pytest.raises(ConfigError, match="there is no module `silver2`"):
        load(other, "pipeline: x\nmodules: silver2\n")


def test_a_project_leaves_the_functions_of_another_what_they_import_when_they_run(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    (delta_flow,) = declared(one, HEAD + TWICE.replace(" ...", "\n    import imported_late\n    return a"))
    (one / "imported_late.py").write_text("FROM = 'one'\n")
    other.mkdir()
    (other / "gold.py").write_text("")
    import_by_name(other, "gold")
    assert isinstance(delta_flow.transform, Function)
    assert delta_flow.transform.call is not None
    assert delta_flow.transform.call("rows") == "rows"
    assert sys.modules["imported_late"].FROM == "one"
    assert "silver" in sys.modules
    with pytest.raises(ModuleMissing):
        import_by_name(other, "silver")
    # A name that both have means the module of the project that imports it.
    (other / "imported_late.py").write_text("FROM = 'other'\n")
    assert import_by_name(other, "imported_late").FROM == "other"
    assert str(one) not in sys.path
    assert import_by_name(one, "imported_late").FROM == "one"


def test_the_folder_that_was_used_last_comes_before_those_of_other_projects(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for folder, name in ((one, "silver"), (other, "gold")):
        folder.mkdir()
        (folder / f"{name}.py").write_text("")
        import_by_name(folder, name)
    assert sys.path[-2:] == [str(other), str(one)]
    import_by_name(one, "silver")
    assert sys.path[-2:] == [str(one), str(other)]


def test_what_was_imported_before_is_the_projects_own_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_helper.py").write_text("")
    (tmp_path / "own_silver.py").write_text("import own_helper\n")
    (tmp_path / "site-packages").mkdir()
    (tmp_path / "site-packages" / "own_library.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path / "site-packages")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("own_silver")
    importlib.import_module("own_library")
    import_by_name(tmp_path, "own_silver")
    link = tmp_path.with_name(f"{tmp_path.name}_link")
    link.symlink_to(tmp_path)
    for folder in (tmp_path, link):
        found = {module.__name__ for module in list_own_modules(folder)}
        assert {"own_helper", "own_silver", "own_library"} & found == {"own_helper", "own_silver"}
    assert user_modules not in list_own_modules(Path(user_modules.__file__).parents[1])


def test_a_module_that_declares_for_another_declares_for_the_one_that_is_imported(tmp_path: Path) -> None:
    tmp_path.joinpath("factory.py").write_text(
        HEAD + "def copy(table):\n"
        '    tg.flow(name=table, a=table, output=tg.delta(table + "_copy", key="k"))(lambda a: a)\n'
    )
    delta_flows = declared(tmp_path, "from factory import copy\nfor name in 'xyz':\n    copy(name)\n")
    assert [delta_flow.name for delta_flow in delta_flows] == ["x", "y", "z"]


def test_a_reload_forgets_what_a_module_declared_before(tmp_path: Path) -> None:
    declared(tmp_path, HEAD + TWICE)
    (tmp_path / "silver.py").write_text(HEAD + "\n" + TWICE.replace("def f", "def changed"))
    importlib.invalidate_caches()
    importlib.reload(sys.modules["silver"])
    assert [one.name for one in declared_in("silver")] == ["changed"]


def test_a_module_without_flows_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"`silver\.py` declares no flow") as caught:
        declared(tmp_path, HEAD)
    assert caught.value.place == Place(str(tmp_path / "tidegauge.yml"), 2, 11)


def test_a_file_that_python_itself_hides_is_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text(HEAD + TWICE)
    with pytest.raises(ConfigError, match=r"json\.py is hidden by another module `json`") as caught:
        load(tmp_path, "pipeline: x\nmodules: [json]\n")
    assert caught.value.hint == "give the file another name"


def test_what_a_module_prints_stays_off_stdout(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    declared(tmp_path, HEAD + "print('hello')\n" + TWICE)
    assert capsys.readouterr().out == ""


def test_beginnings_may_be_dates_and_moments() -> None:
    assert tg.changes("t", initial=date(2025, 1, 1)).keys["initial"] == "2025-01-01"
    moment = datetime(2025, 1, 1, tzinfo=UTC)
    assert tg.changes("t", initial=moment).keys["initial"] == "2025-01-01T00:00:00+00:00"


def test_declaring_flows_brings_neither_spark_nor_the_config() -> None:
    script = (
        "import sys, tidegauge as tg; assert 'tidegauge.declare' not in sys.modules;"
        "tg.flow, tg.changes, tg.snapshot, tg.delta;"
        "assert not {'pyspark', 'pydantic', 'tidegauge.config'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_an_optimize_flow_in_python_is_that_of_yaml(tmp_path: Path) -> None:
    code = HEAD + 'tg.optimize("tidy", select=["tag:s", "b"], vacuum=False, tags="night")\n'
    (tmp_path / "silver.py").write_text(code)
    flows = "".join(
        f"  {name}: {{inputs: {{x: {reads}}}, output: {{table: l.{name}, key: id}}, tags: {tag}}}\n"
        for name, reads, tag in (("a", "l.raw", "s"), ("b", "l.a", "g"), ("c", "l.b", "g"))
    )
    [tidy] = load(tmp_path, f"pipeline: p\nmodules: [silver.py]\nflows:\n{flows}").optimizes
    assert (tidy.name, tidy.select, tidy.vacuum, tidy.tags) == ("tidy", ("tag:s", "b"), False, ("night",))
    assert (tidy.upstreams, tidy.readers) == (("a", "b"), ("c",))
    assert tidy.place == Place(str(tmp_path / "silver.py"), 2, 1)
    error = refused(tmp_path / "other", HEAD + '▲tg.optimize("tidy", select="nobody")\n')
    assert "`select` of `tidy` means no flow that writes a Delta table: `nobody`" in error.message


def test_a_view_in_python_is_that_of_yaml(tmp_path: Path) -> None:
    (tmp_path / "v.sql").write_text("SELECT * FROM a")
    code = HEAD + (
        'tg.view("g.v", transform="v.sql", a="s.t")\n'
        'tg.view("g.w", name="top", transform="v.sql", tags="x", a=tg.table(path="lake/t"))\n'
    )
    (tmp_path / "silver.py").write_text(code)
    v, top = load(tmp_path, "pipeline: lakehouse\nmodules: [silver.py]\n").views
    assert (v.name, v.target, str(v.inputs[0].table), v.transform.text) == (
        "v", "g.v", "s.t", "SELECT * FROM a"
    )  # fmt: skip
    assert (top.name, top.tags, top.inputs[0].table.path) == ("top", ("x",), str(tmp_path / "lake/t"))
    assert v.place == Place(str(tmp_path / "silver.py"), 2, 1)
    error = refused(tmp_path / "other", HEAD + '▲tg.view("g.v", transform="m:f", a="s.t")\n')
    assert "a view is made of SQL" in error.message
