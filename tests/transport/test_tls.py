"""``tls://``: names are proved on both sides; who cannot is refused, with a reason, counted."""

from __future__ import annotations

import asyncio
import os
import ssl
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.transport.peers import Recorder, Reports, World, certificates, each_loop, files_of, run
from thence.errors import UnreachableError, UnusableInputError
from thence.transport import tls
from thence.transport.base import Url
from thence.transport.certificates import issue, make_authority
from thence.transport.tcp import TcpTransport
from thence.transport.tls import NODE_URI, TlsFiles, TlsTransport, node_uri, proved_name
from thence.transport.watch import (
    BAD_CERTIFICATE,
    BAD_FRAME,
    NEVER_TRUSTED,
    NO_TLS,
    REFUSED_BY_PEER,
    TLS_FAILED,
    Limits,
)
from thence.wire.frame import frame

LONG_AGO = datetime(2001, 1, 1, tzinfo=UTC)


@cache
def of_another_authority() -> TlsFiles:
    """A certificate that is fine, but signed by somebody else; it trusts the group's authority."""
    _, nodes = certificates()
    folder = nodes.parent / "stranger"
    make_authority(folder / "authority")
    files = issue("near", folder / "authority", folder / "nodes")
    return TlsFiles(files.certificate, files.key, files_of("near").ca)


@cache
def expired() -> TlsFiles:
    authority, nodes = certificates()
    return issue("near", authority, nodes.parent / "expired", now=LONG_AGO, days=30)


def signed(folder: str, names: list[x509.GeneralName]) -> TlsFiles:
    """A certificate of the group's authority with these names in it."""
    authority, nodes = certificates()
    signer = x509.load_pem_x509_certificate((authority / "ca.pem").read_bytes())
    ca_key = serialization.load_pem_private_key((authority / "ca.key").read_bytes(), None)
    assert isinstance(ca_key, ec.EllipticCurvePrivateKey)
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "near")]))
        .issuer_name(signer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    path = nodes.parent / folder
    path.mkdir(exist_ok=True)
    pem = serialization.Encoding.PEM
    (path / "cert.pem").write_bytes(builder.sign(ca_key, hashes.SHA256()).public_bytes(pem))
    (path / "key.pem").write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return TlsFiles(
        os.fspath(path / "cert.pem"), os.fspath(path / "key.pem"), os.fspath(authority / "ca.pem")
    )


@cache
def nameless() -> TlsFiles:
    return signed("nameless", [x509.DNSName("near"), x509.UniformResourceIdentifier("http://near")])


@cache
def two_names() -> TlsFiles:
    uris = [x509.UniformResourceIdentifier(node_uri(name)) for name in ("near", "far")]
    return signed("two-names", [*uris])


BAD = {
    "another authority": (of_another_authority, "unable to get local issuer|self-signed"),
    "expired": (expired, "certificate has expired"),
    "no name": (nameless, "it names no node"),
    "two names": (two_names, "it names 2 nodes"),
}
each_bad = pytest.mark.parametrize("bad", BAD)


def with_files(transport: object, files: TlsFiles) -> None:
    """Make a transport show what it would have refused to show at its start."""
    assert isinstance(transport, TlsTransport)
    transport._client = tls._context(files, ssl.PROTOCOL_TLS_CLIENT)
    transport._server = tls._context(files, ssl.PROTOCOL_TLS_SERVER)


@each_loop
@each_bad
def test_a_listener_refuses_a_bad_certificate_and_the_dialler_learns_it(bad: str, loop: str):
    files, reason = BAD[bad]

    async def main() -> None:
        world = World("tls")
        with_files(world.near_transport, files())
        await world.listen()
        with pytest.raises(UnreachableError) as failure:
            await world.near_transport.dial(world.listener.url, world.near)
        assert not world.near.connections
        assert not world.far.connections
        ((what, detail),) = world.far_reports
        assert what == BAD_CERTIFICATE
        assert "the peer's certificate is refused: " in detail
        assert any(part in detail for part in reason.split("|"))
        ((what, _),) = world.near_reports
        assert what == (TLS_FAILED if "name" in bad else REFUSED_BY_PEER)
        said = "its log says why" if "name" in bad else "this node's certificate"
        assert said in str(failure.value)
        await world.listener.close()

    run(loop, main())


@each_loop
@each_bad
def test_a_dialler_refuses_a_bad_certificate_and_the_listener_learns_it(bad: str, loop: str):
    files, reason = BAD[bad]

    async def main() -> None:
        world = World("tls")
        with_files(world.far_transport, files())
        await world.listen()
        with pytest.raises(UnreachableError, match=f"certificate is refused: .*({reason})"):
            await world.near_transport.dial(world.listener.url, world.near)
        while not world.far_reports:
            await asyncio.sleep(0.001)
        assert world.near_reports.kinds == [BAD_CERTIFICATE]
        assert world.far_reports.kinds == [TLS_FAILED if "name" in bad else REFUSED_BY_PEER]
        assert not world.near.connections
        assert not world.far.connections
        await world.listener.close()

    run(loop, main())


@each_loop
def test_names_are_proved_on_both_sides_wherever_nodes_are(loop: str):
    async def main() -> None:
        near, far = Recorder(), Recorder()
        here, there = TlsTransport(files_of("zoë & co")), TlsTransport(files_of("far"))
        assert (here.name, there.name) == ("zoë & co", "far")
        listener = await there.listen(Url("tls", "localhost", 0), far)
        dialled = await here.dial(listener.url, near)
        accepted = await far.first()
        assert dialled.peer_name == "far"
        assert accepted.peer_name == "zoë & co"
        dialled.close("done")
        await far.reason(accepted)
        await near.reason(dialled)
        await listener.close()

    run(loop, main())


def open_context(version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> ssl.SSLContext:
    """A client that shows nothing and checks nothing."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.maximum_version = version
    return context


@each_loop
def test_a_peer_without_certificate_is_refused(loop: str):
    async def main() -> None:
        world = World("tls", Limits(close_s=0.1))
        await world.listen()
        port = world.listener.url.port
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=open_context())
        writer.write(frame(1, b"let me in"))
        with pytest.raises(ssl.SSLError, match=r"(?i)certificate.required"):
            await reader.read()
        writer.close()
        ((what, detail),) = world.far_reports
        assert what == BAD_CERTIFICATE
        assert "the peer showed no certificate" in detail
        assert not world.far.connections
        await world.listener.close()

    run(loop, main())


@each_loop
def test_older_tls_is_refused(loop: str):
    async def main() -> None:
        world = World("tls", Limits(close_s=0.1))
        await world.listen()
        old = open_context(ssl.TLSVersion.TLSv1_2)
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await asyncio.open_connection("127.0.0.1", world.listener.url.port, ssl=old)
        ((what, detail),) = world.far_reports
        assert what == TLS_FAILED
        assert "the peer does not speak TLS 1.3" in detail
        await world.listener.close()

    run(loop, main())


@each_loop
def test_plain_tcp_to_a_port_of_tls_is_told_apart(loop: str):
    async def main() -> None:
        world = World("tls")
        await world.listen()
        plain = await TcpTransport().dial(
            Url("tcp", "127.0.0.1", world.listener.url.port), world.near
        )
        plain.send(frame(1, b"hello"))
        assert await world.near.reason(plain)
        ((what, detail),) = world.far_reports
        assert what == NO_TLS
        assert "the peer speaks plain tcp, and this is TLS" in detail
        assert not world.far.connections
        await world.listener.close()

    run(loop, main())


@each_loop
@pytest.mark.parametrize("greets", [False, True], ids=["silent", "greeting"])
def test_tls_to_a_port_of_plain_tcp_is_told_apart(greets: bool, loop: str):
    class Greeter(Recorder):
        def connected(self, connection):  # type: ignore[no-untyped-def]
            super().connected(connection)
            if greets:
                connection.send(frame(1, b"hello"))

    async def main() -> None:
        plain, reports = Greeter(), Reports()
        listener = await TcpTransport(report=reports).listen(Url("tcp", "127.0.0.1", 0), plain)
        dialler = TlsTransport(files_of("near"))
        expected = "speaks plain tcp" if greets else "closed the connection during the handshake"
        with pytest.raises(UnreachableError, match=expected):
            await dialler.dial(Url("tls", "127.0.0.1", listener.url.port), Recorder())
        reason = await plain.reason(await plain.first())
        if not greets:  # the other side breaks off first then
            assert reason == "the peer speaks TLS, and this is plain tcp"
            assert reports.kinds == [BAD_FRAME]
        await listener.close()

    run(loop, main())


@each_loop
@pytest.mark.parametrize("start", [b"", b"\x16\x03\x01"], ids=["silent", "half a record"])
def test_a_handshake_that_stalls_is_given_up(start: bytes, loop: str):
    async def main() -> None:
        world = World("tls", Limits(greeting_s=0.1))
        await world.listen()
        _, writer = await asyncio.open_connection("127.0.0.1", world.listener.url.port)
        writer.write(start)
        while not world.far_reports:
            await asyncio.sleep(0.005)
        assert world.far_reports.kinds == [NEVER_TRUSTED]
        assert not world.far.connections
        writer.close()
        await world.listener.close()

    run(loop, main())


@each_loop
def test_a_listener_that_never_answers_the_handshake_is_given_up(loop: str):
    async def main() -> None:
        seen: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

        async def deaf(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                seen.set_result(await reader.read())
            except ConnectionError:
                seen.set_result(b"a reset")
            writer.close()

        server = await asyncio.start_server(deaf, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        dialler = TlsTransport(files_of("near"), limits=Limits(dial_s=0.1))
        with pytest.raises(UnreachableError, match=r"no answer within 0\.1 s"):
            await dialler.dial(Url("tls", "127.0.0.1", port), Recorder())
        async with asyncio.timeout(4.0):  # earlier than the deadline for greetings
            assert await seen
        server.close()

    run(loop, main())


@each_loop
def test_garbage_within_tls_is_refused(loop: str):
    """A record that was changed on its way."""

    async def main() -> None:
        world = World("tls", Limits(close_s=0.1))
        near, far = await world.connect()
        near._transport.write(b"\x17\x03\x03\x00\x20" + bytes(32))  # type: ignore[attr-defined]
        assert "TLS failed: " in await world.far.reason(far)
        assert world.far_reports.kinds == [TLS_FAILED]
        await world.near.reason(near)
        await world.end()

    run(loop, main())


def test_the_name_in_a_certificate():
    def with_uris(*uris: str) -> dict[str, object]:
        return {"subjectAltName": (("DNS", "x"), *(("URI", uri) for uri in uris))}

    assert proved_name(with_uris(NODE_URI + "a")) == "a"
    assert proved_name(with_uris("http://x", NODE_URI + "zo%C3%AB%20%26")) == "zoë &"
    for name in ("a", "zoë & co", "%41", "a.b-c_d~e"):
        assert proved_name(with_uris(node_uri(name))) == name
    for uris, reason in (
        ((), "names no node"),
        (("thence://group/a",), "names no node"),
        ((NODE_URI,), "not a name"),
        ((NODE_URI + "a/b",), "not a name"),
        ((NODE_URI + "a%2Fb",), "not a name"),
        ((NODE_URI + "a%00",), "not a name"),
        ((NODE_URI + "%FF",), "not a name"),
        ((NODE_URI + "a" * 129,), "not a name"),
        ((NODE_URI + "a", NODE_URI + "a"), "names 2 nodes"),
    ):
        with pytest.raises(ValueError, match=reason):
            proved_name(with_uris(*uris))
    with pytest.raises(ValueError, match="names no node"):
        proved_name(None)


@each_bad
def test_a_node_whose_own_certificate_would_be_refused_says_so_at_once(bad: str):
    files, reason = BAD[bad]
    with pytest.raises(UnusableInputError, match=f"cannot be used.*: .*({reason})"):
        TlsTransport(files())


def test_files_that_cannot_be_used_are_named(tmp_path: Path):
    good, other = files_of("near"), files_of("far")
    text = tmp_path / "text.pem"
    text.write_text("nothing of the kind")
    locked = tmp_path / "locked.key"
    key = serialization.load_pem_private_key(Path(good.key).read_bytes(), None)
    locked.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    missing = str(tmp_path / "missing.pem")
    for files, sentence in (
        (TlsFiles(missing, good.key, good.ca), "missing.pem: No such file"),
        (TlsFiles(good.certificate, missing, good.ca), "missing.pem: No such file"),
        (TlsFiles(good.certificate, good.key, missing), "missing.pem: No such file"),
        (TlsFiles(good.certificate, other.key, good.ca), "does not belong to the certificate"),
        (TlsFiles(good.certificate, str(text), good.ca), "not a PEM file without password"),
        (TlsFiles(good.certificate, str(locked), good.ca), "not a PEM file without password"),
        (TlsFiles(str(text), good.key, good.ca), "not a PEM file without password"),
        (TlsFiles(good.certificate, good.key, str(text)), "no certificate in it"),
    ):
        with pytest.raises(UnusableInputError, match=sentence):
            TlsTransport(files)


@each_loop
def test_an_authority_can_be_replaced_step_by_step(tmp_path: Path, loop: str):
    """While ``ca.pem`` holds both, nodes with old and new certificates know each other."""
    old, _ = certificates()
    make_authority(tmp_path / "new")
    renewed = issue("far", tmp_path / "new", tmp_path / "nodes")
    both = tmp_path / "both.pem"
    both.write_bytes((old / "ca.pem").read_bytes() + (tmp_path / "new/ca.pem").read_bytes())
    first = files_of("near")

    async def main() -> None:
        near, far = Recorder(), Recorder()
        here = TlsTransport(TlsFiles(first.certificate, first.key, str(both)))
        there = TlsTransport(TlsFiles(renewed.certificate, renewed.key, str(both)))
        listener = await there.listen(Url("tls", "127.0.0.1", 0), far)
        connection = await here.dial(listener.url, near)
        assert connection.peer_name == "far"
        connection.close("done")
        await near.reason(connection)
        await listener.close()

    run(loop, main())
