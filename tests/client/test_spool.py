"""Chunks that come in parts come out whole, wherever they were cut."""

from __future__ import annotations

import resource
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thence.client import spool as spool_module
from thence.client.spool import Spool

CHUNKS = st.lists(st.lists(st.binary(max_size=20), min_size=1, max_size=4), max_size=6)


@given(CHUNKS)
def test_chunks_come_out_as_they_went_in(chunks: list[list[bytes]]):
    spool = Spool()
    for parts in chunks:
        for at, part in enumerate(parts):
            spool.write(part, at == len(parts) - 1)
    whole = [b"".join(parts) for parts in chunks]
    assert list(spool.chunks()) == whole
    assert list(spool.chunks()) == whole, "and again"
    assert spool.bytes == sum(map(len, whole))
    spool.close()


def test_a_chunk_that_is_not_whole_is_left_out():
    spool = Spool()
    spool.write(b"one", True)
    spool.write(b"tw", False)
    assert list(spool.chunks()) == [b"one"]
    spool.close()


def test_an_empty_chunk_is_a_chunk():
    spool = Spool()
    spool.write(b"", True)
    spool.write(b"", True)
    assert list(spool.chunks()) == [b"", b""]
    spool.close()


def test_nothing_of_what_was_there_is_left_after_clear():
    spool = Spool()
    spool.write(b"a long chunk of another state", True)
    spool.write(b"half", False)
    spool.clear()
    assert (spool.bytes, list(spool.chunks())) == (0, [])
    spool.write(b"new", True)
    assert list(spool.chunks()) == [b"new"]
    spool.close()


def test_many_chunks_are_kept_in_a_file(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(spool_module, "MEMORY_BYTES_MAX", 1000)
    spool = Spool()
    for at in range(30):
        spool.write(bytes([at]) * 100, True)
    assert spool._file._rolled  # type: ignore[attr-defined]
    assert list(spool.chunks()) == [bytes([at]) * 100 for at in range(30)]
    spool.close()


@pytest.fixture
def small_files() -> Iterator[None]:
    """No file may be larger than 20 MB."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20 << 20, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def fill(spool: Spool) -> None:
    for _ in range(30):
        spool.write(b"x" * (1 << 20), True)
    spool.flush()


def test_a_full_disk_is_an_error_while_it_is_written_and_none_in_the_end(small_files: None):
    spool = Spool()
    with pytest.raises(OSError, match="File too large"):
        fill(spool)
    spool.close()
