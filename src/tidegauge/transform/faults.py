"""Explains errors in the user's SQL or Python: one sentence, and the place in their text."""

from __future__ import annotations

import logging
import re
import sysconfig
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tidegauge.errors import Place, TransformFailed
from tidegauge.model.delta_flow import Function, Sql
from tidegauge.model.secret import mask
from tidegauge.model.spark_causes import without_call
from tidegauge.model.view_flow import WrittenInFlows

_CLASS = re.compile(r"^\[[A-Z0-9_.]+\]\s*")
_END = re.compile(r"\s*(?:SQLSTATE: \w+|;\s*line \d+ pos \d+|== |\n).*$", re.DOTALL)
_WHERE = re.compile(r"line (\d+),? pos (\d+)")
_SENTENCE = re.compile(r"^(.+?[.?!])(?:\s|$)")
_MEANT = re.compile(r"Did you mean one of the following\? \[([^\]]*)\]")

_NOT_USER_CODE = tuple(
    str(Path(folder).resolve())
    for folder in (
        *(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")),
        str(Path(__file__).parents[1]),
    )
)
_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
_quiet = threading.local()


def name_transform(flow: WrittenInFlows) -> str:
    """The name of a flow's transform for messages."""
    match flow.transform:
        case Function(name=name):
            return name
        case Sql(file=file) if file is not None:
            return str(file)
        case Sql():
            return f"the SQL of {flow.name}"
        case None:
            return f"the input of {flow.name}"


def first_sentence(error: BaseException) -> str:
    """The first sentence of an error of Spark or Python."""
    text = _CLASS.sub("", without_call(mask(str(error)).strip()))
    text = _END.sub("", text).strip()
    first = _SENTENCE.match(text)
    return (first.group(1) if first else text).rstrip(".") or type(error).__name__


def explain_sql_error(error: BaseException, flow: WrittenInFlows, *, above: int) -> TransformFailed:
    """Turn an error of Spark's analysis into one with the user's place. `above` is the number of Tidegauge's
    lines before the user's SQL."""
    text = mask(str(error))
    meant = _MEANT.search(text)
    transform, where = flow.transform, _WHERE.search(text)
    file = str(transform.file) if isinstance(transform, Sql) and transform.file is not None else None
    place, at = None, ""
    if where is not None and (line := int(where.group(1)) - above) > 0:
        if file is not None:
            place = Place(file, line, int(where.group(2)) + 1)
        else:
            at = f", line {line}"
    what = "" if place is not None else f"{name_transform(flow)}{at}: "
    hint = f"one of these may be meant: {meant.group(1)}" if meant else "mend the SQL, then run again"
    return TransformFailed(f"{what}{first_sentence(error)}", hint=hint, place=place, detail=text)


def explain_function_error(
    error: BaseException, name: str, *, file: str | None, root: Path | None
) -> TransformFailed:
    """Turn an exception of the user's function into one that names the innermost line of their own code."""
    said = first_sentence(error)
    if not _is_from_spark(error):
        said = f"{type(error).__name__}: {said}" if str(error) else type(error).__name__
    at = _find_user_line(error, file=file, root=root)
    meant = _MEANT.search(str(error))
    return TransformFailed(
        f"{name} failed{f' at {at}' if at else ''}: {said}",
        hint=f"one of these may be meant: {meant.group(1)}" if meant else "mend the function, then run again",
        # A job that the function started may fail for a passing reason; an analysis error does not pass.
        retryable=_is_from_spark(error) and not _is_analysis(error),
        detail=mask("".join(traceback.format_exception(error))),
    )


@contextmanager
def silence_pyspark() -> Iterator[None]:
    """Keep PySpark from logging the errors that it raises in this thread, with Java's whole stack."""
    from pyspark.logger import PySparkLogger

    for name in _LOGGERS:
        logger = PySparkLogger.getLogger(name)
        if _is_logged not in logger.filters:
            logger.addFilter(_is_logged)
    before = getattr(_quiet, "on", False)
    _quiet.on = True
    try:
        yield
    finally:
        _quiet.on = before


@contextmanager
def explain_analysis(flow: WrittenInFlows) -> Iterator[None]:
    """In this block an error of Spark's analysis becomes one of the transform, and PySpark is silent."""
    from pyspark.errors import AnalysisException

    try:
        with silence_pyspark():
            yield
    except AnalysisException as error:
        raise TransformFailed(
            f"{name_transform(flow)}: {first_sentence(error)}",
            hint="run again with --debug for all that Spark says",
            detail=str(error),
        ) from error


def _is_logged(_: logging.LogRecord) -> bool:
    return not getattr(_quiet, "on", False)


def _is_from_spark(error: BaseException) -> bool:
    return type(error).__module__.startswith("pyspark.")


def _is_analysis(error: BaseException) -> bool:
    return any(kind.__name__ == "AnalysisException" for kind in type(error).__mro__)


def _find_user_line(error: BaseException, *, file: str | None, root: Path | None) -> str | None:
    found = None
    for frame, line in traceback.walk_tb(error.__traceback__):
        path = frame.f_code.co_filename
        if path == file or not _is_not_user_code(path):
            found = (path, line)
    if isinstance(error, SyntaxError) and error.filename is not None and error.lineno is not None:
        found = (error.filename, error.lineno)
    if found is None:
        return None
    path, line = found
    if root is not None and Path(path).is_relative_to(root):
        path = str(Path(path).relative_to(root))
    return f"{path}:{line}"


def _is_not_user_code(path: str) -> bool:
    """Whether a file belongs to a library, Python or Tidegauge, and not to the user."""
    return path.startswith("<frozen") or str(Path(path).resolve()).startswith(_NOT_USER_CODE)
