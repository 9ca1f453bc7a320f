"""The one builder of Spark sessions: tuned on this machine, untouched where another decides.

On this machine (no master, or ``local[...]``) everything is set for a short start and a quiet
terminal.  Under spark-submit, with a session that runs already, or with the master of a cluster,
nothing is set but what the caller gave: memory, hosts, ports and logs are the cluster's business.
"""

from __future__ import annotations

import atexit
import os
import re
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from thence.errors import UnusableInputError
from thence.pipeline.archive import (
    WITHOUT_ARCHIVE,
    Archive,
    archive_for,
    damaged,
    joined,
    make_later,
)
from thence.pipeline.jvm import find_java, java_home
from thence.pipeline.launch import Output, end, environment, launch, why_not_started

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MEMORY: Final = "2g"
"""The heap of Spark's JVM on this machine; Python workers need theirs besides."""
CONNECT_S_MAX: Final = 10

LOCAL: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",  # what goes wrong comes as an exception
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.shuffle.partitions": "16",
    "spark.sql.files.maxPartitionBytes": "32m",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.parquet.compression.codec": "zstd",
}
"""Settings of a session on this machine, besides those that depend on it."""
USERS_VARIABLES: Final = ("PYSPARK_PYTHON", "SPARK_LOCAL_IP")
"""Of the environment: those that are the user's if they are set."""
JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
_MEMORY: Final = re.compile(r"[1-9]\d*[kmgt]b?", re.IGNORECASE)


def spark_session(
    master: str | None = None,
    memory: str | None = None,
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """The session that runs, or a new one.

    ``master`` is Spark's: None for this machine, unless spark-submit or a running session has
    decided.  ``memory`` is the driver's, such as 2g (this machine: ``MEMORY``).  ``settings`` are
    Spark's and come last: they win over everything set here; ``spark.log.level`` among them also
    shows what Spark's JVM prints.  A session that runs already keeps what only a start can set.

    Ends with the process, or by its ``stop``.
    """
    from pyspark.sql import SparkSession

    given = dict(settings or {})
    if memory is not None:
        if not _MEMORY.fullmatch(memory):
            raise UnusableInputError(f"memory {memory!r} is not an amount such as 512m or 2g")
        given.setdefault("spark.driver.memory", memory)
    if _running_master() is None and not _decided_elsewhere(master):
        if master is None or master.startswith("local"):
            return _start_here(master or "local[*]", given)
        return _start_on_cluster(master, given)
    with _interrupts_as_they_were():
        session = SparkSession.builder.config(map=dict(given)).getOrCreate()
    if master is not None and session.sparkContext.master != master:
        raise UnusableInputError(
            f"a Spark session on {session.sparkContext.master} runs already, so none on {master}"
            " can start; stop it first, or name no master"
        )
    return session


@contextmanager
def _interrupts_as_they_were() -> Iterator[None]:
    """Leave Ctrl-C to a program that has set its own handler: a context of Spark's replaces it.

    With Python's own, Spark's stays, which cancels jobs: in a notebook that is what one wants.
    """
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        own = before not in (signal.default_int_handler, None)
        if own and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)


def spark_home() -> Path:
    """Where Spark is: the pyspark package, or SPARK_HOME if it holds the same version."""
    import pyspark

    named = os.environ.get("SPARK_HOME")
    home = Path(named or Path(pyspark.__file__).parent)
    ours, jar = pyspark.__version__, "jars/spark-core_*-{}.jar"
    if list(home.glob(jar.format(ours))):
        return home
    if not named:
        raise UnusableInputError(
            f"the package pyspark in {home} comes without Spark; install pyspark {ours}, the whole"
        )
    others = sorted(home.glob(jar.format("*")))
    if others:
        what = f"holds Spark {others[0].stem.rpartition('-')[2]}; the package pyspark is {ours}"
    else:
        what = "holds no Spark" if home.is_dir() else "is no folder"
    advice = (
        "unset it, or install the pyspark that belongs to it" if others else "unset or correct it"
    )
    raise UnusableInputError(f"SPARK_HOME is {home}, which {what}: {advice}")


def _running_master() -> str | None:
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    return None if context is None else context.master


def _decided_elsewhere(master: str | None) -> bool:
    """Whether spark-submit started this process, or the environment names a server or master."""
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return True
    named = "SPARK_REMOTE" in os.environ or "--master" in os.environ.get("PYSPARK_SUBMIT_ARGS", "")
    return named and master is None


def _start_here(master: str, given: dict[str, str]) -> SparkSession:
    import pyspark

    java = find_java()
    archive = archive_for(java, spark_home(), pyspark.__version__)
    if JAVA_OPTIONS in given:
        archive = None  # the caller's options are all there is
    chosen = {
        "spark.master": master,
        "spark.app.name": "thence",
        "spark.driver.memory": MEMORY,
        # Workers import the thence that is imported here, however this process found it.
        "spark.executorEnv.PYTHONPATH": os.fspath(Path(__file__).parents[2]),
        **LOCAL,
        JAVA_OPTIONS: joined(archive.options() if archive else WITHOUT_ARCHIVE),
        **given,
    }
    variables = {
        "SPARK_LOCAL_IP": "127.0.0.1",  # else Spark looks up the name of this machine
        "PYSPARK_PYTHON": sys.executable,
        **{name: os.environ[name] for name in USERS_VARIABLES if name in os.environ},
        "JAVA_HOME": os.fspath(java_home(java)),
    }
    session = _start(chosen, variables, archive)
    if archive is not None:
        archive.used()
        atexit.register(make_later, archive)  # which does nothing if there is one
    return session


def _start_on_cluster(master: str, given: dict[str, str]) -> SparkSession:
    _reach(master)
    spark_home()
    chosen = {"spark.app.name": "thence", **given, "spark.master": master}
    return _start(chosen, {"JAVA_HOME": os.fspath(java_home(find_java()))})


def _start(
    settings: dict[str, str], variables: Mapping[str, str], archive: Archive | None = None
) -> SparkSession:
    """A session, in the JVM that an earlier session of this process left or in a new one."""
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    gateway = output = None
    with environment(variables):
        if SparkContext._gateway is None:
            gateway, output = _launch(settings, archive)
        try:
            with _interrupts_as_they_were():
                SparkContext(conf=SparkConf().setAll(list(settings.items())), gateway=gateway)
            session = SparkSession.builder.config(map=dict(settings)).getOrCreate()
        except Exception as error:
            # Py4J's errors carry Java's stack; what matters is the exception's own line.
            lines = [line.removeprefix(": ") for line in str(error).splitlines()[1:]]
            if gateway is not None:
                end(gateway)  # or the next attempt would be made in a JVM that has failed
            raise UnusableInputError(why_not_started(lines, error)) from error
    if output is not None:
        output.release()
    return session


def _launch(settings: dict[str, str], archive: Archive | None) -> tuple[Any, Output]:
    """A JVM; if it does not start from the archive, one without."""
    verbose = settings.get("spark.log.level", LOCAL["spark.log.level"]) != "OFF"
    try:
        gateway, output = launch(settings, verbose=verbose)
    except UnusableInputError:
        if archive is None or not archive.exists:
            raise
        # Whether or not it is to blame: the next attempt says what is.
        archive.drop()
        return launch({**settings, JAVA_OPTIONS: joined(WITHOUT_ARCHIVE)}, verbose=verbose)
    if archive is not None and damaged(output.so_far()):
        archive.drop()
    return gateway, output


def _reach(master: str) -> None:
    """Say at once that no master answers; Spark itself tries for a minute and then crashes."""
    if not master.startswith("spark://"):
        return
    for place in master.removeprefix("spark://").split(","):
        host, _, port = place.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), CONNECT_S_MAX).close()
        except (OSError, ValueError, OverflowError):
            continue
        return
    raise UnusableInputError(f"no Spark master answers at {master}; is it running there?")
