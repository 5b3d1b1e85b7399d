"""Checks the rows of Delta outputs: that there are any, and that they are as the mode promises."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tidegauge.flows.maintenance.base import MaintainedTable, MaintenanceResult, open_log
from tidegauge.flows.quarantine.delta_flow import FlowQuarantine
from tidegauge.flows.quarantine.summary import QuarantineSummary
from tidegauge.model.delta_flow import IS_CURRENT, VALID_FROM, VALID_TO, DeltaFlow
from tidegauge.model.health import HealthCheck, HealthFinding, HealthLevel
from tidegauge.model.spec import Project
from tidegauge.model.types import quote
from tidegauge.operations.delta_tables import SelectedMaintenance
from tidegauge.spark.errors import translate_spark_error


def check_tables(
    project: Project, selection: Sequence[str], *, debug: bool = False
) -> dict[str, list[HealthFinding]]:
    """Return findings by flow, with one pass over each table. Changes nothing. Omits missing tables."""
    maintenance = SelectedMaintenance(project, selection, debug=debug)
    found: dict[str, list[HealthFinding]] = {}

    def one(target: MaintainedTable) -> MaintenanceResult:
        if target.delta_flow is not None:
            open_log(target)
            words = ", ".join(
                f"{sql} AS {quote(name)}" for name, sql in measures_of(target.delta_flow).items()
            )
            with maintenance.session_of(target) as session, translate_spark_error(target.name):
                [row] = session.sql(f"SELECT {words} FROM {target.sql}").collect()
            aside = FlowQuarantine(target.delta_flow, maintenance.places).show(0)
            found[target.name] = [*judge(row.asDict()), *judge_aside(aside)]
        return MaintenanceResult(target)

    for result in maintenance.each(one):
        if result.error is not None:
            says = f"its table could not be read: {result.error.message}"
            found[result.target.name] = [HealthFinding(HealthCheck.QUALITY, HealthLevel.CRITICAL, says)]
    return found


def measures_of(flow: DeltaFlow) -> dict[str, str]:
    """Return what to count, as SQL by name. In a history, key and `valid_from` identify a row."""
    output, history = flow.output, flow.output.mode.facts.keeps_history
    measures = {"rows": "count(*)"}
    if output.key:
        columns = [quote(name) for name in output.key]
        measures["rows with a NULL in the key"] = (
            f"count_if({' OR '.join(f'{name} IS NULL' for name in columns)})"
        )
        told = [*columns, quote(VALID_FROM)] if history else columns
        if not flow.appends:
            measures["rows whose key is there twice"] = (
                f"count(*) - count(DISTINCT struct({', '.join(told)}))"
            )
        if history:
            current = f"CASE WHEN {quote(IS_CURRENT)} THEN struct({', '.join(columns)}) END"
            measures["keys with two current rows"] = f"count({current}) - count(DISTINCT {current})"
    if history:
        measures["rows that end before they begin"] = f"count_if({quote(VALID_FROM)} > {quote(VALID_TO)})"
    return measures


def judge(counts: Mapping[str, int]) -> Iterator[HealthFinding]:
    rows = counts["rows"]
    level = HealthLevel.HEALTHY if rows else HealthLevel.WARNING
    yield HealthFinding(
        HealthCheck.COUNTS, level, f"{rows:,} rows in the table" if rows else "the table is empty"
    )
    wrong = [(name, count) for name, count in counts.items() if name != "rows" and count]
    for name, count in wrong:
        yield HealthFinding(HealthCheck.QUALITY, HealthLevel.CRITICAL, f"{count:,} {name}")
    if not wrong:
        yield HealthFinding(
            HealthCheck.QUALITY, HealthLevel.HEALTHY, "keys and intervals are as they should be"
        )


def judge_aside(aside: QuarantineSummary) -> Iterator[HealthFinding]:
    """Warn about quarantined rows, which a person has to handle."""
    if aside.rows:
        reasons = ", ".join(f"{name} {count:,}" for name, count in aside.reasons.items())
        says = f"{aside.rows:,} rows are set aside ({reasons}); see `tidegauge quarantine list`"
        yield HealthFinding(HealthCheck.QUALITY, HealthLevel.WARNING, says)
