"""The keys of `flows:`: of a flow, of each of its inputs, and of its output."""

from datetime import timedelta
from typing import Annotated, Any

from pydantic import Field

from tidegauge.config import flow_values, values
from tidegauge.config.forms import (
    DocumentedDefault,
    Flag,
    Keys,
    Mapped,
    MaybeFlag,
    MaybeText,
    Tags,
    ValueParser,
    as_it_is,
)
from tidegauge.config.schedule import ScheduledHere
from tidegauge.model.delta_flow import Evaluate, OnDelete, OnMissing
from tidegauge.model.mode import MODES, OutputKind
from tidegauge.model.optimize_flow import OPTIMIZE
from tidegauge.model.spec import Drift
from tidegauge.model.view_flow import VIEW

KINDS = ("table", VIEW, OPTIMIZE)
MaybeTable = Annotated[str | None, ValueParser(flow_values.table_name, "name in Spark's catalogue")]
MaybeColumns = Annotated[
    tuple[str, ...], ValueParser(flow_values.columns, "column or list"), DocumentedDefault("none")
]


class FlowKeys(Keys):
    kind: Annotated[str, ValueParser(values.choice(KINDS), "`table`, `view`, `optimize`")] = Field(
        default="table",
        description="A table that is kept up to date; or a view, or the compaction of other tables, "
        "which have no rows of their own: their keys are below.",
    )
    inputs: Mapped = Field(
        description="The Delta tables it reads, each under the name that the transform knows it by; see "
        "below. `NAME: TABLE` is short for `NAME: {table: TABLE}`."
    )
    transform: Annotated[MaybeText, DocumentedDefault("the rows of the only input, as they are")] = Field(
        default=None,
        description="A `.sql` file, in which the inputs are views by their names, or `MODULE:FUNCTION`, "
        "imported from the project's folder when the flow runs. It is written as if it saw whole tables.",
    )
    expect: Annotated[Any, ValueParser(as_it_is, "mapping"), DocumentedDefault("nothing")] = Field(
        default=None,
        description="What its rows have to be, and what becomes of those that are not: "
        "[expectations](expectations.md).",
    )
    output: Mapped = Field(description="The Delta table it writes; see below.")
    evaluate: Annotated[str, ValueParser(values.choice(Evaluate), "`auto`, `rows`, `keys`, `whole`")] = Field(
        default="auto",
        description="What is computed anew after a change: the changed rows, the keys that they touch, or "
        "everything. `auto` reads the SQL; a function is `rows` with one incremental input, `keys` with"
        " several.",
    )
    allow_nondeterministic: Annotated[Flag, DocumentedDefault("`false`")] = Field(
        default=False,
        description="Take a transform that reads the clock or rolls dice (`current_date()`, `rand()`, "
        "`uuid()`): each row is then what it was when it was last computed. Without it they are refused, "
        "but for the clock under `evaluate: whole` and in mode `overwrite`.",
    )
    drift: Annotated[str, ValueParser(values.choice(Drift), "`evolve`, `freeze`, `fail`")] = Field(
        default="evolve",
        description="When the columns that come out change: follow where nothing is lost, keep the target's "
        "columns as they are, or stop.",
    )
    tags: Tags = Field(default=(), description="Words to select by: `--select tag:WORD`.")
    schedule: ScheduledHere = Field(
        default=None, description="When it is due; `none`: only by hand. [Schedules](schedule.md)."
    )


class InputKeys(Keys):
    table: Annotated[MaybeTable, DocumentedDefault("required, or `path`")] = Field(
        default=None, description="The table, such as `bronze.clusters`."
    )
    path: Annotated[MaybeText, DocumentedDefault("required, or `table`")] = Field(
        default=None,
        description="The table's folder, relative to the project file, `file:…` or `s3a://bucket/prefix`.",
    )
    cursor: Annotated[str, ValueParser(flow_values.cursor, "`version`, column or `none`")] = Field(
        default="version",
        description="Its changes are followed version by version; or, of any table that Spark reads, by a "
        "column of dates, timestamps or numbers that grows; or it is read whole each time and compared.",
    )
    key: MaybeColumns = Field(
        default=(),
        description="With a column as cursor: the columns that tell its rows apart, for what is read twice; "
        "else those of the output.",
    )
    lookback: Annotated[timedelta, ValueParser(values.duration(), "duration")] = Field(
        default=timedelta(0),
        description="With a column as cursor: how far below the watermark it is read again.",
    )
    settle: Annotated[timedelta, ValueParser(values.duration(), "duration")] = Field(
        default=timedelta(0),
        description="With a column as cursor: rows younger than that wait.",
    )
    format: Annotated[MaybeText, DocumentedDefault("`delta`")] = Field(
        default=None,
        description="With a column or `none` as cursor, and a `path`: what Spark calls the files there, "
        "such as `parquet`.",
    )
    snapshot: Annotated[Flag, DocumentedDefault("`false`")] = Field(
        default=False,
        description="Only to be joined with: pinned to a version when the plan is made. Its own changes "
        "touch nothing.",
    )
    feed: Annotated[
        str | None, ValueParser(values.choice(("raw",)), "`raw`"), DocumentedDefault("whole tables")
    ] = Field(
        default=None,
        description="The transform sees the changes themselves, with `_change_type`, `_commit_version` and "
        "`_commit_timestamp`, and what comes of them is its own business.",
    )
    initial: Annotated[
        str | None,
        ValueParser(flow_values.initial, "`snapshot`, `earliest`, version or timestamp"),
        DocumentedDefault(
            "`snapshot`; for `append` and `scd2` `earliest`, where the feed reaches back to version 0"
        ),
    ] = Field(
        default=None,
        description="Where the first run begins. A timestamp without an offset is in UTC.",
    )
    on_missing: Annotated[str, ValueParser(values.choice(OnMissing), "`fail`, `rebaseline`, `diff`")] = Field(
        default="fail",
        description="When versions that were not read yet cannot be read any more: stop, take the whole "
        "table as it is, or compare it with what it was.",
    )
    max_versions: Annotated[
        int | None, ValueParser(values.whole(1), "whole number"), DocumentedDefault("all there are")
    ] = Field(default=None, description="Versions in one batch, for catching up in steps.")
    max_bytes: Annotated[
        int | None,
        ValueParser(flow_values.size, "size, such as `64MB` or `1GiB`"),
        DocumentedDefault("all there are"),
    ] = Field(default=None, description="Bytes of changes in one batch; one version is the least.")


class OutputKeys(Keys):
    table: Annotated[MaybeTable, DocumentedDefault("required, or `path`")] = Field(
        default=None, description="The table, such as `silver.clusters`; made if it is not there."
    )
    path: Annotated[MaybeText, DocumentedDefault("required, or `table`")] = Field(
        default=None,
        description="The table's folder, relative to the project file, `file:…` or `s3a://bucket/prefix`.",
    )
    mode: Annotated[
        str,
        ValueParser(
            values.choice(MODES[OutputKind.DELTA]),
            "`append`, `merge`, `scd2`, `replace_partitions`, `overwrite`",
        ),
    ] = Field(
        default="merge",
        description="Every change is added as a row, the table equals the transform over the whole inputs, "
        "the history of each key is kept with `valid_from`, `valid_to` and `is_current`, the partitions that "
        "a change touches are computed anew, or the whole table is.",
    )
    key: MaybeColumns = Field(
        default=(),
        description="The columns that tell its rows apart. `merge` and `scd2` need them.",
    )
    sequence_by: Annotated[MaybeText, DocumentedDefault("the order of the commits")] = Field(
        default=None,
        description="The column that orders the changes of one key, so that an older one never overwrites a "
        "newer one. `scd2` needs it, and takes `valid_from` from it.",
    )
    partition_by: MaybeColumns = Field(
        default=(),
        description="The columns that a table made anew is partitioned by. `replace_partitions` needs them.",
    )
    track: Annotated[
        tuple[str, ...], ValueParser(flow_values.columns, "column or list"), DocumentedDefault("all of them")
    ] = Field(default=(), description="`scd2` only: the columns whose change makes a new row.")
    surrogate_key: Annotated[MaybeText, DocumentedDefault("none")] = Field(
        default=None,
        description="`scd2` only: a column to add, which holds a hash of the key and `valid_from`.",
    )
    on_delete: Annotated[str, ValueParser(values.choice(OnDelete), "`fail`, `ignore`")] = Field(
        default="fail", description="`append` only: when a row is deleted at the source."
    )
    deletion_vectors: Annotated[
        MaybeFlag,
        DocumentedDefault("`true` where `merge` or `scd2` makes the table; others stay as they are"),
    ] = Field(
        default=None,
        description="Whether rows that change are marked as gone beside their file, or the file is written "
        "again: [who can read the table](delta.md#deletion-vectors).",
    )
    zorder: MaybeColumns = Field(
        default=(),
        description="The columns that `tidegauge optimize` sorts by, so that a query by any of them reads "
        "few files. None that the table is partitioned by.",
    )
