"""``thence cert``: from nothing to two nodes that know each other, and mistakes in one sentence."""

from __future__ import annotations

import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.transport.peers import Recorder, run
from thence.cli.main import main
from thence.transport.base import Url
from thence.transport.certificates import issue, make_authority
from thence.transport.tls import TlsFiles, TlsTransport


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_two_nodes_know_each_other_by_what_the_commands_of_the_page_make(
    here: Path, root: Path, capsys: pytest.CaptureFixture[str]
):
    page = (root / "docs/howto/tls.md").read_text(encoding="utf-8")
    commands = [line for line in page.splitlines() if line.startswith("thence cert ")]
    assert len(commands) == 3
    for line in commands:
        assert main(line.split()[1:]) == 0
    assert capsys.readouterr().out.splitlines()[-3:] == [
        "certificate  nodes/b/b.pem",
        "its key      nodes/b/b.key",
        "authority    nodes/b/ca.pem",
    ]
    for key in here.rglob("*.key"):
        assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert not (here / "nodes/a/ca.key").exists()

    async def meet() -> None:
        near, far = Recorder(), Recorder()
        a, b = (TlsTransport(TlsFiles.of(here / "nodes" / name, name)) for name in "ab")
        listener = await b.listen(Url("tls", "127.0.0.1", 0), far)
        connection = await a.dial(listener.url, near)
        assert (connection.peer_name, (await far.first()).peer_name) == ("b", "a")
        connection.close("done")
        await near.reason(connection)
        await listener.close()

    run("asyncio", meet())


def test_show_says_whom_it_names_and_until_when(here: Path, capsys: pytest.CaptureFixture[str]):
    make_authority(here)
    issue("zoë", here, here, days=30)
    assert main(["cert", "show", "ca.pem"]) == 0
    out = capsys.readouterr().out
    assert "names     authority\n" in out
    assert main(["cert", "show", TlsFiles.of(".", "zoë").certificate]) == 0
    out = capsys.readouterr().out
    assert "names     node zoë\nstate     valid, 29 days left\n" in out
    assert "issuer    CN=thence authority\n" in out


def test_show_says_when_it_is_not_valid(here: Path, capsys: pytest.CaptureFixture[str]):
    make_authority(here / "old", days=30, now=datetime(2001, 1, 1, tzinfo=UTC))
    assert main(["cert", "show", "old/ca.pem"]) == 1
    assert "state     expired\n" in capsys.readouterr().out
    make_authority(here / "early", now=datetime(2999, 1, 1, tzinfo=UTC))
    assert main(["cert", "show", "early/ca.pem"]) == 1
    assert "state     not valid yet\n" in capsys.readouterr().out


def test_days_and_force(here: Path, capsys: pytest.CaptureFixture[str]):
    words = ["cert", "init", "--out", "ca", "--days", "7"]
    assert main(words) == 0
    assert main(words) == 2
    assert capsys.readouterr().err == (
        "thence: ca/ca.pem, ca/ca.key exists already; --force replaces it\n"
    )
    assert main([*words, "--force"]) == 0
    issued = ["cert", "issue", "a", "--ca", "ca", "--out", "a"]
    assert main([*issued, "--days", "2"]) == 0
    capsys.readouterr()
    assert main(["cert", "show", "a/a.pem"]) == 0
    assert "valid, 1 days left" in capsys.readouterr().out
    assert main(issued) == 2
    assert main([*issued, "--force"]) == 0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["init"], "thence cert init needs --out DIR"),
        (["init", "a", "--out", "x"], "thence cert init takes --out, --days and --force only"),
        (["issue", "a", "--ca", "x"], "thence cert issue needs --out DIR"),
        (["issue", "--ca", "x", "--out", "x"], "needs a NAME and --ca DIR, the folder of init"),
        (["issue", "a", "--out", "x"], "needs a NAME and --ca DIR, the folder of init"),
        (["issue", "a", "--ca", "x", "--out", "y"], "x/ca.pem: No such file or directory"),
        (["issue", "a/b", "--ca", "x", "--out", "y"], "'a/b': a name has no"),
        (["show"], "thence cert show takes one certificate: thence cert show FILE"),
        (["show", "x", "--force"], "thence cert show takes one certificate"),
        (["show", "x"], "x: No such file or directory"),
        (["revoke", "a"], "See: thence cert --help"),
        ([], "See: thence cert --help"),
    ],
)
def test_a_mistake_is_one_sentence(
    words: list[str], sentence: str, here: Path, capsys: pytest.CaptureFixture[str]
):
    assert main(["cert", *words]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("thence: ")
    assert captured.err.count("\n") == 1
    assert sentence in captured.err
    assert not list(here.iterdir())
