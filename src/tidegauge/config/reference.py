"""Prints the reference of every key: `python -m tidegauge.config.reference > docs/configuration.md`."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from pydantic.fields import FieldInfo

from tidegauge.config.connection_keys import CONNECTIONS
from tidegauge.config.durations import show_duration
from tidegauge.config.flow_keys import FlowKeys, InputKeys, OutputKeys
from tidegauge.config.forms import DocumentedDefault, Keys, ValueParser
from tidegauge.config.health import HealthKeys
from tidegauge.config.optimize_flows import OptimizeKeys
from tidegauge.config.options import MEANINGS, engines_with
from tidegauge.config.project_keys import ProjectKeys, SparkKeys, SyncKeys, TableKeys
from tidegauge.config.telemetry import AlertKeys, LineageKeys, MetricsKeys
from tidegauge.config.view_keys import ViewInputKeys, ViewKeys
from tidegauge.config.workflow import TaskKeys, WorkflowKeys
from tidegauge.model.engines import name_readable

_HEAD = """\
# Configuration: `tidegauge.yml`

This page is printed from the code (`python -m tidegauge.config.reference`); a test fails when it is stale.

The file is found by walking up from the working folder, or named with `--project PATH`. Paths in it are
relative to it. An unknown key or value is an error that names file, line, column and the nearest valid word.

Values are text as you write them: `on`, `007` and `2025-01-01` mean themselves. A `null` is the same as
leaving the key out; in an override it brings back the default. YAML's anchors, aliases and `<<` work, its
tags do not.

**Durations** are `30s`, `5m`, `1h`, `7d`, `500ms`, `1h30m` or `0`.

**References** bring in what does not belong in the file: `${env:NAME}` is an environment variable,
`${file:PATH}` the contents of a file (one newline at its end is dropped). There are no other forms, and
`$${` stands for the text `${`. `password`, `access_key` and `secret_key` must be references. What a reference
brings into one of these, into `options`, `spark: {conf: …}`, the login of the ledger's address, `alerts: {to:
…}`, `metrics: {push: …}` or `lineage: {url: …}` is hidden wherever Tidegauge prints or stores text.
"""


_FIRST, _LAST = name_readable("`")
_CONNECTIONS = f"""\
## `connections`

Each has a name of your choice, a `type`, and the keys of that type. Databases of type
{_FIRST} and {_LAST} can be read and written; `redshift` can be written. A sync fills
databases, lakes of type `parquet`, and Delta tables below a connection of type `delta`, where those of
`flows` lie too.
"""

_FLOWS = """\
## `flows`

A flow follows the changes of one or several Delta tables, and keeps another one equal to its transform over
them. Each has a name of your choice, of letters, digits, `_`, `-` and `.`:

```yaml
flows:
  silver_clusters:
    inputs:
      clusters: bronze.clusters                                 # changes, version by version
      workspaces: {table: silver.workspaces, snapshot: true}    # pinned when the plan is made
    transform: silver/clusters.sql
    output: {table: silver.clusters, mode: scd2, key: cluster_id, sequence_by: change_time}
```

The same in Python, in a file that `modules: [silver.py]` names:

```python
import tidegauge as tg


@tg.flow(
    clusters=tg.changes("bronze.clusters"),
    workspaces=tg.snapshot("silver.workspaces"),
    output=tg.delta("silver.clusters", mode="scd2", key="cluster_id", sequence_by="change_time"),
)
def silver_clusters(clusters, workspaces):
    return clusters.join(workspaces, "workspace_id", "left")
```

`tg.flow` takes `evaluate`, `allow_nondeterministic`, `drift`, `tags`, `schedule` and `name` besides,
`tg.changes` the keys of an input, and `tg.delta` those of the output. The function is given each input as a
DataFrame by its name, and stays one that you can call in a test of your own. Both ways are checked alike, and
errors name the file and the line.

A table is named as Spark's catalogue has it (`table`), or by its folder (`path`). A path on S3 is reached
with the settings of the connection of type `delta` that it lies below, of several the nearest; without one,
with what the environment gives. A flow that reads what another one writes, also as a snapshot, runs after it.
"""

_VIEWS = """\
A flow of `kind: view` is a view in Spark's catalogue. It has no rows and no watermark; a run makes it when it
is not there as the file has it. In Python: `tg.view("gold.v_usage", transform="views/usage.sql",
usage="gold.usage")`, with `tg.table(path=…)` for an input by its folder. [The graph of flows](graph.md#views)
says more.

```yaml
flows:
  v_usage:
    kind: view
    inputs: {usage: gold.usage}
    transform: views/usage.sql
    output: {table: gold.v_usage}
```
"""

_OPTIMIZES = """\
A flow of `kind: optimize` compacts the tables of other flows and vacuums them, where that pays, once those
have run. It has no rows and no watermark. In Python: `tg.optimize("tidy_gold", select="tag:gold")`.
[The graph of flows](graph.md#optimize) says more.

```yaml
flows:
  tidy_gold: {kind: optimize, select: "tag:gold"}
```
"""

_WORKFLOW = """\
## `workflow`

What `tidegauge export workflow --target databricks|airflow|dagster` makes of the project: tasks, each of
which calls `tidegauge` for some of the flows. [Workflows](workflows.md) shows one whole.
"""


def reference() -> str:
    parts = [
        _HEAD,
        _section("At the top", ProjectKeys.model_fields.values(), ProjectKeys),
        _section("`spark`", SparkKeys.model_fields.values(), SparkKeys),
        _CONNECTIONS,
    ]
    for kind, model in CONNECTIONS.items():
        title = f"`type: {kind}`" + (" (MariaDB too)" if kind == "mysql" else "")
        parts.append(_section(title, model.model_fields.values(), model, level=3))
    parts.append(_options())
    own = [field for name, field in SyncKeys.model_fields.items() if name not in TableKeys.model_fields]
    parts.append(_section("`sync`: each entry", own, SyncKeys))
    parts.append(
        _section("`sync`: keys that an `override` may have too", TableKeys.model_fields.values(), TableKeys)
    )
    parts.append(_FLOWS)
    for title, keys in (
        ("a flow", FlowKeys),
        ("each of its `inputs`", InputKeys),
        ("its `output`", OutputKeys),
    ):
        parts.append(_section(f"`flows`: {title}", keys.model_fields.values(), keys, level=3))
    parts.append(_VIEWS)
    for title, model in (("a view", ViewKeys), ("each of its `inputs`, of a view", ViewInputKeys)):
        parts.append(_section(f"`flows`: {title}", model.model_fields.values(), model, level=3))
    parts.append(_OPTIMIZES)
    fields = OptimizeKeys.model_fields.values()
    parts.append(_section("`flows`: an optimize flow", fields, OptimizeKeys, level=3))
    parts.append(_section("`health`", HealthKeys.model_fields.values(), HealthKeys))
    parts.append(_section("`alerts`", AlertKeys.model_fields.values(), AlertKeys))
    parts.append(_section("`metrics`", MetricsKeys.model_fields.values(), MetricsKeys))
    parts.append(_section("`lineage`", LineageKeys.model_fields.values(), LineageKeys))
    parts.append(_WORKFLOW)
    parts.append(_section("`workflow` itself", WorkflowKeys.model_fields.values(), WorkflowKeys, level=3))
    parts.append(
        _section("`workflow`: each of its `tasks`", TaskKeys.model_fields.values(), TaskKeys, level=3)
    )
    return "\n".join(parts)


def _section(title: str, fields: Iterable[FieldInfo], model: type[Keys], *, level: int = 2) -> str:
    names = {id(field): field.alias or name for name, field in model.model_fields.items()}
    rows = [
        f"| `{names[id(field)]}` | {_form(field)} | {_default(field)} | {_cell(field.description or '')} |"
        for field in fields
    ]
    head = ["| key | type | default | meaning |", "|---|---|---|---|"]
    return "\n".join([f"{'#' * level} {title}", "", *head, *rows, ""])


def _options() -> str:
    rows = [
        f"| `{name}` | {', '.join(f'`{engine}`' for engine in engines_with(name))} | {_cell(meaning)} |"
        for name, meaning in MEANINGS.items()
    ]
    return "\n".join(
        [
            "### `options` of a database",
            "",
            "Only these. The drivers' own options are refused, because some of them run code or read files.",
            "",
            "| option | of | meaning |",
            "|---|---|---|",
            *rows,
            "",
        ]
    )


def _form(field: FieldInfo) -> str:
    return _cell(next(item.text for item in field.metadata if isinstance(item, ValueParser)))


def _default(field: FieldInfo) -> str:
    said = next((item.default for item in field.metadata if isinstance(item, DocumentedDefault)), None)
    if said is not None:
        return _cell(said)
    return "**required**" if field.is_required() else _shown(field.default)


def _shown(value: Any) -> str:
    if isinstance(value, timedelta):
        return f"`{show_duration(value)}`"
    return f"`{value}`" if value not in ((), {}, []) else "none"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    sys.stdout.write(reference())
