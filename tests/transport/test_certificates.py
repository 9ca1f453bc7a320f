"""Certificates: what they hold, who may read the keys, and what is never replaced by accident."""

from __future__ import annotations

import shutil
import ssl
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from thence.errors import UnusableInputError
from thence.transport import tls
from thence.transport.certificates import (
    DAYS_MAX,
    describe,
    issue,
    make_authority,
    read_certificate,
)
from thence.transport.tls import TlsFiles, TlsTransport

NOW = datetime(2030, 5, 1, 12, tzinfo=UTC)


def mode(path: str | Path) -> int:
    return stat.S_IMODE(Path(path).stat().st_mode)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("authority")
    make_authority(folder)
    return folder


def test_an_authority_can_sign_for_nodes_and_nothing_below_them(tmp_path: Path):
    path = make_authority(tmp_path / "new" / "folder", days=10, now=NOW)
    assert sorted(p.name for p in path.parent.iterdir()) == ["ca.key", "ca.pem"]
    assert mode(path.with_name("ca.key")) == 0o600
    certificate = read_certificate(path)
    extensions = certificate.extensions
    assert extensions.get_extension_for_class(x509.BasicConstraints).value.path_length == 0
    said = describe(certificate)
    assert said.authority
    assert said.name == ""
    assert said.not_before == NOW - timedelta(hours=1)
    assert said.not_after == NOW + timedelta(days=10)


@pytest.mark.parametrize("name", ["a", "zoë & co", "..", "x" * 128])
def test_a_node_gets_key_certificate_and_authority(name: str, authority: Path, tmp_path: Path):
    files = issue(name, authority, tmp_path / "node", days=3)
    assert files == TlsFiles.of(tmp_path / "node", name)
    assert mode(files.key) == 0o600
    assert Path(files.ca).read_bytes() == (authority / "ca.pem").read_bytes()
    assert len(list((tmp_path / "node").iterdir())) == 3
    said = describe(read_certificate(Path(files.certificate)))
    assert said.name == name
    assert not said.authority
    assert said.not_after - said.not_before == timedelta(days=3, hours=1)
    assert TlsTransport(files).name == name


def test_they_meet_the_standard_by_the_letter(authority: Path, tmp_path: Path):
    """What Python 3.13 and later ask for by default."""
    files = issue("a", authority, tmp_path)
    sides = [
        tls._context(files, side) for side in (ssl.PROTOCOL_TLS_CLIENT, ssl.PROTOCOL_TLS_SERVER)
    ]
    for context in sides:
        context.verify_flags |= ssl.VERIFY_X509_STRICT
    assert tls._own_name(files, *sides) == "a"


def test_a_node_does_not_outlive_its_authority(tmp_path: Path):
    make_authority(tmp_path / "ca", days=5, now=NOW)
    files = issue("a", tmp_path / "ca", tmp_path / "a", days=365, now=NOW)
    said = describe(read_certificate(Path(files.certificate)))
    assert said.not_after == NOW + timedelta(days=5)
    late = NOW + timedelta(days=6)
    with pytest.raises(UnusableInputError, match="expired 2030-05-06; make a new one"):
        issue("b", tmp_path / "ca", tmp_path / "b", now=late)
    assert not (tmp_path / "b").exists()


def test_nothing_is_replaced_unless_asked(authority: Path, tmp_path: Path):
    make_authority(tmp_path / "ca")
    before = (tmp_path / "ca/ca.key").read_bytes()
    with pytest.raises(UnusableInputError, match=r"ca\.key exists already; --force replaces it"):
        make_authority(tmp_path / "ca")
    assert (tmp_path / "ca/ca.key").read_bytes() == before
    make_authority(tmp_path / "ca", force=True)
    assert (tmp_path / "ca/ca.key").read_bytes() != before

    files = issue("a", authority, tmp_path / "nodes")
    key = Path(files.key).read_bytes()
    with pytest.raises(UnusableInputError, match=r"a\.pem, .*a\.key exists already"):
        issue("a", authority, tmp_path / "nodes")
    with pytest.raises(UnusableInputError, match=r"ca\.pem is of another authority"):
        issue("b", tmp_path / "ca", tmp_path / "nodes")
    assert Path(files.key).read_bytes() == key
    assert TlsTransport(files).name == "a"
    assert sorted(p.name for p in (tmp_path / "nodes").iterdir()) == ["a.key", "a.pem", "ca.pem"]
    issue("a", authority, tmp_path / "nodes", force=True)
    assert Path(files.key).read_bytes() != key
    assert mode(files.key) == 0o600


def test_a_key_that_others_could_read_is_not_left_so(authority: Path, tmp_path: Path):
    files = issue("a", authority, tmp_path)
    Path(files.key).chmod(0o644)
    issue("a", authority, tmp_path, force=True)
    assert mode(files.key) == 0o600


@pytest.mark.parametrize("name", ["", "a/b", "a:1", "a#2", "x" * 129, "a\nb", "ca", "CA"])
def test_a_name_must_be_one(name: str, authority: Path, tmp_path: Path):
    with pytest.raises(UnusableInputError):
        issue(name, authority, tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("days", [0, -1, DAYS_MAX + 1])
def test_days_are_bounded(days: int, authority: Path, tmp_path: Path):
    for make in (
        lambda: make_authority(tmp_path, days=days),
        lambda: issue("a", authority, tmp_path, days=days),
    ):
        with pytest.raises(UnusableInputError, match=f"{days} days: a certificate is valid for 1"):
            make()


def test_what_is_no_authority_is_refused(authority: Path, tmp_path: Path):
    with pytest.raises(FileNotFoundError):
        issue("a", tmp_path, tmp_path)
    other = tmp_path / "other"
    make_authority(other)
    (other / "ca.pem").write_bytes((authority / "ca.pem").read_bytes())
    with pytest.raises(UnusableInputError, match=r"ca\.key is not the key of ca\.pem"):
        issue("a", other, tmp_path)
    (other / "ca.pem").write_text("nothing")
    with pytest.raises(UnusableInputError, match="no certificate in it"):
        issue("a", other, tmp_path)
    (other / "ca.pem").write_bytes((authority / "ca.pem").read_bytes())
    (other / "ca.key").write_text("nothing")
    with pytest.raises(UnusableInputError, match="not a private key"):
        issue("a", other, tmp_path)


def test_a_node_is_no_authority(authority: Path, tmp_path: Path):
    """What a node signs with its own key is worth nothing."""
    files = issue("a", authority, tmp_path / "a")
    forged = tmp_path / "forged"
    forged.mkdir()
    shutil.copy(files.certificate, forged / "ca.pem")
    shutil.copy(files.key, forged / "ca.key")
    with pytest.raises(UnusableInputError, match="is not an authority"):
        issue("b", forged, tmp_path / "b")
