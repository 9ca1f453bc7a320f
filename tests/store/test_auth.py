"""Passwords and certificates: what a stranger can do, which is little."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Any

import pytest

from tests.store.raw import Client, request, run, served
from tests.transport.peers import each_loop
from thence.errors import UnusableInputError
from thence.store.listening import tls_context
from thence.store.settings import Settings
from thence.transport.certificates import issue, make_authority
from thence.transport.tls import TlsFiles

NOAUTH = "NOAUTH Authentication required."
SECRET = "s3cret"


def test_before_the_password_nothing_is_done():
    async def main() -> None:
        async with served(password=SECRET) as site:
            client = await site.client()
            for words in (["GET", "k"], ["SET", "k", "v"], ["PING"], ["COMMAND"], ["MULTI"]):
                assert str(await client.do(*words)) == NOAUTH
            assert str(await client.do("SUBSCRIBE", "c")) == NOAUTH
            assert str(await client.do("FLUSHALL")) == NOAUTH
            assert str(await client.do("HELLO", "3")).startswith(
                "NOAUTH HELLO must be called with the client already authenticated, otherwise the "
                "HELLO AUTH <user> <pass> option can be used"
            )
            assert str(await client.do("AUTH", "wrong")).startswith("WRONGPASS")
            assert str(await client.do("AUTH", "default", "wrong")).startswith("WRONGPASS")
            assert str(await client.do("AUTH", "someone", SECRET)).startswith("WRONGPASS")
            assert str(await client.do("GET", "k")) == NOAUTH
            assert await client.do("AUTH", SECRET) == b"OK"
            assert await client.do("GET", "k") is None
            await client.do("RESET")
            assert str(await client.do("GET", "k")) == NOAUTH

    run(main())


def test_requests_behind_the_password_are_run_in_the_same_breath():
    async def main() -> None:
        async with served(password=SECRET) as site:
            client = await site.client()
            client.write(request("GET", "k") + request("AUTH", SECRET) + request("SET", "k", "v"))
            client.write(request("ECHO", *["x" * 20_000]))
            assert str(await client.reply()) == NOAUTH
            assert [await client.reply() for _ in range(2)] == [b"OK", b"OK"]
            assert await client.reply() == b"x" * 20_000

    run(main())


@pytest.mark.parametrize("login", [["HELLO", "3", "AUTH", "default", SECRET], ["AUTH", SECRET]])
def test_either_way_of_saying_it(login: list[str]):
    async def main() -> None:
        async with served(password=SECRET) as site:
            client = await site.client()
            await client.do(*login)
            assert await client.do("PING") == b"PONG"

    run(main())


def test_a_failed_hello_changes_nothing():
    async def main() -> None:
        async with served(password=SECRET) as site:
            client = await site.client()
            reply = await client.do("HELLO", "3", "SETNAME", "n", "AUTH", "default", "wrong")
            assert str(reply).startswith("WRONGPASS")
            await client.do("AUTH", SECRET)
            assert await client.do("CLIENT", "GETNAME") is None
            assert (await client.do("HELLO"))[5] == 2

    run(main())


@pytest.mark.parametrize(
    "data", [b"*11\r\n", b"*2\r\n$4\r\nAUTH\r\n$16385\r\n" + b"x" * 16385 + b"\r\n"]
)
def test_a_stranger_may_not_send_much(data: bytes):
    async def main() -> None:
        async with served(password=SECRET) as site:
            client = await site.client()
            client.write(data)
            assert b"-ERR Protocol error: unauthenticated " in await client.rest()

    run(main())


def test_the_password_is_in_no_answer():
    async def main() -> None:
        async with served(password=SECRET) as site:
            client = await site.client()
            await client.do("AUTH", SECRET)
            said = [await client.do("CONFIG", "GET", "*"), await client.do("INFO", "everything")]
            said += [await client.do("CLIENT", "LIST"), repr(site.server.shared.settings)]
            assert SECRET not in str(said)

    run(main())


# ---- TLS


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An authority, certificates of a server and a client, and another authority's client."""
    folder = tmp_path_factory.mktemp("certificates")
    for authority, names in (("ours", ["server", "client"]), ("theirs", ["stranger"])):
        make_authority(folder / authority)
        for name in names:
            issue(name, folder / authority, folder / authority)
    return folder


def files(folder: Path, name: str, authority: str = "ours") -> TlsFiles:
    return TlsFiles.of(folder / authority, name)


def server_settings(folder: Path, authority: bool) -> dict[str, Any]:
    own = files(folder, "server")
    return {
        "tls_certificate": own.certificate,
        "tls_key": own.key,
        "tls_authority": own.ca if authority else "",
    }


def client_context(folder: Path, shown: TlsFiles | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=files(folder, "server").ca)
    context.check_hostname = False
    if shown is not None:
        context.load_cert_chain(shown.certificate, shown.key)
    return context


@each_loop
def test_with_a_certificate_all_is_said_over_tls(loop: str, folder: Path):
    async def main() -> None:
        async with served(**server_settings(folder, False)) as site:
            client = await site.client(ssl=client_context(folder, None))
            client.write(request("SET", "k", "v" * 100_000) * 20 + request("GET", "k") * 20)
            assert [await client.reply() for _ in range(20)] == [b"OK"] * 20
            assert [len(await client.reply()) for _ in range(20)] == [100_000] * 20
            assert await client.do("QUIT") == b"OK"
            assert await client.rest() == b""

    run(main(), loop)


async def _is_let_in(client: Client) -> bool:
    try:
        return bool(await client.do("PING") == b"PONG")
    except (ConnectionError, EOFError, ssl.SSLError):
        return False


@each_loop
def test_with_an_authority_clients_show_a_certificate(loop: str, folder: Path):
    async def main() -> None:
        async with served(**server_settings(folder, True)) as site:
            known = client_context(folder, files(folder, "client"))
            assert await _is_let_in(await site.client(ssl=known))
            for shown in (None, files(folder, "stranger", "theirs")):
                try:
                    client = await site.client(ssl=client_context(folder, shown))
                except (ConnectionError, ssl.SSLError):
                    continue
                assert not await _is_let_in(client)

    asyncio.run(main())  # refused handshakes are told to the loop, too


def test_plain_text_on_a_port_of_tls_is_not_answered(folder: Path):
    async def main() -> None:
        async with served(**server_settings(folder, False)) as site:
            client = await site.client()
            client.send("PING")
            assert b"PONG" not in await client.rest()

    asyncio.run(main())


def test_files_that_cannot_be_used_are_named(folder: Path, tmp_path: Path):
    own, other = files(folder, "server"), files(folder, "client")
    nothing = str(tmp_path / "nothing.pem")
    empty = tmp_path / "empty.pem"
    empty.write_text("")
    for certificate, key, authority, named in (
        (nothing, own.key, "", nothing),
        (own.certificate, nothing, "", nothing),
        (own.certificate, other.key, "", own.certificate),
        (own.certificate, own.key, nothing, nothing),
        (own.certificate, own.key, str(empty), str(empty)),
    ):
        settings = Settings(tls_certificate=certificate, tls_key=key, tls_authority=authority)
        with pytest.raises(UnusableInputError) as caught:
            tls_context(settings)
        assert named in str(caught.value)
