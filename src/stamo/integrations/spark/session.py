"""Spark itself: a session, work spread over its tasks, and files that every executor needs."""

from __future__ import annotations

import gc
import os
import re
import sys
import tarfile
import tempfile
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stamo.errors import SettingsError, WorkerError, need
from stamo.system.processes import Item, Result

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ATTEMPTS = 4
"""How often a task is tried; inside one machine Spark would give up at the first fault."""
TASKS_PER_CORE, ROUNDS = 4, 2
"""Tasks of one round of work for each core, and rounds under way: those of the next one fill the
cores while the last of one run. Few enough to hold in memory."""

_LOCAL = re.compile(r"local(?:\[(\d+|\*)\])?")


@contextmanager
def spark_session(
    master: str | None = None, *, warehouse: Path | None = None
) -> Iterator[SparkSession]:
    """Connect to Spark, or start it inside this machine, and stop it afterwards.

    Inside this machine the JVM shares the cores with the tasks, so it compiles itself as little as
    it can: half of its processor time, and 11 of 101 seconds of a build, SQL included.

    Args:
        master: Where Spark runs, such as local[2] or spark://host:7077; None is what Spark itself
            is set up for (spark-submit, spark-defaults.conf), else this machine.
        warehouse: Directory for the tables of Spark's catalogue.

    Raises:
        MissingExtraError: pyspark is not installed.
        SettingsError: Spark does not start.
    """
    need("pyspark.sql", "spark", "Spark as the engine", package="pyspark")
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    local = _LOCAL.fullmatch(master or "")
    builder = SparkSession.builder.appName("stamo")
    if master is not None:
        # Local Spark tries a task again, as a cluster does.
        builder = builder.master(f"local[{local[1] or 1},{ATTEMPTS}]" if local else master)
    options: dict[str, Any] = {
        "spark.ui.showConsoleProgress": False,
        "spark.sql.execution.arrow.pyspark.enabled": True,
    }
    if local:
        os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1")
        options |= {"spark.ui.enabled": False, "spark.driver.host": "localhost"}
        n_cores = os.cpu_count() or 1 if local[1] in (None, "*") else int(local[1])
        options["spark.sql.shuffle.partitions"] = 2 * n_cores
    if warehouse is not None:
        options["spark.sql.warehouse.dir"] = str(warehouse.absolute())
    for name, value in options.items():
        builder = builder.config(name, value)
    try:
        spark = builder.getOrCreate()
    except (PySparkException, RuntimeError, OSError) as error:
        reason = str(error).splitlines()[0]
        raise SettingsError(
            f"Spark does not start at {master!r} ({reason}); check the address of the master and "
            "that a Java is installed."
        ) from error
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        spark.stop()


class SparkWorkers:
    """Do the work of `stamo.system.processes.Workers` in tasks of Spark.

    Items and results travel through the driver, so both should be small: numbers and names of
    files, not texts. A task that fails is run again by Spark, so functions that write files do it
    at once and under the same name.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._context = spark.sparkContext
        self.n_workers: int = self._context.defaultParallelism

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Yield `function(item)` for each item in order, in rounds of tasks.

        Raises:
            WorkerError: A task failed as often as Spark tries it.
        """
        waiting, group, n_items = iter(items), uuid.uuid4().hex, self.n_workers * TASKS_PER_CORE
        rounds: deque[Future[list[Result]]] = deque()
        with ThreadPoolExecutor(ROUNDS) as threads:
            try:
                while True:
                    while len(rounds) < ROUNDS and (some := list(islice(waiting, n_items))):
                        rounds.append(threads.submit(self._run, function, some, group))
                    if not rounds:
                        return
                    yield from rounds.popleft().result()
            finally:
                if rounds:  # nobody waits for them any more
                    self._context.cancelJobGroup(group)

    def _run(
        self, function: Callable[[Item], Result], items: list[Item], group: str
    ) -> list[Result]:
        """Run a round of tasks, one for each item."""
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        called = getattr(function, "func", function)
        self._context.setJobGroup(group, getattr(called, "__name__", "tasks"))
        tasks = self._context.parallelize(items, len(items))
        try:
            found: list[Result] = tasks.mapPartitions(partial(_each, function)).collect()
        except (Py4JJavaError, PySparkException) as error:
            java = getattr(error, "java_exception", None)
            lines = str(error if java is None else java.getMessage()).splitlines()
            python = [line for line in lines if _PYTHON_ERROR.match(line)]
            reason = (python[-1:] or lines or ["no reason was given"])[0].strip()
            raise WorkerError(
                f"Spark gave up after {ATTEMPTS} attempts at a task ({reason}); see its log, and "
                "run the same command again to go on."
            ) from error
        return found


_PYTHON_ERROR = re.compile(r"(?!org\.|java\.|scala\.)[A-Za-z_][\w.]*(?:Error|Exception): ")


def _each(function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    yield from map(function, items)
    _keep_what_is_loaded()


@cache
def _keep_what_is_loaded() -> None:
    """Spare this process looking at its modules after every task, where Spark collects garbage.

    It took 40 ms each time, a tenth of a task that reads a dump.
    """
    gc.freeze()


class Shipment:
    """Files and folders that every executor needs: where it finds them.

    Inside one machine, and where the executors see the same paths, nothing is moved. Elsewhere a
    file is sent to each executor once, and a folder as an archive that is unpacked there.
    """

    def __init__(self, spark: SparkSession, *, shared: bool | None = None) -> None:
        """Choose a way.

        Args:
            spark: The session.
            shared: Whether executors see this machine's paths; None says so of local Spark only.
        """
        self._context = spark.sparkContext
        is_local = str(self._context.master).startswith("local")
        self.is_shared = is_local if shared is None else shared
        self._folder = tempfile.TemporaryDirectory(prefix="stamo-ship-")

    def send(self, path: Path, name: str) -> Path:
        """Send a file or folder under a name of its own; return what `shipped` finds it by.

        Raises:
            SettingsError: There is no such file or folder.
        """
        if not path.exists():
            raise SettingsError(f"There is no {str(path)!r} to send to Spark; check the path.")
        if self.is_shared:
            return path.absolute()
        inside = Path(self._folder.name)
        if path.is_dir():
            with tarfile.open(inside / f"{name}.tar", "w") as archive:
                for file in sorted(path.rglob("*")):
                    archive.add(file, arcname=str(file.relative_to(path)), recursive=False)
            self._context.addArchive(f"{inside / name}.tar#{name}")
        else:
            (inside / name).write_bytes(path.read_bytes())
            self._context.addFile(str(inside / name))
        return Path(name)

    def close(self) -> None:
        """Remove what was made to be sent; the executors have theirs."""
        self._folder.cleanup()


def shipped(path: Path) -> Path:
    """Return where something that was sent is, on the machine where this is asked."""
    if path.is_absolute():
        return path
    from pyspark import SparkFiles

    return Path(SparkFiles.get(str(path)))
