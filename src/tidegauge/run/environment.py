"""What a run needs besides the ledger. The simulation passes its own, to drive the same code."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidegauge.flows.flow import open_reader
from tidegauge.ledger.owner import is_gone, this_process
from tidegauge.model.claim import Owner
from tidegauge.model.protocols.output import Output
from tidegauge.model.protocols.source import Reader
from tidegauge.model.spec import SparkSettings, TableFlow
from tidegauge.outputs.open import open_output
from tidegauge.sources.connections import SourceConnections
from tidegauge.spark.jars import JarSet
from tidegauge.spark.session import check_java, open_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def _spark(settings: SparkSettings, needs: set[JarSet], light: bool, debug: bool) -> SparkSession:
    return open_session(settings, needs, light=light, debug=debug)


def _threads(parallel: int) -> Executor:
    return ThreadPoolExecutor(parallel, thread_name_prefix="tidegauge-flow")


@dataclass(frozen=True)
class Environment:
    owner: Owner = field(default_factory=this_process)
    is_gone: Callable[[Owner], bool] = is_gone
    sources: Callable[[], SourceConnections] = SourceConnections
    """Opens the databases of one thread."""
    output: Callable[[TableFlow], Output] = open_output
    reader: Callable[[TableFlow], Reader] = open_reader
    check_java: Callable[[SparkSettings], object] = check_java
    spark: Callable[[SparkSettings, set[JarSet], bool, bool], SparkSession] = _spark
    threads: Callable[[int], Executor] = _threads
    clock: Callable[[], float] = time.monotonic
    """Seconds of a monotonic clock: only for durations, never for a date."""
    sleep: Callable[[float], None] = time.sleep
