from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tidegauge.config.check import key_names
from tidegauge.config.connection_keys import CONNECTIONS
from tidegauge.config.flow_keys import FlowKeys, InputKeys, OutputKeys
from tidegauge.config.forms import Keys
from tidegauge.config.project_keys import ProjectKeys, SparkKeys, SyncKeys
from tidegauge.config.reference import reference

ROOT = Path(__file__).parents[2]


def test_the_printed_reference_is_not_stale() -> None:
    written = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    assert written == reference(), "run: python -m tidegauge.config.reference > docs/configuration.md"


def test_the_module_prints_the_reference() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "utf8", "-m", "tidegauge.config.reference"], capture_output=True, check=True
    )
    assert done.stdout.decode() == reference()


def test_every_key_has_a_meaning() -> None:
    models: list[type[Keys]] = [ProjectKeys, SparkKeys, SyncKeys, FlowKeys, InputKeys, OutputKeys]
    models += CONNECTIONS.values()
    for model in models:
        for name, field in model.model_fields.items():
            assert field.description, f"{model.__name__}.{name}"
        for name in key_names(model):
            assert f"| `{name}` |" in reference()


def test_loading_imports_neither_spark_nor_a_database_driver() -> None:
    code = (
        "import sys, tidegauge.config.load, tidegauge.config.find;"
        "print([m for m in ('pyspark', 'sqlalchemy', 'pyarrow', 'typer', 'rich') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout.strip() == "[]"
