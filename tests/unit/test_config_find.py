from __future__ import annotations

from pathlib import Path

import pytest

from tidegauge.config.find import find_project
from tidegauge.errors import ConfigError


@pytest.fixture
def project(tmp_path: Path) -> Path:
    file = tmp_path / "project" / "tidegauge.yml"
    (file.parent / "deep" / "er").mkdir(parents=True)
    file.write_text("pipeline: x\n")
    return file


def test_the_file_is_found_by_walking_up(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_project(project.parent) == project
    assert find_project(project.parent / "deep" / "er") == project
    monkeypatch.chdir(project.parent / "deep")
    assert find_project() == project


def test_the_nearest_file_wins(project: Path) -> None:
    nearer = project.parent / "deep" / "tidegauge.yml"
    nearer.write_text("pipeline: y\n")
    assert find_project(project.parent / "deep" / "er") == nearer


def test_a_folder_of_that_name_is_no_project(project: Path) -> None:
    (project.parent / "deep" / "tidegauge.yml").mkdir()
    assert find_project(project.parent / "deep") == project


def test_the_project_may_be_named_by_file_or_folder(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_project(explicit=project) == project
    assert find_project(explicit=project.parent) == project
    monkeypatch.chdir(project.parent.parent)
    assert find_project(explicit=Path("project")) == project
    other = project.rename(project.parent / "other.yml")
    assert find_project(explicit=other) == other


def test_a_named_folder_is_not_walked_up_from(project: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        find_project(explicit=project.parent / "deep")
    assert "tidegauge init" in (caught.value.hint or "")


def test_no_project_hints_at_init(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no tidegauge\.yml in") as caught:
        find_project(tmp_path)
    assert "tidegauge init" in (caught.value.hint or "")


def test_a_named_project_that_is_not_there_hints_at_init(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not exist") as caught:
        find_project(explicit=tmp_path / "nope.yml")
    assert "tidegauge init" in (caught.value.hint or "")


def test_the_other_ending_is_named(tmp_path: Path) -> None:
    (tmp_path / "tidegauge.yaml").write_text("pipeline: x\n")
    with pytest.raises(ConfigError, match=r"called tidegauge\.yml, not tidegauge\.yaml") as caught:
        find_project(tmp_path)
    assert "rename" in (caught.value.hint or "")


def test_a_working_folder_that_is_gone_is_a_config_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(ConfigError, match="does not exist any more"):
        find_project()
