"""A Spark that is kept warm: taken up by the next command, whoever is killed, and clean of the last one."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from py4j.clientserver import ClientServer, JavaParameters, PythonParameters
from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JError
from pyarrow import parquet

from tests.support import haste
from tests.support.nursery import Forked, own_nursery
from tests.support.project import Ran, end, shell, start, until
from tidegauge.config.load import load_project
from tidegauge.spark import warm_client as take_up
from tidegauge.spark.cache import cache_folder
from tidegauge.spark.warm_sockets import socket_of

TIMES = "def changed(rows):\n    return rows.selectExpr('id', 'n * {} AS n')\n"
WAITS = """
import time
from pathlib import Path

def changed(rows):
    Path("{folder}/here").touch()
    while not Path("{folder}/go").exists():
        time.sleep(0.05)
    return rows.selectExpr("id", "n * 5 AS n")
"""
BY_TASKS = """
from pyspark.sql.functions import udf
import os, time
from pathlib import Path

def changed(rows):
    session = rows.sparkSession
    session.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    type(session).builder.getOrCreate().conf.set("spark.sql.caseSensitive", "true")

    @udf("bigint")
    def work(n):
        import elsewhere
        Path("{folder}/here").touch()
        while {wait} and not Path("{folder}/go").exists():
            time.sleep(0.05)
        return n * elsewhere.TIMES + int(os.environ["TG_MORE"])

    return rows.select("id", work("n").alias("n"))
"""
ASKS = """
def changed(rows):
    session = rows.sparkSession
    assert session.conf.get("spark.sql.session.timeZone") == "UTC"
    assert type(session).builder.getOrCreate().conf.get("spark.sql.caseSensitive") == "false"
    return rows.selectExpr("id", "n")
"""


@dataclass
class Kept:
    folder: Path
    env: dict[str, str] = field(default_factory=dict)
    flow: str = "out"
    """Each test has its own: a table of few versions is made of files alone, and read as such."""

    def write(self, code: str, *, keep: str = "2m", conf: dict[str, str] | None = None) -> None:
        (self.folder / "changes.py").write_text(code)
        settings = {**haste.CONF_AND_JAVA, **(conf or {})}
        spark = json.dumps({"master": "local[2]", "keep_warm": keep, "conf": settings})
        (self.folder / "tidegauge.yml").write_text(
            f"pipeline: warm\nspark: {spark}\nflows:\n  {self.flow}: {{inputs: {{rows: {{path: rows}}}},"
            f" transform: 'changes:changed', output: {{path: {self.flow}, key: id}}}}\n"
            "  other: {inputs: {rows: {path: rows}}, output: {path: other, key: id}}\n"
        )

    def change(self, n: int) -> None:
        for name in ("here", "go"):
            (self.folder / name).unlink(missing_ok=True)
        DeltaTable(self.folder / "rows").update(updates={"n": str(n)}, predicate="id = 1")

    def start(self, *words: str, **env: str) -> Forked:
        return start(*words, "--project", self.folder / "tidegauge.yml", env={**self.env, **env})

    def run(self, **env: str) -> None:
        ran = end(self.start("run", "--select", self.flow, **env))
        assert ran.code == 0, ran.said

    def status(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.ask("status", "--json").json["kept"]
        return found

    def java(self) -> int:
        """Of the only one there is."""
        [one] = self.status()
        return int(one["java"])

    def ask(self, *words: str) -> Ran:
        return shell("spark", *words, env=self.env)

    def peek(self) -> dict[str, Any]:
        given = {"file": str(self.folder / "tidegauge.yml")}
        forked = own_nursery().fork("call", function=f"{__name__}:peek", given=given, env=self.env)
        found: dict[str, Any] = json.loads(forked.communicate()[0])
        return found

    def rows(self) -> dict[int, int]:
        files = DeltaTable(self.folder / self.flow).file_uris()
        found = [row for file in files for row in parquet.read_table(file, columns=["id", "n"]).to_pylist()]
        assert len(found) == 2
        return {one["id"]: one["n"] for one in found}

    def arrived(self, process: Forked) -> None:
        until(lambda: (self.folder / "here").exists() or process.poll() is not None)
        assert process.poll() is None, process.communicate()


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kept]:
    folder = tmp_path_factory.mktemp("warm")
    cache = folder / ("a long name " * 8)  # longer than a socket's address may be
    cache.mkdir()
    for name in ("jars", "classes", "java"):
        (cache / name).symlink_to(cache_folder() / name)
    (folder / "library").mkdir()
    path = os.pathsep.join([str(folder / "library"), os.environ.get("PYTHONPATH", "")])
    kept = Kept(folder, {"TIDEGAUGE_CACHE": str(cache), "PYTHONPATH": path})
    rows = pa.table({"id": pa.array([1, 2], pa.int64()), "n": pa.array([1, 2], pa.int64())})
    write_deltalake(folder / "rows", rows, configuration={"delta.enableChangeDataFeed": "true"})
    yield kept
    kept.ask("stop", "--force")


@pytest.fixture
def warm(own: Kept) -> Kept:
    """With a Spark that is warm, and all rows arrived; what a test before it broke is mended."""
    own.flow = f"out_{len([*own.folder.glob('out*')])}"
    own.write(TIMES.format(1))
    own.change(1)
    own.run()
    return own


# In this order Spark is started five times: a test goes on with what the one before has left.


def test_two_commands_at_once_start_one_and_the_next_takes_it_up(own: Kept) -> None:
    own.write(TIMES.format(10))
    first, second = own.start("run", "--select", own.flow), own.start("run", "--select", "other")
    assert [end(first).code, end(second).code] == [0, 0]
    java = own.java()
    own.write(TIMES.format(20))
    own.change(3)
    own.run()
    assert own.rows()[1] == 60
    [one] = own.status()
    assert one["java"] == java
    assert one["used_by"] == []
    assert 0 < one["ends_in"] <= 120
    assert f"process {one['pid']}" in own.ask("status").out
    doctor = end(own.start("doctor", "--json")).json["findings"]
    assert any(found["about"] == "spark" and "kept warm in" in found["says"] for found in doctor)
    for file in (Path(own.env["TIDEGAUGE_CACHE"]) / "warm").iterdir():
        assert file.stat().st_mode & 0o077 == 0


def test_python_tasks_take_the_code_and_environment_of_now_and_leave_nothing(warm: Kept) -> None:
    warm.write(BY_TASKS.format(folder=warm.folder, wait=False))
    elsewhere = warm.folder / "library" / "elsewhere.py"
    objects = []
    for times in (2, 3):
        elsewhere.write_text(f"TIMES = {times}\n")
        warm.change(times)
        warm.run(TG_MORE=str(1000 * times))
        assert warm.rows()[1] == times * times + 1000 * times
        until(lambda: not _pythons(warm.java()))
        objects.append(warm.peek()["objects"])
    assert objects[1] <= objects[0]
    # What the last command has set on its sessions, the default one among them, is not set for the next.
    warm.write(ASKS)
    warm.change(7)
    warm.run()


def test_b2_a_command_that_is_killed_leaves_spark_to_the_next(warm: Kept) -> None:
    java = warm.java()
    (warm.folder / "library" / "elsewhere.py").write_text("TIMES = 4\n")
    warm.write(BY_TASKS.format(folder=warm.folder, wait=True))
    warm.change(4)
    process = warm.start("run", "--select", warm.flow, TG_MORE="0")
    warm.arrived(process)  # in a task
    [one] = warm.status()
    assert [used["pid"] for used in one["used_by"]] == [process.pid]
    refused = warm.ask("stop")
    assert refused.code == 1
    assert f"process {process.pid}" in refused.out
    process.kill()
    end(process)
    until(lambda: not _pythons(java))
    warm.write(TIMES.format(6))
    warm.run()
    assert warm.rows()[1] == 24
    assert warm.java() == java


def test_nobody_else_gets_in(warm: Kept) -> None:
    port = warm.peek()["port"]
    [before] = warm.status()
    stranger = _client(port, "a token that somebody made up")
    with pytest.raises(Py4JError, match="uthenticat"):
        stranger.jvm.java.lang.System.currentTimeMillis()
    folder = Path(warm.env["TIDEGAUGE_CACHE"]) / "warm"
    folder.chmod(0o755)
    warm.change(6)
    refused = end(warm.start("run", "--select", warm.flow))
    folder.chmod(0o700)
    assert refused.code == 1
    assert "others may look into it" in refused.said
    assert "chmod 700" in refused.said
    [after] = warm.status()
    assert after["commands"] == before["commands"]
    # Its keeper is killed between two commands: the socket stays behind, and nobody listens.
    os.kill(after["pid"], signal.SIGKILL)
    until(lambda: not Path(f"/proc/{after['java']}").exists() or _is_zombie(after["java"]))
    assert warm.status() == []


def test_b2_a_java_that_is_killed_fails_the_run_and_the_next_one_starts_another(warm: Kept) -> None:
    java = warm.java()
    warm.write(WAITS.format(folder=warm.folder))
    warm.change(8)
    process = warm.start("run", "--select", warm.flow, "--json")
    warm.arrived(process)
    os.kill(java, signal.SIGKILL)
    (warm.folder / "go").touch()
    failed = end(process)
    assert failed.code == 1, failed.said
    error = failed.flow(warm.flow)["error"]
    assert error["retryable"], error
    assert "Spark" in error["message"], error
    warm.run()
    assert warm.rows()[1] == 40
    assert warm.java() != java
    assert warm.ask("stop").out.startswith("ended: ")
    assert warm.status() == []


@pytest.mark.long
def test_other_settings_get_a_spark_of_their_own(warm: Kept) -> None:
    java = warm.java()
    warm.write(WAITS.format(folder=warm.folder))
    warm.change(2)
    process = warm.start("run", "--select", warm.flow)
    warm.arrived(process)
    # In use: the other command has a Spark for itself, and leaves this one alone.
    assert end(warm.start("run", "--select", "other", AWS_SECRET_ACCESS_KEY="rotated")).code == 0
    [one] = warm.status()
    assert [one["java"], len(one["used_by"])] == [java, 1]
    (warm.folder / "go").touch()
    assert end(process).code == 0
    # Free: it makes room. It is idle for a second, and ends by itself.
    warm.write(TIMES.format(3), keep="1s")
    warm.change(5)
    warm.run(AWS_SECRET_ACCESS_KEY="rotated")
    assert warm.rows()[1] == 15
    until(lambda: warm.status() == [])
    assert not Path(f"/proc/{java}").exists() or _is_zombie(java)


def peek(file: str) -> tuple[int, str]:
    """In a process of its own: come as a command comes, and look how much Java keeps for others."""
    settings = load_project(Path(file)).spark
    found = take_up._lease(socket_of(str(Path.cwd())), settings, take_up.fingerprint_of(settings), set())
    java = _client(found["port"], found["secret"])
    server: Any = JavaObject("GATEWAY_SERVER", java._gateway_client)
    return 0, json.dumps({"port": found["port"], "objects": server.getGateway().getBindings().size()})


def _client(port: int, secret: str) -> ClientServer:
    return ClientServer(
        java_parameters=JavaParameters(port=port, auth_token=secret, auto_convert=True),
        python_parameters=PythonParameters(port=0, eager_load=False),
    )


def _pythons(java: int) -> list[str]:
    """Processes that Java has started for Python tasks."""
    threads = Path(f"/proc/{java}/task").glob("*/children")
    found = [pid for file in threads for pid in file.read_text().split()]
    return [pid for pid in found if b"pyspark.daemon" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def _is_zombie(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
