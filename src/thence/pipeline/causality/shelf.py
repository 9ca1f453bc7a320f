"""Arrays kept in files between stages.

A file is a magic number, the length of a header, the header (msgpack: what belongs to the arrays,
and the name, type, shape and place of each), and the arrays as they are in memory, aligned.  A
local file is mapped, so that a task touches only the arrays it uses.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
import numpy as np

from thence.errors import UnusableInputError
from thence.trace.files import map_file, write_file

MAGIC: Final = b"thence01"
ALIGN_BYTES: Final = 64
_LENGTH_BYTES: Final = 8

Array = np.ndarray[Any, np.dtype[Any]]


class _Entry(msgspec.Struct, array_like=True):
    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int


class _Header(msgspec.Struct, array_like=True):
    meta: bytes
    entries: list[_Entry]


def save(path: str, meta: bytes, arrays: Mapping[str, Array]) -> None:
    """Write arrays and what belongs to them to one file, in one step."""
    entries, offset = [], 0
    flat = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    for name, array in flat.items():
        entries.append(_Entry(name, array.dtype.str, array.shape, offset))
        offset += _padded(array.nbytes)
    header = msgspec.msgpack.encode(_Header(meta, entries))
    start = len(MAGIC) + _LENGTH_BYTES + len(header)
    pieces: list[Any] = [MAGIC, len(header).to_bytes(_LENGTH_BYTES, "little"), header]
    pieces.append(bytes(_padded(start) - start))
    for array in flat.values():
        pieces.append(array.reshape(-1).view(np.uint8).data)
        pieces.append(bytes(_padded(array.nbytes) - array.nbytes))
    write_file(path, pieces)


def _padded(size: int) -> int:
    return -(-size // ALIGN_BYTES) * ALIGN_BYTES


def load(path: str) -> tuple[bytes, dict[str, Array]]:
    """What ``save`` wrote; the arrays cannot be written to."""
    buffer = map_file(path)
    view = memoryview(buffer)
    if bytes(view[: len(MAGIC)]) != MAGIC:
        raise UnusableInputError(f"{path} is not a file of this version of thence's pipeline")
    start = len(MAGIC) + _LENGTH_BYTES
    length = int.from_bytes(view[len(MAGIC) : start], "little")
    header = msgspec.msgpack.decode(view[start : start + length], type=_Header)
    first = _padded(start + length)
    arrays = {}
    for entry in header.entries:
        dtype = np.dtype(entry.dtype)
        count = int(np.prod(entry.shape))
        array = np.frombuffer(view, dtype, count, first + entry.offset) if count else None
        arrays[entry.name] = (
            np.zeros(entry.shape, dtype) if array is None else array.reshape(entry.shape)
        )
    return header.meta, arrays
