"""``thence serve`` as a process: what it says, whom it lets in, how it ends."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from redis.backoff import ExponentialBackoff, NoBackoff
from redis.exceptions import ConnectionError, RedisError
from redis.retry import Retry

from tests.cli.test_node import PATIENCE_S, Capture, Process, members
from tests.tracked import ROOT
from thence.cli.main import main
from thence.errors import JournalError
from thence.journal.sqlite import SqliteJournal
from thence.lab.processes import free_ports
from thence.store.server import STOP_S
from thence.trace.check import check_paths
from thence.transport.certificates import issue, make_authority

READY = r"node (\S+) is ready for clients on (\S+):(\d+): (redis-cli \S.*?); "


class Server(Process):
    """A node of the store, and its clients."""

    program = "serve"

    def client(self, **options: Any) -> Any:
        """One of them."""
        port = int(self.expect(READY)[3])
        retry = Retry(NoBackoff(), 0)  # a request is made once
        options = {"decode_responses": True, "socket_timeout": PATIENCE_S, **options}
        return Redis(port=port, retry=retry, **options)


@pytest.fixture
def start() -> Iterator[type[Server]]:
    """Starts nodes; none outlives its test."""
    started: list[Server] = []

    class Started(Server):
        def __init__(self, *words: str, **environ: str) -> None:
            super().__init__(*words, **environ)
            started.append(self)

    yield Started
    for node in started:
        if node.process.poll() is None:
            node.process.kill()
            node.end()


def group(folder: Path, names: str) -> dict[str, list[str]]:
    """The arguments of nodes that know each other."""
    path = members(folder, names)
    return {name: ["--name", name, "--members", path, "--resp", "127.0.0.1:0"] for name in names}


def has_ipv6() -> bool:
    """Whether this machine can listen there."""
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


@pytest.mark.skipif(shutil.which("redis-cli") is None, reason="no redis-cli")
def test_alone_it_serves_this_machine_and_says_that_nothing_is_kept(start: type[Server]):
    (port,) = free_ports(1)
    node = start("--resp", f"127.0.0.1:{port}")
    line = node.expect(READY)
    assert line[0].startswith(f"node store is ready for clients on 127.0.0.1:{port}: redis-cli -p")
    assert "gone when it stops (--data DIR keeps it)" in node.lines[0]
    with node.client() as client:
        assert client.set("k", "v")
        assert client.info("replication")["members"] == 1
        assert client.execute_command("WAIT", 0, 100) == 0
    said = subprocess.run([*line[4].split(), "GET", "k"], capture_output=True, check=True).stdout
    assert said == b"v\n"
    assert node.stop() == 0
    assert len(node.lines) == 1
    assert not node.errors


def test_with_data_it_comes_back_after_a_stop_and_after_a_kill(start: type[Server], tmp_path: Path):
    words = ["--resp", "127.0.0.1:0", "--data", str(tmp_path / "data")]
    node = start(*words)
    with node.client() as client:
        client.set("k", "v")
        client.rpush("l", "a", "b")
    assert node.stop() == 0
    assert f"data in {tmp_path / 'data'}" in node.lines[0]
    node = start(*words)
    with node.client() as client:
        assert client.get("k") == "v"
        client.incr("n")
        client.delete("k")
    node.process.kill()
    node.end()
    node = start(*words)
    with node.client() as client:
        assert client.get("n") == "1"
        assert client.lrange("l", 0, -1) == ["a", "b"]
        assert client.exists("k") == 0
    assert node.stop(signal.SIGINT) == 0


def test_nodes_with_peers_are_one_store_and_leave_clean_traces(start: type[Server], tmp_path: Path):
    trace = ["--trace", str(tmp_path / "trace"), "--trace-payload"]
    nodes = {name: start(*words, *trace) for name, words in group(tmp_path, "abc").items()}
    for node in nodes.values():
        node.expect("is connected to ., .")
    clients = {name: node.client() for name, node in nodes.items()}
    clients["a"].set("k", "v")
    assert clients["a"].execute_command("WAIT", 2, 10_000) == 2
    assert clients["c"].get("k") == "v"
    for client in clients.values():
        client.close()
    assert [node.stop() for node in nodes.values()] == [0, 0, 0]
    assert check_paths([tmp_path / "trace"]).ok


def test_clients_finish_before_it_stops(start: type[Server]):
    node = start("--resp", "127.0.0.1:0")
    client = node.client()
    with client.pipeline(transaction=False) as pipe:
        for number in range(1000):
            pipe.set(f"k{number}", number)
        assert all(pipe.execute())
    assert node.stop() == 0
    with pytest.raises(ConnectionError):
        client.ping()
    client.close()


def test_a_second_signal_does_not_wait_for_clients(start: type[Server]):
    node = start("--resp", "127.0.0.1:0", "--resp-output-bytes-pause", "1024")
    with node.client() as client:
        client.set("k", "x" * 1_000_000)
    at = ("127.0.0.1", int(node.expect(READY)[3]))
    with socket.create_connection(at) as reader:  # which does not read
        reader.sendall(b"GET k\r\n" * 100)
        node.process.send_signal(signal.SIGTERM)
        with contextlib.suppress(OSError):
            while True:
                socket.create_connection(at).close()
        begin = time.monotonic()
        assert node.stop() == 128 + signal.SIGTERM
        assert time.monotonic() - begin < STOP_S / 2
    assert not node.errors


def test_a_client_may_stop_it(start: type[Server]):
    node = start("--resp", "127.0.0.1:0")
    with node.client() as client:
        client.shutdown(nosave=True)
    assert node.end() == 0


# ---- who is let in ------------------------------------------------------------------------------


@pytest.mark.parametrize("source", ["file", "environment"])
def test_a_password_is_asked_for(start: type[Server], tmp_path: Path, source: str):
    path = tmp_path / "password"
    path.write_text("a b c\n")
    words = ["--resp-password-file", str(path)] if source == "file" else []
    environ = {} if source == "file" else {"THENCE_RESP_PASSWORD": "a b c"}
    node = start("--resp", "127.0.0.1:0", *words, **environ)
    with node.client() as stranger, pytest.raises(RedisError, match="authenticate"):
        stranger.get("k")
    with (
        node.client(password="wrong") as stranger,
        pytest.raises(RedisError, match="invalid username-password"),
    ):
        stranger.get("k")
    with node.client(password="a b c") as client:
        assert client.set("k", "v")
    assert node.stop() == 0
    assert not [line for line in (*node.lines, *node.errors) if "a b c" in line]


def test_clients_over_ipv6(start: type[Server], capsys: Capture):
    (port,) = free_ports(1)
    at = f"[::1]:{port}"
    if not has_ipv6():
        assert f"cannot serve clients on {at}: " in one_sentence(capsys, "--resp", at)
        return
    node = start("--resp", at)
    assert node.expect(READY)[4] == f"redis-cli -h ::1 -p {port}"
    with node.client(host="::1") as client:
        assert client.set("k", "v")
    assert f"cannot serve clients on {at}: Address already in use" in one_sentence(
        capsys, "--resp", at
    )
    assert node.stop() == 0


def test_clients_over_tls(start: type[Server], tmp_path: Path):
    make_authority(tmp_path / "ca")
    files = issue("localhost", tmp_path / "ca", tmp_path / "certificates")
    words = ["--resp-cert", str(files.certificate), "--resp-key", str(files.key)]
    node = start("--resp", "127.0.0.1:0", *words, "--resp-ca", str(files.ca))
    assert node.expect(READY)[4].startswith("redis-cli --tls -p ")
    options = {"ssl": True, "ssl_ca_certs": str(files.ca), "ssl_check_hostname": False}
    own = {"ssl_certfile": str(files.certificate), "ssl_keyfile": str(files.key)}
    with node.client(**options, **own) as client:
        assert client.set("k", "v")
    with node.client(**options) as stranger, pytest.raises(RedisError):
        stranger.get("k")
    with node.client() as stranger, pytest.raises(RedisError):
        stranger.get("k")
    assert node.stop() == 0


def test_limits_are_settings(start: type[Server]):
    limits = ["--resp-clients-max", "2", "--resp-value-bytes-max", "100000"]
    node = start("--resp", "127.0.0.1:0", *limits)
    with node.client() as one, node.client() as two, node.client() as three:
        assert one.ping()
        assert two.ping()
        with pytest.raises(RedisError, match="max number of clients"):
            three.ping()
        with pytest.raises(RedisError):
            one.set("k", "x" * 300_000)
        assert two.set("k", "x" * 90_000)
    assert node.stop() == 0


# ---- members that come and go -------------------------------------------------------------------

ELASTIC = ("--listen", "tcp://127.0.0.1:0", "--resp", "127.0.0.1:0")
HASTY = ("--membership-beat-ms", "50", "--membership-suspect-s", "0.4", "--membership-evict-s", "1",
         "--membership-suspect-phi", "0")  # fmt: skip


def three(start: type[Server], *words: str) -> list[Server]:
    """A founder and two that joined it."""
    nodes = [start("--name", "a", "--elastic", *ELASTIC, *HASTY, *words)]
    url = nodes[0].expect(r"nodes reach it on (tcp://[^;]*)")[1]
    for name in "bc":
        nodes.append(start("--name", name, "--join", url, *ELASTIC, *HASTY, *words))
        nodes[-1].expect(READY)
    return nodes


def test_a_newcomer_has_the_data_and_one_that_stops_leaves(start: type[Server]):
    a = start("--name", "a", "--elastic", *ELASTIC)
    url = a.expect(r"nodes reach it on (tcp://[^;]*)")[1]
    with a.client() as client:
        client.mset({f"k{number}": number for number in range(1000)})
        b = start("--name", "b", "--join", url, *ELASTIC)
        with b.client() as other:
            assert other.dbsize() == 1000
            other.set("from", "b")
            assert other.execute_command("WAIT", 1, 10_000) == 1
        assert client.get("from") == "b"
        assert b.stop() == 0
        deadline = time.monotonic() + PATIENCE_S
        while client.info("replication")["members"] != 1:
            assert time.monotonic() < deadline
            time.sleep(0.02)
    assert a.stop() == 0


def evicted(node: Server) -> None:
    """Have a node be silent until the others go on without it."""
    node.process.send_signal(signal.SIGSTOP)
    time.sleep(3.0)
    node.process.send_signal(signal.SIGCONT)


def test_an_evicted_node_joins_again_with_the_data_of_the_others(start: type[Server]):
    a, b, c = three(start, "--rejoin")
    with c.client() as client, a.client() as other:
        client.set("before", "1")
        assert client.execute_command("WAIT", 2, 10_000) == 2
        evicted(c)
        other.set("meanwhile", "2")
        c.expect(r"node c: c was evicted from main: .*; it joins again")
        c.expect(r"node c is in main again, as c#2")
        assert client.mget("before", "meanwhile") == ["1", "2"]
        assert client.set("after", "3")
        assert client.execute_command("WAIT", 2, 10_000) == 2
        assert other.get("after") == "3"
    assert [node.stop() for node in (c, b, a)] == [0, 0, 0]


@pytest.mark.parametrize(("how", "with_data"), [("signal", False), ("client", True)])
def test_one_that_waits_to_join_again_can_be_stopped(
    start: type[Server], tmp_path: Path, how: str, with_data: bool
):
    a, b, c = three(start)
    words = ["--data", str(tmp_path)] if with_data else []
    url = a.expect(r"nodes reach it on (tcp://[^;]*)")[1]
    d = start("--name", "d", "--join", url, *ELASTIC, *HASTY, "--rejoin", *words)
    with d.client() as client:
        client.set("k", "v")
        assert client.execute_command("WAIT", 3, 10_000) == 3
    d.process.send_signal(signal.SIGSTOP)
    a.expect("evicted group=main member=d", errors=True)
    for node in (b, c):  # without them a lets nobody in
        node.process.kill()
        node.end()
    d.process.send_signal(signal.SIGCONT)
    d.expect("it joins again")
    if how == "client":
        with d.client() as client:
            client.shutdown(nosave=True)
        assert d.end() == 0
    else:
        assert d.stop() == 0
    assert not [line for line in d.errors if "Traceback" in line]


def test_without_rejoin_an_evicted_node_ends_and_says_why(start: type[Server]):
    a, b, c = three(start)
    evicted(c)
    assert c.end() == 1
    assert [line for line in c.errors if "c was evicted from main" in line]
    assert [node.stop() for node in (b, a)] == [0, 0]


# ---- what goes wrong ----------------------------------------------------------------------------


def one_sentence(capsys: Capture, *words: str, code: int = 2) -> str:
    """What it says when it cannot start."""
    assert main(["serve", *words]) == code
    said = capsys.readouterr().err
    assert said.startswith("thence: ")
    assert len(said.splitlines()) == 1
    return said


def test_a_port_that_is_taken_is_one_sentence(capsys: Capture):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = one_sentence(capsys, "--resp", f"127.0.0.1:{port}")
    assert f"cannot serve clients on 127.0.0.1:{port}: Address already in use" in said
    assert "--resp" in said


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--resp", "0.0.0.0:0"], "set a password"),
        (["--resp", "nowhere"], "--resp is 'nowhere'; expected HOST:PORT"),
        (["--resp-password-file", "absent"], "absent: No such file"),
        (["--resp-password-file", "empty"], "empty: expected a password"),
        (["--resp-cert", "absent"], "both a certificate and its key"),
        (["--resp-cert", "absent", "--resp-key", "absent"], "absent: No such file"),
        (["--resp-ca", "absent"], "goes with TLS only"),
        (["--resp-password", "secret"], "--resp-password"),
        (["--group", "one", "--group", "two"], "give --group once"),
        (["--engine", "vector"], "the store needs the engine tagged"),
        (["--no-stability"], "the store needs the engine tagged, and stability"),
        (["--listen", "tcp://127.0.0.1:0"], "this node has no name"),
        (["--data", "absent/folder"], "absent/folder: No such file or directory"),
    ],
)
def test_settings_it_cannot_use_are_one_sentence(
    words: list[str], sentence: str, capsys: Capture, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").write_text("\n")
    at = [] if "--resp" in words else ["--resp", "127.0.0.1:0"]
    assert sentence in one_sentence(capsys, *at, *words)


def test_the_data_of_another_node_is_one_sentence(
    start: type[Server], tmp_path: Path, capsys: Capture
):
    node = start("--resp", "127.0.0.1:0", "--data", str(tmp_path))
    node.expect(READY)
    said = one_sentence(capsys, "--resp", "127.0.0.1:0", "--data", str(tmp_path))
    assert "main-store.journal" in said  # in use
    assert node.stop() == 0
    os.rename(tmp_path / "main-store.journal", tmp_path / "main-b.journal")
    words = ["--resp", "127.0.0.1:0", "--name", "b"]
    assert "main-b.journal" in one_sentence(capsys, *words, "--data", str(tmp_path))


def test_a_full_disk_ends_it_with_a_clear_sentence_and_loses_nothing_acknowledged(
    start: type[Server], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
):
    commits = 0
    commit = SqliteJournal.commit

    def full(self: SqliteJournal) -> None:
        nonlocal commits
        commits += 1
        if commits > 30:
            raise JournalError(f"{tmp_path}: {os.strerror(errno.ENOSPC)}")
        commit(self)

    (port,) = free_ports(1)
    acked: list[int] = []
    said: list[str] = []

    def write() -> None:
        with Redis(port=port, retry=Retry(ExponentialBackoff(), 20)) as client:
            client.ping()
            client.set_retry(Retry(NoBackoff(), 0))
            try:
                while True:
                    acked.append(client.incr("n"))
            except RedisError as error:
                said.append(str(error))

    writer = threading.Thread(target=write)
    words = ["--resp", f"127.0.0.1:{port}", "--data", str(tmp_path)]
    with monkeypatch.context() as patch:
        patch.setattr(SqliteJournal, "commit", full)
        writer.start()
        assert main(["serve", *words]) == 1
    writer.join(PATIENCE_S)
    assert f"thence: {tmp_path}: No space left on device" in capsys.readouterr().err
    assert "No space left on device" in said[0]
    assert acked == list(range(1, len(acked) + 1))
    assert acked
    node = start(*words)
    with node.client() as client:
        assert int(client.get("n")) in (len(acked), len(acked) + 1)
    assert node.stop() == 0


def test_a_password_on_the_command_line_is_no_flag():
    from thence.config import SETTINGS

    assert not [key for key in SETTINGS if re.search(r"password$", key)]


# ---- what the documentation shows ---------------------------------------------------------------


@pytest.mark.skipif(shutil.which("redis-cli") is None, reason="no redis-cli")
def test_the_tutorial_shows_what_happens(tmp_path: Path):
    text = (ROOT / "docs" / "tutorial" / "store.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    (begin, first, last) = [block for language, block in blocks if language == "sh"]
    expected = [block for language, block in blocks if language == "text"][1:]
    ports = dict(zip((7001, 7002, 7003, 6379, 6380, 6381), free_ports(6), strict=True))
    pings = "".join(
        f"until redis-cli -p {p} PING > pong; do sleep 0.1; done\n" for p in ports if p < 7000
    )
    ready = "until [ $(grep -c 'is connected to' log) = 3 ]; do sleep 0.1; done 2> /dev/null\n"
    script = (
        begin.replace(" &\n", " >> log 2>&1 &\n") + f"{{ {pings} }} 2> pings\n{ready}"
        f"{first}echo ----\n{last}kill $(jobs -p)\nwait\n"
    )
    for port, chosen in ports.items():
        script = re.sub(rf"\b{port}\b", str(chosen), script)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with subprocess.Popen(
        ["bash", "-c", script], cwd=tmp_path, env={**os.environ, "PATH": path}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    ) as shell:  # fmt: skip
        try:
            shown, errors = shell.communicate(timeout=PATIENCE_S)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)  # the nodes, if the shell did not get so far
    assert shown.split("----\n") == expected, errors
