"""The layout that the table in the module promises, byte by byte."""

from __future__ import annotations

from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thence.link import datagram as d
from thence.link.reliable import Link


def test_a_hello_in_bytes():
    body = bytes([1, 1]) + (0xA1B2C3D4E5F60718).to_bytes(8) + bytes(16)
    assert d.opening(d.HELLO, 0xA1B2C3D4E5F60718) == body + crc32(body).to_bytes(4, "little")


def test_an_accept_in_bytes():
    assert d.short(d.ACCEPT, 1).hex() == "01040000000000000001d262a326"


def test_a_data_packet_in_bytes():
    link = Link(7, 0.0, dialled=False)
    link.outgoing(0.0)
    link.send(b"abc")
    (datagram,) = link.outgoing(0.0)
    head = "0108000000000000000700000000000000000000000000000000010000"
    assert datagram[:-4].hex() == head + "00000003" + b"abc".hex()


def test_no_answer_of_the_opening_is_longer_than_its_question():
    assert len(d.opening(d.COOKIE, 1, bytes(16))) <= len(d.opening(d.HELLO, 1))
    assert len(d.short(d.ACCEPT, 1)) <= len(d.opening(d.OPEN, 1))
    assert len(d.short(d.RESET, 1)) <= d.PACKET_BYTES_MIN


@pytest.mark.parametrize("kind", [d.HELLO, d.COOKIE, d.OPEN])
def test_whole_datagrams_are_told_apart(kind: int):
    assert d.kind_of(d.opening(kind, 5)) == kind
    assert d.connection_of(d.opening(kind, 5)) == 5
    assert d.kind_of(d.opening(kind, 5) + b"x") == 0


def test_another_version_is_no_datagram():
    assert d.kind_of(d.sealed(b"\2" + d.short(d.RESET, 1)[1:-4])) == 0


@given(st.binary(max_size=1500))
def test_any_bytes_have_a_kind_or_none(data: bytes):
    assert d.kind_of(data) in range(12)
    d.connection_of(data)


@given(st.integers(0, 13 * 8 - 1), st.sampled_from([d.ACCEPT, d.RESET]))
def test_any_flipped_bit_is_found(bit: int, kind: int):
    changed = bytearray(d.short(kind, 77))
    changed[bit // 8] ^= 1 << bit % 8
    assert d.kind_of(bytes(changed)) == 0
