"""The keys of a view under `flows:`, of each of its inputs, and of its output."""

from typing import Annotated

from pydantic import Field

from tidegauge.config import flow_values, values
from tidegauge.config.forms import DocumentedDefault, Keys, Mapped, MaybeText, Tags, ValueParser
from tidegauge.model.view_flow import VIEW

Table = Annotated[str, ValueParser(flow_values.table_name, "name in Spark's catalogue")]
MaybeTable = Annotated[str | None, ValueParser(flow_values.table_name, "name in Spark's catalogue")]


class ViewKeys(Keys):
    kind: Annotated[str, ValueParser(values.choice((VIEW,)), "`view`")] = Field(
        description="A view has no rows of its own, and no watermark."
    )
    inputs: Mapped = Field(
        description="The tables and views that it reads, each under the name that the SQL knows it by: "
        "`NAME: TABLE`, or `NAME: {table: TABLE}` or `NAME: {path: FOLDER}`."
    )
    transform: Annotated[str, ValueParser(values.text, "text")] = Field(
        description="A `.sql` file with one SELECT over the inputs."
    )
    output: Mapped = Field(description="`{table: NAME}`: the view in Spark's catalogue.")
    tags: Tags = Field(default=(), description="Words to select by: `--select tag:WORD`.")


class ViewInputKeys(Keys):
    table: Annotated[MaybeTable, DocumentedDefault("required, or `path`")] = Field(
        default=None, description="The table or view, such as `gold.usage`."
    )
    path: Annotated[MaybeText, DocumentedDefault("required, or `table`")] = Field(
        default=None,
        description="A Delta table's folder, relative to the project file, `file:…` or `s3a://bucket/prefix`.",
    )


class ViewOutputKeys(Keys):
    table: Table = Field(
        description="The view, such as `gold.v_usage`; its schema is made if it is not there."
    )
