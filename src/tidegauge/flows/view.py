"""A view in Spark's catalogue: compare it with the project file, and create or replace it.

The view's text and its fingerprint are kept only in the catalogue. So a look there shows whether somebody has
changed or dropped the view, and one statement creates or replaces it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tidegauge.delta_log.history import histories
from tidegauge.errors import OutputUnsafe, TableMissing
from tidegauge.flows.check_transform import check_transform
from tidegauge.flows.delta_locator import DeltaTableLocator
from tidegauge.model.delta_flow import TableRef
from tidegauge.model.types import quote
from tidegauge.model.versions import LATEST
from tidegauge.model.view_flow import ViewFlow
from tidegauge.outputs.delta.session import name_of
from tidegauge.outputs.delta.types import literal
from tidegauge.sources.delta.catalogue import describe_view
from tidegauge.spark.errors import translate_spark_error
from tidegauge.transform.faults import explain_sql_error, silence_pyspark
from tidegauge.transform.parse import is_readable, parse_transform
from tidegauge.transform.views import ABOVE, without_semicolon

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FINGERPRINT = "tidegauge.fingerprint"


class View:
    def __init__(self, spec: ViewFlow, places: DeltaTableLocator) -> None:
        self.spec = spec
        self._places = places

    @property
    def fingerprint(self) -> str:
        """A digest of the view's SQL and of its inputs' names and tables."""
        return _digest(self._text("default"))

    def check(self) -> tuple[str, ...]:
        """Return remarks on the view's SQL. Raises TransformFailed, with the place, for SQL that cannot run,
        and TableMissing for an input that is not there."""
        if not is_readable(self.spec.transform.text):
            return ("the SQL is left to Spark to read",)
        said = check_transform(self.spec.transform, self.spec.inputs, self._places)
        with self._session() as session:
            self._refuse_missing(session)
        return said

    def find_difference(self) -> str | None:
        """Why the view has to be created or replaced; None: it is as it should be. Raises OutputUnsafe if a
        table has its name."""
        with self._session() as session:
            return self._difference(session, self._text(session.catalog.currentDatabase()))

    def bring_up_to_date(self) -> str | None:
        """Create or replace the view if it differs, and return why; None: it did not differ."""
        with self._session() as session:
            text = self._text(session.catalog.currentDatabase())
            why = self._difference(session, text)
            if why is not None:
                self._refuse_other_tables()
                self._refuse_missing(session)
                self._make(session, text)
            return why

    def _difference(self, session: SparkSession, text: str) -> str | None:
        name = str(self.spec.output.table)
        found = describe_view(session, name)
        if found is None:
            return f"the view {name} is not there"
        if not found.is_view:
            raise OutputUnsafe(
                f"{name} is a table, and {self.spec.name} would make a view of that name",
                hint="give the view another name, or drop the table if nobody needs it; nothing was changed",
                place=self.spec.output.place,
            )
        if found.text == text and _fingerprint_property(text) in found.properties:
            return None
        if _fingerprint_property(found.text) in found.properties:
            return f"the SQL or the inputs of the view {name} have changed"
        return f"the view {name} was not made here, or was changed by hand since"

    def _make(self, session: SparkSession, text: str) -> None:
        name, spec = name_of(self.spec.output.table), self.spec
        kept = {FINGERPRINT: _digest(text), "tidegauge.pipeline": spec.pipeline, "tidegauge.flow": spec.name}
        properties = ", ".join(f"'{key}' = {literal(value, 'string')}" for key, value in kept.items())
        with silence_pyspark():
            try:
                if schema := name.rpartition(".")[0]:
                    session.sql(f"CREATE SCHEMA IF NOT EXISTS {schema}")
                # Schema evolution: SELECT * also shows columns that an input gets later.
                head = f"CREATE OR REPLACE VIEW {name} TBLPROPERTIES ({properties}) WITH SCHEMA EVOLUTION"
                session.sql(f"{head} AS {text}")
            except Exception as error:
                if not _is_analysis_error(error):
                    raise
                raise explain_sql_error(error, spec, above=ABOVE) from error

    def _text(self, schema: str) -> str:
        """The view's SQL: each input under its name, then the user's own.

        A table without a schema is named with the session's, or it would be taken for an input of its name.
        """
        given = ", ".join(
            f"{quote(part.name)} AS (SELECT * FROM {_source(part.table, schema)})"
            for part in self.spec.inputs
        )
        return f"WITH {given} SELECT * FROM (\n{without_semicolon(self.spec.transform.text)}\n)"

    def _refuse_other_tables(self) -> None:
        """Refuse SQL that reads tables which are not inputs: the view would not wait for their flows."""
        sql = self.spec.transform
        if is_readable(sql.text):
            parse_transform(sql.text, inputs=[part.name for part in self.spec.inputs], place=sql.file)

    def _refuse_missing(self, session: SparkSession) -> None:
        for part in self.spec.inputs:
            if part.table.name is not None:
                there = session.catalog.tableExists(name_of(part.table))
            else:
                where = {part.name: (str(part.table.path), LATEST, part.table.storage)}
                there = not isinstance(histories(where)[part.name], TableMissing)
            if not there:
                raise TableMissing(
                    f"{self.spec.name}: its input {part.name} is not there: {part.table}",
                    hint="check the name; if a flow is to make it, let that flow run first",
                    place=part.place,
                )

    @contextmanager
    def _session(self) -> Iterator[SparkSession]:
        with translate_spark_error(self.spec.name):
            if self.spec.on_s3:
                with self._places.session(self.spec) as session:
                    yield session
            else:
                # No settings are needed, and a session of its own would cost more than the look itself.
                yield self._places.shared_session()


def _source(table: TableRef, schema: str) -> str:
    name = name_of(table)
    return f"{quote(schema)}.{name}" if table.name is not None and "." not in name else name


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _fingerprint_property(text: str) -> str:
    """The fingerprint property, as the catalogue lists it, of a view with this text."""
    return f"{FINGERPRINT}={_digest(text)}"


def _is_analysis_error(error: BaseException) -> bool:
    return any(kind.__name__ in ("AnalysisException", "ParseException") for kind in type(error).__mro__)
