"""Whatever stands in a project file, nothing but a ConfigError comes of it."""

from __future__ import annotations

import contextlib
from pathlib import Path

import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tidegauge.config.check import key_names
from tidegauge.config.connection_keys import CONNECTIONS
from tidegauge.config.flow_keys import FlowKeys, InputKeys, OutputKeys
from tidegauge.config.forms import Keys
from tidegauge.config.load import load_project
from tidegauge.config.options import MEANINGS
from tidegauge.config.project_keys import ProjectKeys, SparkKeys, SyncKeys
from tidegauge.errors import ConfigError

MODELS: list[type[Keys]] = [ProjectKeys, SparkKeys, SyncKeys, FlowKeys, InputKeys, OutputKeys]
MODELS += CONNECTIONS.values()
KEYS = st.sampled_from(
    [
        *(name for model in MODELS for name in key_names(model)),
        *MEANINGS,
        *("type", "ignore_after", "a", "b", "<<"),
    ]
)
WORDS = st.sampled_from(
    [
        "a",
        "b",
        "sqlite",
        "mysql",
        "postgresql",
        "parquet",
        "30s",
        "0",
        "1",
        "-1",
        "null",
        "~",
        "${env:HOME}",
        "${env:NOPE_NOPE}",
        "${x}",
        "$X",
        "$${",
        "${file:/dev/null}",
        "s3a://b/c",
        "s3a://bucket/p",
        "file:///x",
        "sqlite:///x",
        "postgresql://u:${env:HOME}@h/d",
        "mysql://h/d",
        "mysql://[",
        "append",
        "wait",
        "fail",
        "decimal(3,2)",
        "{table}",
        ":memory:",
        "1h30m",
        "version",
        "true",
        "raw",
        "bronze.a",
        "`a.b`.c",
        "x.sql",
        "m:f",
        "scd2",
        "replace_partitions",
        "64MB",
        "2025-01-01",
    ]
) | st.text(max_size=8)
TREES = st.recursive(
    WORDS | st.none() | st.integers() | st.booleans() | st.floats() | st.dates(),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(KEYS | st.text(max_size=4), inner, max_size=6)
    ),
    max_leaves=30,
)


def check_only_config_errors(folder: Path, content: bytes) -> None:
    file = folder / "garbage.yml"
    file.write_bytes(content)
    with contextlib.suppress(ConfigError):
        load_project(file)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(KEYS, TREES, max_size=6))
def test_a_random_tree_raises_nothing_but_config_errors(tmp_path: Path, tree: object) -> None:
    check_only_config_errors(
        tmp_path, yaml.safe_dump(tree, allow_unicode=True).encode("utf-8", "surrogatepass")
    )


CONNECTION_TREES = st.fixed_dictionaries(
    {"type": st.sampled_from(["sqlite", "mysql", "postgresql", "parquet", "delta"]) | WORDS},
    optional={
        "path": TREES, "host": TREES, "port": TREES, "database": WORDS, "user": WORDS, "password": TREES,
        "schema": TREES, "options": TREES, "endpoint": TREES, "region": TREES, "access_key": TREES,
    },
)  # fmt: skip
SYNC_TREES = st.fixed_dictionaries(
    {"from": st.sampled_from("ab"), "to": st.sampled_from("ab"), "tables": TREES},
    optional={
        "cursor": TREES, "key": TREES, "settle": TREES, "batch_rows": TREES, "open_transactions": TREES,
        "types": TREES, "rename": TREES, "zero_dates": TREES,
        "override": st.dictionaries(WORDS, TREES, max_size=3),
    },
)  # fmt: skip


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.fixed_dictionaries(
        {
            "pipeline": WORDS,
            "connections": st.dictionaries(st.sampled_from("ab"), CONNECTION_TREES, max_size=2),
        },
        optional={"sync": st.lists(SYNC_TREES, max_size=2), "ledger": TREES, "spark": TREES, "lease": TREES},
    )
)
def test_an_almost_right_tree_raises_nothing_but_config_errors(tmp_path: Path, tree: object) -> None:
    check_only_config_errors(
        tmp_path, yaml.safe_dump(tree, allow_unicode=True).encode("utf-8", "surrogatepass")
    )


INPUT_TREES = WORDS | st.fixed_dictionaries(
    {"table": st.sampled_from(["bronze.a", "silver.a", "silver.b"]) | TREES},
    optional={
        "path": TREES, "cursor": WORDS, "snapshot": st.booleans() | TREES, "feed": WORDS, "initial": TREES,
        "on_missing": WORDS, "max_versions": TREES, "max_bytes": TREES,
    },
)  # fmt: skip
FLOW_TREES = st.fixed_dictionaries(
    {
        "inputs": st.dictionaries(st.sampled_from(["a", "A", "b"]) | WORDS, INPUT_TREES, max_size=3),
        "output": st.fixed_dictionaries(
            {"table": st.sampled_from(["silver.a", "silver.b", "Silver.A"]) | TREES},
            optional={
                "path": TREES, "mode": WORDS, "key": TREES, "sequence_by": TREES, "partition_by": TREES,
                "track": TREES, "surrogate_key": TREES, "on_delete": WORDS,
            },
        ),
    },
    optional={"transform": WORDS, "evaluate": WORDS, "drift": WORDS, "tags": TREES},
)  # fmt: skip


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.fixed_dictionaries(
        {"pipeline": st.just("x"), "flows": st.dictionaries(st.sampled_from("xyz"), FLOW_TREES, max_size=3)},
        optional={"modules": st.lists(WORDS, max_size=2)},
    )
)
def test_almost_right_flows_raise_nothing_but_config_errors(tmp_path: Path, tree: object) -> None:
    check_only_config_errors(
        tmp_path, yaml.safe_dump(tree, allow_unicode=True).encode("utf-8", "surrogatepass")
    )


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.binary(max_size=60)
    | st.text(alphabet="ab:-[]{}&*!|>'\"%@`,?#~<$ \t\n\r\\", max_size=60).map(str.encode)
)
def test_random_bytes_raise_nothing_but_config_errors(tmp_path: Path, content: bytes) -> None:
    check_only_config_errors(tmp_path, content)
    check_only_config_errors(tmp_path, b"pipeline: x\nspark: " + content)
