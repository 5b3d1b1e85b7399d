"""What the documentation says is what the code does."""

from __future__ import annotations

import ast
import re
import runpy
from pathlib import Path

import pytest

from tidegauge.config.load import load_project
from tidegauge.model.spec import Database, Lake

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])
ABOUT_CODE = [ROOT / "ARCHITECTURE.md", *sorted(ROOT.glob("docs/adr/*.md"))]


def test_the_pages_made_from_the_code_are_fresh() -> None:
    made = runpy.run_path(str(ROOT / "scripts" / "reference.py"))["PAGES"]
    stale = [name for name, make in made.items() if (ROOT / "docs" / name).read_text() != make()]
    assert not stale, f"run `make docs`: {stale}"


def test_the_readmes_project_file_is_a_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("APP_PASSWORD", "DW_PASSWORD"):
        monkeypatch.setenv(name, "not a real one")
    text, flows = re.findall(r"```yaml\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    file = tmp_path / "tidegauge.yml"
    (tmp_path / "silver").mkdir()
    (tmp_path / "silver" / "orders.sql").write_text("SELECT * FROM orders")
    file.write_text(text + flows)
    project = load_project(file)
    [delta_flow] = project.delta_flows
    assert [part.name for part in delta_flow.incremental] == ["orders"]
    assert isinstance(project.connections["app"], Database)
    assert isinstance(project.connections["lake"], Lake)
    [sync] = project.syncs
    assert (sync.via, sync.to) == (project.connections["lake"], project.connections["warehouse"])
    assert sync.per_table["shop.claims"].key == ("claim_id", "region")


def test_every_page_has_its_place_in_the_order_to_read() -> None:
    index = (ROOT / "docs" / "README.md").read_text()
    pages = {page.name for page in ROOT.glob("docs/*.md")} - {"README.md"}
    assert pages <= set(re.findall(r"\]\((?:\.\./)?([^)#:/]+)\)", index))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#:]+)\)", page.read_text())
    assert not [target for target in targets if not (page.parent / target).exists()]


def test_no_help_cuts_a_summary() -> None:
    lines = (ROOT / "docs" / "cli.md").read_text().splitlines()
    assert not [line for line in lines if line.endswith("...") and not line.startswith("Usage: ")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_follows_a_table_is_not_taken_for_a_row(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    assert re.findall(r"^\|.*\n[^|\n].*", text, re.MULTILINE) == []


@pytest.mark.parametrize("page", ABOUT_CODE, ids=lambda page: page.name)
def test_the_files_that_a_page_about_the_code_names_are_there(page: Path) -> None:
    named = re.findall(r"`(\w+(?:/\w+)*\.py|\w+/\w[\w/]*)`", page.read_text())
    real = [name for name in named if "X" not in name]  # X stands for the name of what is new
    assert [name for name in real if not _is_in_the_code(name)] == []


def _is_in_the_code(name: str) -> bool:
    """Whether there is such a file or folder, by its path below the root or a room, or by its bare name."""
    folders = [ROOT, ROOT / "src" / "tidegauge", ROOT / "tests"]
    if "/" not in name:
        return any(next(folder.rglob(name), None) for folder in folders[1:])
    return any((folder / f"{name}{end}").exists() for folder in folders for end in ("", ".py"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_and_flag_in_a_page_exists(page: Path) -> None:
    parts = re.split(r"^## tidegauge (.+)$", (ROOT / "docs" / "cli.md").read_text(), flags=re.MULTILINE)
    known = dict(zip(parts[1::2], parts[2::2], strict=True))
    text = page.read_text()
    typed = re.findall(r"(?:^|`|\$ |&& )tidegauge ([a-z][^`\n#]*)", text, re.MULTILINE)
    wrong = []
    for words in (one.replace("s3clean", "files") for one in typed):  # an older name of the same command
        name = " ".join(re.match(r"(\S+)(?: (\w+))?", words).groups(""))  # type: ignore[union-attr]
        command = next((one for one in (name, name.split()[0]) if one in known), None)
        if command is None:
            wrong.append(words)
            continue
        wrong += [
            f"{command} {flag}" for flag in re.findall(r"--[a-z][a-z-]+", words) if flag not in known[command]
        ]
    assert wrong == []


def test_every_hazard_has_a_test_with_its_number() -> None:
    listed = re.findall(r"^\| ([A-F]\d+) \|", (ROOT / "docs" / "hazards.md").read_text(), re.MULTILINE)
    tests = "\n".join(path.read_text() for path in ROOT.glob("tests/**/test_*.py"))
    named = set(re.findall(r"_([a-f]\d+)(?=_)", " ".join(re.findall(r"def (test_\w+)", tests))))
    assert listed
    assert [number for number in listed if number.lower() not in named] == []


def test_no_page_or_file_names_a_package_registry() -> None:
    hosts = re.compile(r"https?://[^\s\"]*(pypi|pythonhosted|npmjs|maven\.org|debian\.org)")
    files = [*PAGES, ROOT / "constraints.txt", ROOT / "pyproject.toml", ROOT / "Makefile"]
    assert not [path for path in files if hosts.search(path.read_text())]


def test_who_adds_a_write_mode_is_told_every_file_that_decides_for_each_mode() -> None:
    rows = re.findall(r"^\| a write mode of .*", (ROOT / "ARCHITECTURE.md").read_text(), re.MULTILINE)
    source = ROOT / "src" / "tidegauge"
    deciding = [
        file.relative_to(source).as_posix()
        for file in sorted(source.rglob("*.py"))
        if "case Mode." in (text := file.read_text())
        and any(isinstance(one, ast.Match) and _has_each_mode(one) for one in ast.walk(ast.parse(text)))
    ]
    assert deciding
    assert len(rows) == 2
    assert [(file, row) for file in deciding for row in rows if f"`{file}`" not in row] == []


def _has_each_mode(match: ast.Match) -> bool:
    """Whether its cases are modes, and none stands for all others."""
    patterns = [one for case in match.cases for one in ast.walk(case.pattern)]
    modes = [one for one in patterns if isinstance(one, ast.MatchValue) and ast.unparse(one)[:5] == "Mode."]
    return bool(modes) and not any(isinstance(one, ast.MatchAs) for one in patterns)
