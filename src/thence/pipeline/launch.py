"""Start Spark's JVM, and keep what it prints away from the user's terminal.

While it starts, everything the JVM and its launcher print is held: on success it is dropped, on
failure the line that says why becomes the error.  Later lines (what users' functions print in
Python workers, for one) go to stderr; never to stdout, which belongs to the command's result.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from typing import Any, Final

from thence.errors import UnusableInputError

HELD_LINES_MAX: Final = 1000
READ_BYTES: Final = 1 << 16
END_S_MAX: Final = 30
"""How long a JVM that was told to may take to end, and its last output to arrive."""

# What a JVM says besides the reason when it does not start, and what it says in any case.
_CHATTER: Final = re.compile(
    r"WARNING: |\[[\d.]+s\]\[|Using Spark's default|Setting |To adjust |\tat |\s*$"
    r"|[\d/]+ [\d:]+ (?:INFO|WARN) |Error occurred during initialization of VM"
    r"|Error: (?:Could not create the Java Virtual Machine|A (?:fatal exception|JNI error) has)"
)
# What is said on success later on: by workers of transformWithState, which announce each of their
# steps, by a second session in the same JVM, and by a JVM that writes its archive when it ends.
_LATE_CHATTER: Final = re.compile(
    r"\s*$|Setting Spark log level|(?:Starting )?Streaming TransformWithState\w* Python worker"
    r"|(?:Temporary|Reading|Removed temporary) AOT ?[Cc]onfiguration|AOTCache creation is complete"
    r"|Launching child process \S+ to assemble AOT|Picked up JAVA_TOOL_OPTIONS: .*AOTCacheOutput="
    r"|WARNING: package \S+ not in java\.base"
)
_THROWN: Final = re.compile(
    r'(?:Exception in thread "main" )?(?:[a-z]\w*\.)+[A-Z]\w*: (?:\[[A-Z_.]+\] )?'
)
_ADVICE: Final = (
    (r"\benv: .*bash", "Spark's launcher needs bash: install it"),
    (r"heap|memory|Xmx", "give it another amount of memory"),
    (r"[Bb]ind|[Pp]ort", "free the port, or name another in the settings of the session"),
    (r"[Mm]aster", "see --master"),
)


class Output:
    """What the JVM prints: held until ``release``, then forwarded to stderr line by line."""

    def __init__(self, *, verbose: bool) -> None:
        self._verbose = verbose
        self._held: list[str] | None = None if verbose else []
        self._lock = threading.Lock()
        self._reading, self.writing = os.pipe()
        # A daemon: a JVM that outlives this process must not keep it.
        self._thread = threading.Thread(target=self._read, name="spark-output", daemon=True)
        self._thread.start()

    def release(self) -> None:
        """The JVM is up: drop what is held, forward what comes."""
        with self._lock:
            self._held = None

    def so_far(self) -> list[str]:
        """The lines that are held."""
        with self._lock:
            return list(self._held or ())

    def to_the_end(self) -> list[str]:
        """The lines that are held, once nobody can write any more."""
        self._thread.join(timeout=END_S_MAX)
        return self.so_far()

    def _read(self) -> None:
        rest = b""
        with open(self._reading, "rb", buffering=0) as file:
            while data := file.read(READ_BYTES):
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    self._take(line.decode(errors="replace"), "\n")
                if rest.startswith(b"\r"):  # Spark's progress bar, which ends no line
                    self._take(rest.decode(errors="replace"), "")
                    rest = b""
        if rest:
            self._take(rest.decode(errors="replace"), "\n")

    def _take(self, line: str, end: str) -> None:
        with self._lock:
            if self._held is not None:
                if len(self._held) < HELD_LINES_MAX:
                    self._held.append(line)
                return
        if self._verbose or not _LATE_CHATTER.match(line):
            with contextlib.suppress(OSError, ValueError):  # stderr may be closed by now
                sys.stderr.write(line + end)
                sys.stderr.flush()


def launch(settings: Mapping[str, str], *, verbose: bool = False) -> tuple[Any, Output]:
    """Start a JVM with these settings: Py4J's gateway to it, and its output, held until released.

    The JVM is a child of this process and ends with it.
    """
    from pyspark import SparkConf
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    conf = SparkConf(loadDefaults=False)
    for name, value in settings.items():
        conf.set(name, value)
    output = Output(verbose=verbose)
    streams = {"stdout": output.writing, "stderr": output.writing}
    try:
        gateway = launch_gateway(conf, popen_kwargs=streams)
    except (PySparkRuntimeError, OSError) as error:
        os.close(output.writing)
        raise UnusableInputError(why_not_started(output.to_the_end(), error)) from error
    os.close(output.writing)
    return gateway, output


def end(gateway: Any, timeout_s: float = END_S_MAX) -> int | None:
    """End a JVM without a session: its exit code, None if it still runs then.

    Sessions of this process start a new one afterwards.
    """
    from pyspark import SparkContext

    if SparkContext._gateway is gateway:
        SparkContext._gateway = SparkContext._jvm = None
    gateway.shutdown()
    gateway.proc.stdin.close()  # Spark's JVM ends when its input does
    try:
        code: int = gateway.proc.wait(timeout_s)
    except subprocess.TimeoutExpired:
        return None
    return code


def why_not_started(lines: list[str], error: Exception | None = None) -> str:
    """One sentence about a JVM that printed ``lines`` and ended."""
    telling = next((line.strip() for line in lines if not _CHATTER.match(line)), "")
    reason = _THROWN.sub("", telling.removeprefix("Error: ")).rstrip(". ")
    if not reason:
        reason = " ".join(str(error).split()) if isinstance(error, OSError) else "the JVM ended"
    advice = next((text for pattern, text in _ADVICE if re.search(pattern, reason)), None)
    return f"Spark did not start: {reason}" + (f"; {advice}" if advice else "")


@contextlib.contextmanager
def environment(changes: Mapping[str, str]) -> Iterator[None]:
    """These variables, while something reads them: PySpark's launcher takes them from there."""
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
